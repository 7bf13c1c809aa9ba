import numpy as np
import pytest

from regard import lab
from regard.core.errors import ConfigError
from regard.lab.claims import learned as module

N = 400


def compared(monkeypatch, *leads, n=N):
    """The verdict where learned positions lead by so many of ``n`` sentences, a seed each."""
    sides = iter(leads)

    def one(_beside, _seed, _steps):
        lead = next(sides)
        right = [np.arange(n) < n // 2 + more for more in (max(lead, 0), max(-lead, 0))]
        return module._Compared(*right)

    monkeypatch.setattr(module, "_compared", one)
    return module.learned(seeds=range(len(leads)))


def test_a_difference_that_surely_lies_within_the_margin_is_none(monkeypatch):
    result = compared(monkeypatch, -8, 4, 2)
    assert result.verdict
    assert result.numbers["mean difference"] == pytest.approx(-2 / (3 * N))
    low, high = result.numbers["95 % interval"]
    assert -module.MARGIN < low < 0 < high < module.MARGIN


@pytest.mark.parametrize("leads", [(60, 56, 64), (-60, -56, -64)])
def test_one_that_leads_by_far_is_better(monkeypatch, leads):
    assert not compared(monkeypatch, *leads).verdict


def test_trainings_that_differ_much_say_nothing(monkeypatch):
    """On average they are equal, but another training might lead by far."""
    result = compared(monkeypatch, 80, -80, 0)
    assert result.numbers["mean difference"] == pytest.approx(0)
    assert not result.verdict


def test_few_sentences_say_nothing(monkeypatch):
    """That no difference can be shown is not that there is none."""
    assert not compared(monkeypatch, 1, -1, 0, n=10).verdict


@pytest.mark.slow
def test_learned_positions_are_better_than_none():
    result = lab.learned(beside="none", seeds=(1,), steps=250)
    assert not result.verdict
    assert result.numbers["mean difference"] > 0.1
    (table,) = result.tables
    assert table.header[2] == "None"


def test_unknown_positions_are_refused_before_anything_is_trained(monkeypatch):
    monkeypatch.setattr(module, "_right", lambda *_: pytest.fail("it was trained"))
    with pytest.raises(ConfigError, match="sinusoidal"):
        lab.learned(beside="sinus")
