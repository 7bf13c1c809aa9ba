import pytest

from regard import lab

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def forced():
    return lab.forcing(steps=120, n_test=100)


def test_a_forced_model_learns_faster(forced):
    assert forced.verdict
    numbers = forced.numbers
    assert numbers["whole, alone, forced"] > numbers["whole, alone, free"] + 0.1
    assert numbers["tokens right, words given, forced"] > numbers["tokens right, words given, free"]


def test_without_a_teacher_there_is_no_gain():
    result = lab.forcing(share=0.0, steps=30, n_test=20)
    assert not result.verdict
    assert result.numbers["whole, alone, forced"] == result.numbers["whole, alone, free"]
