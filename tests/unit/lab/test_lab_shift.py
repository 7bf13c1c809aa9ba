import pytest
import torch

from regard import lab
from regard.core.errors import ConfigError
from regard.lab.claims.shift import (
    FIRST,
    PHRASE,
    SECOND,
    WORDS,
    Head,
    _Found,
    _smooth,
    looking_back,
)


def test_sinusoids_find_the_word_before_in_both_sentences():
    result = lab.shift(steps=150)
    assert result.verdict
    assert result.numbers["least weight on the word before: sinusoidal"] > 0.8
    assert result.numbers["least weight on the word before: append t"] < 0.5


@pytest.mark.parametrize("positions", ["none", "append t", "index"])
def test_told_nothing_or_a_number_it_does_not(positions):
    assert not lab.shift(positions=positions, steps=40).verdict


def test_without_positions_every_order_has_the_same_weights():
    head = Head("none")
    ids = torch.tensor([[WORDS.index(word) for word in FIRST]])
    turned = head(ids.flip(1))
    assert torch.allclose(head(ids), turned.flip(1, 2), atol=1e-6)


def test_with_t_appended_scores_are_linear_in_the_place_of_the_key():
    head = Head("index")
    same = head(torch.zeros(1, 8, dtype=torch.long)).log()[0]
    steps = same.diff(dim=1)
    assert torch.allclose(steps, steps[:, :1].expand_as(steps), atol=1e-4)


def test_the_phrase_stands_in_both_sentences_at_different_places():
    for sentence in (FIRST, SECOND):
        start = sentence.index("I")
        assert sentence[start : start + len(PHRASE)] == PHRASE
    assert FIRST.index("I") != SECOND.index("I")


def test_the_least_weight_is_that_of_the_phrase_alone():
    weights = torch.zeros(7, 7)
    for t, weight in ((1, 0.1), (2, 0.2), (4, 0.9), (5, 0.7), (6, 0.8)):
        weights[t, t - 1] = weight
    assert _Found({SECOND: weights}, []).on_before(SECOND) == pytest.approx(0.7)


def test_a_training_is_the_same_for_a_seed():
    first, again = (looking_back("learned", 3, seed=1) for _ in range(2))
    assert first.losses == again.losses


def test_losses_are_drawn_as_means():
    assert _smooth([1.0, 3.0, 5.0, 7.0], width=2) == {1.0: 2.0, 3.0: 6.0}


def test_unknown_positions_are_refused():
    with pytest.raises(ConfigError, match="sinusoidal"):
        lab.shift(positions="sinus", steps=1)
