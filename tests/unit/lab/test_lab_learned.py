import pytest

from regard import lab
from regard.core.errors import ConfigError
from regard.evaluation.systems import Bootstrap
from regard.lab.claims import learned as module


def compared(monkeypatch, *found):
    """The verdict on these (difference, p), a seed each."""
    pairs = iter(found)

    def one(_beside, _seed, _steps):
        difference, p = next(pairs)
        ends = (difference - 0.02, difference + 0.02)
        return Bootstrap(0.5 + difference, 0.5, difference, p, ends)

    monkeypatch.setattr(module, "_compared", one)
    return module.learned(seeds=range(len(found)))


def test_differences_that_change_their_sign_are_luck(monkeypatch):
    result = compared(monkeypatch, (-0.05, 0.004), (0.04, 0.004), (0.01, 0.04))
    assert result.verdict
    assert "for seed 0, 1 and 2" in result.finding


@pytest.mark.parametrize(
    "found",
    [
        [(0.05, 0.01), (0.06, 0.02), (0.04, 0.03)],  # small, but sure every time
        [(-0.3, 0.01), (-0.2, 0.2), (-0.1, 0.3)],  # large, if not sure
    ],
)
def test_one_that_leads_every_time_or_by_far_is_better(monkeypatch, found):
    assert not compared(monkeypatch, *found).verdict


def test_learned_positions_are_better_than_none():
    result = lab.learned(beside="none", seeds=(1,), steps=250)
    assert not result.verdict
    assert result.numbers["mean difference"] > 0.1
    (table,) = result.tables
    assert table.header[2] == "None"


def test_unknown_positions_are_refused_before_anything_is_trained(monkeypatch):
    monkeypatch.setattr(module, "_translations", lambda *_: pytest.fail("it was trained"))
    with pytest.raises(ConfigError, match="sinusoidal"):
        lab.learned(beside="sinus")
