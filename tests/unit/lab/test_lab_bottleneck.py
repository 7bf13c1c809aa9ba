from functools import cache

import pytest

from regard import lab
from regard.lab.claims import bottleneck as module
from regard.lab.claims.bottleneck import SAME, _LearnedLengths
from regard.lab.translators import translator

once = cache(translator)  # the system that both experiments have is trained once


@pytest.fixture
def only_the_same(monkeypatch):
    monkeypatch.setattr(module, "ATTENDING", {SAME: module.ATTENDING[SAME]})
    monkeypatch.setattr(module, "translator", once)


@pytest.mark.usefixtures("only_the_same")
def test_one_vector_gets_worse_with_length_and_attention_less_so():
    result = lab.bottleneck(steps=110)
    assert result.verdict
    numbers = result.numbers
    assert numbers["right tokens, short: sutskever2014"] > 0.7
    assert numbers["right tokens, long: sutskever2014"] < 0.6
    assert numbers[f"right tokens, long: {SAME}"] > 0.7


@pytest.mark.usefixtures("only_the_same")
def test_where_the_first_system_attends_too_it_does_not_fall_further():
    result = lab.bottleneck(fixed_vector=False, steps=110)
    assert not result.verdict
    assert result.numbers["right tokens, long: luong2015"] > 0.7


def test_a_fall_is_from_the_mean_of_short_sources_to_that_of_long_ones():
    accuracy = {3: 1.0, 4: 0.9, 5: 0.0, 7: 0.0, 8: 0.6, 9: 0.5, 10: 0.4}
    assert _LearnedLengths(accuracy, accuracy, 1).fall == pytest.approx(0.95 - 0.5)
