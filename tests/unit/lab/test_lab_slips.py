import math

import pytest
import torch

from regard import lab
from regard.functional.positions import sinusoid
from regard.lab.claims.slips import _exponent, _Measured, _recalled, _slips, word_losses


@pytest.fixture(scope="module")
def result():
    return lab.slips(steps=120)


def test_every_slip_makes_a_difference(result):
    assert result.verdict
    assert len(result.tables[0].rows) == 10
    numbers = result.numbers
    assert numbers["the sinusoid’s exponent, as printed: different columns of 64"] == 2
    assert numbers["the sinusoid’s exponent, as meant: different columns of 64"] == 64
    assert numbers["a key’s index, as printed: largest weight over 8 words"] == pytest.approx(1 / 8)
    assert numbers["a context of weights, as printed: spread of a context over 100 texts"] == 0


def test_corrected_nothing_is_off():
    result = lab.slips(corrected=True, steps=2)
    assert not result.verdict
    assert all(name in result.finding for name in _slips(1))


def test_as_meant_the_sinusoid_is_the_papers():
    assert torch.equal(_exponent(False), sinusoid(torch.arange(100), 64).double())
    printed = _exponent(True)
    assert printed[3, 20].item() == pytest.approx(math.sin(3 / 10_000 ** (3 / 64)))
    assert printed[3, 21].item() == pytest.approx(math.cos(3 / 10_000 ** (2 / 64)))


def test_values_of_its_own_serve_a_narrow_head_better():
    assert _recalled(False, 200, seed=1) > _recalled(True, 200, seed=1) + 0.05


def test_the_printed_table_holds_logarithms(result):
    rows = {row[0]: row[1:] for row in result.tables[1].rows}
    assert rows["lecture 001’s table, first row"] == ("5.05", "155.9")
    assert rows["lecture 001’s table, last row"] == ("1.90", "6.7")


def test_a_model_that_knows_nothing_has_a_perplexity_of_all_words():
    losses = word_losses()
    (nothing, often, follows) = losses.values()
    (name, *_) = losses
    assert name == f"all {round(math.exp(nothing))} words alike"
    assert nothing > often > follows


@pytest.mark.parametrize(
    ("printed", "meant", "matters"), [(1, 1, False), (0, 1, True), (2, 1, True)]
)
def test_what_matters_differs_by_more_than_rounding(printed, meant, matters):
    assert _Measured(printed, meant * (1 + 1e-9)).matters == matters
