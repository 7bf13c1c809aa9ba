import pytest

from regard import lab
from regard.lab.claims import extrapolation as module


@pytest.fixture(autouse=True)
def two_ways(monkeypatch):
    """Concatenated, for that is learned soonest."""
    ways = {way: (*module.WAYS[way], "join=concat") for way in (module.TABLE, module.SINUSOIDAL)}
    monkeypatch.setattr(module, "WAYS", ways)


def test_sinusoids_fail_beyond_the_lengths_of_training_and_a_table_refuses():
    result = lab.extrapolation(steps=100)
    assert not result.verdict
    assert result.numbers["exact match, up to 10 symbols: sinusoidal"] > 0.5
    assert result.numbers["exact match, 11 to 15 symbols: sinusoidal"] < 0.05
    assert result.numbers["exact match, 11 to 15 symbols: learned, 11 places"] == 0
    refusal = result.numbers["longest source: learned, 11 places"]
    assert refusal.startswith("refused: learned positions know 11 places, but the text has 16")


def test_at_lengths_that_training_showed_both_translate():
    result = lab.extrapolation(shortest=3, longest=5, steps=100)
    assert result.verdict
    assert result.numbers["exact match, 3 to 5 symbols: learned, 11 places"] > 0.5
    assert "refused" not in result.numbers["longest source: learned, 11 places"]


def test_training_shows_what_the_experiment_says_it_shows():
    _, data = module.toy_translator("copy", steps=1, seed=1)
    assert max(len(pair.source.split()) for pair in data.splits["train"]) == module.SHOWN
