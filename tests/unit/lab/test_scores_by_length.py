import pytest

from regard.data.records import Pair
from regard.lab.translators import accuracy_by_length, exact_by_length, toy_translator

PAIRS = [Pair("a b", "b a"), Pair("c d", "d c"), Pair("a b c", "c b a")]


def test_exact_matches_are_averaged_over_sources_of_one_length():
    assert exact_by_length(PAIRS, ["b  a", "c d", "c b a"]) == {2: 0.5, 3: 1.0}


def test_accuracy_is_the_share_of_tokens_that_the_model_would_have_said():
    run, _ = toy_translator("reverse", steps=40, seed=1)
    scores = accuracy_by_length(run, PAIRS)
    shares = [
        sum(one.right.tolist()) / len(one.right)
        for one in run.token_scores([p.source for p in PAIRS], [p.target for p in PAIRS])
    ]
    assert sum(shares) > 0
    assert scores == pytest.approx({2: (shares[0] + shares[1]) / 2, 3: shares[2]})


def test_a_seed_decides_what_is_learned():
    runs = [toy_translator("copy", steps=3, seed=seed).run for seed in (1, 1, 2)]
    one, same, other = (run.score(["a b"], ["a b"]) for run in runs)
    assert one == same != other
