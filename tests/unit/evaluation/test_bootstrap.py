import random
from dataclasses import replace

import pytest

from regard.core.errors import ConfigError, DataError
from regard.evaluation.metrics import METRICS
from regard.evaluation.systems import paired_bootstrap
from regard.evaluation.text_metrics import bleu, chrf, gleu, rouge_l

WORDS = ("the", "cat", "dog", "sat", "ran", "on", "under", "mat", "tree", "and", "slept")


def corpus(n=40, seed=1):
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(4, 12))) for _ in range(n)]


def damaged(lines, share, seed=2):
    """Each word is replaced by a wrong one with the given probability."""
    rng = random.Random(seed)
    return [" ".join("x" if rng.random() < share else w for w in line.split()) for line in lines]


REFERENCES = corpus()
GOOD, BAD = damaged(REFERENCES, 0.1), damaged(REFERENCES, 0.4)


SCORES = [("bleu", bleu), ("chrf", chrf), ("gleu", gleu), ("rouge_l", rouge_l)]


@pytest.mark.parametrize(("metric", "score"), SCORES)
def test_on_the_whole_set_the_scores_are_the_metrics(metric, score):
    got = paired_bootstrap(GOOD, BAD, REFERENCES, metric=metric, n=5)
    assert got.a == pytest.approx(score(GOOD, REFERENCES), abs=1e-9)
    assert got.b == pytest.approx(score(BAD, REFERENCES), abs=1e-9)
    assert got.difference == got.a - got.b


@pytest.mark.parametrize(("metric", "score"), SCORES)
def test_a_draw_scores_as_the_same_sentences_written_out(metric, score):
    # Two sentences and many draws: only three differences are possible.
    a, b, references = GOOD[:2], BAD[:2], REFERENCES[:2]
    possible = [
        score([a[i] for i in draw], [references[i] for i in draw])
        - score([b[i] for i in draw], [references[i] for i in draw])
        for draw in ((0, 0), (0, 1), (1, 1))
    ]
    low, high = paired_bootstrap(a, b, references, metric=metric, n=200).interval
    assert low == pytest.approx(min(possible))
    assert high == pytest.approx(max(possible))


@pytest.mark.parametrize("metric", ["bleu", "chrf", "gleu"])
def test_clearly_different_systems_differ_significantly_whoever_comes_first(metric):
    for a, b, sign in ((GOOD, BAD, 1), (BAD, GOOD, -1)):
        got = paired_bootstrap(a, b, REFERENCES, metric=metric, n=400)
        assert got.difference * sign > 0
        assert got.p_value == pytest.approx(2 / 401)  # no draw denied it
        assert got.interval[0] * sign > 0
        assert got.interval[0] < got.difference < got.interval[1]


def test_identical_systems_do_not_differ():
    got = paired_bootstrap(GOOD, GOOD, REFERENCES, n=50)
    assert (got.difference, got.p_value, got.interval) == (0.0, 1.0, (0.0, 0.0))


def test_equally_good_systems_are_seldom_called_different():
    """If nothing is different, p < 0.05 should come up about once in twenty: here 3 of 60 times."""
    false_alarms = 0
    for seed in range(60):
        references = corpus(seed=seed)
        a, b = damaged(references, 0.2, 2 * seed + 1000), damaged(references, 0.2, 2 * seed + 1001)
        got = paired_bootstrap(a, b, references, n=100)
        false_alarms += got.p_value < 0.05
    assert false_alarms <= 5  # a one-sided test would give 6


def test_the_same_seed_gives_the_same_draws_and_another_does_not():
    again = [paired_bootstrap(GOOD, BAD, REFERENCES, n=30, seed=s) for s in (3, 3, 4)]
    assert again[0] == again[1]
    assert again[0].interval != again[2].interval


def test_a_metric_we_do_not_have_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'bleu'"):
        paired_bootstrap(GOOD, BAD, REFERENCES, metric="blue")


def test_a_metric_that_is_no_mean_of_texts_is_refused(monkeypatch):
    def longest(predictions, references):
        return float(max(map(len, predictions)))

    monkeypatch.setitem(METRICS._things, "longest", replace(METRICS["gleu"], function=longest))
    with pytest.raises(ConfigError, match="longest is not a mean of texts"):
        paired_bootstrap(GOOD, BAD, REFERENCES, metric="longest")


def test_no_draws_are_refused():
    with pytest.raises(ConfigError, match="n=0"):
        paired_bootstrap(GOOD, BAD, REFERENCES, n=0)


def test_unequal_counts_are_refused():
    with pytest.raises(DataError, match="40 a, 39 b, 40 references"):
        paired_bootstrap(GOOD, BAD[1:], REFERENCES)


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_a_system_that_writes_nothing_scores_zero(metric):
    got = paired_bootstrap([""] * 40, GOOD, REFERENCES, metric=metric, n=10)
    assert got.a == 0.0
