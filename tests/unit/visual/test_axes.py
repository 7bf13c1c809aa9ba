import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.visual.axes import linear_axis, log_axis, spoken


def labels(axis):
    return [label for _, label in axis.ticks]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 3000], ["0", "1,000", "2,000", "3,000"]),
        ([0, 1], ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        ([-5, 5], ["-4", "-2", "0", "2", "4"]),
        ([0, 25_000], ["0", "5k", "10k", "15k", "20k", "25k"]),
        ([0, 2e6], ["0", "0.5M", "1M", "1.5M", "2M"]),
        ([1e6 + 0.1, 1e6 + 0.2], [f"1,000,000.{d}" for d in ("1", "12", "14", "16", "18", "2")]),
        ([0, 4e-5], ["0", "1e-05", "2e-05", "3e-05", "4e-05"]),
    ],
)
def test_ticks_stand_at_round_numbers(values, expected):
    assert labels(linear_axis(values)) == expected


def test_an_outward_axis_ends_at_ticks_and_another_at_its_values():
    snug, outward = linear_axis([137, 383]), linear_axis([137, 383], outward=True)
    assert (snug.low, snug.high) == (137, 383)
    assert (outward.low, outward.high) == (100, 400)
    assert labels(outward) == ["100", "150", "200", "250", "300", "350", "400"]


def test_an_axis_that_nearly_reaches_zero_begins_there():
    assert linear_axis([20, 3000]).low == 0
    assert linear_axis([2000, 3000]).low == 2000


def test_shares_run_from_zero_to_one():
    axis = linear_axis([10, 30])
    assert [axis.share(v) for v in (10, 15, 30)] == [0.0, 0.25, 1.0]


def test_on_a_log_axis_equal_factors_are_equal_distances():
    axis = log_axis([0.01, 100])
    first, second, third = (axis.share(v) for v in (0.1, 1, 10))
    assert second - first == pytest.approx(third - second)
    assert axis.share(axis.low) == 0
    assert axis.share(axis.high) == pytest.approx(1)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.01, 100], ["0.01", "0.1", "1", "10", "100"]),
        ([0.1, 6], ["0.1", "0.2", "0.5", "1", "2", "5"]),
        ([1.31, 1.38], ["1.32", "1.34", "1.36", "1.38"]),
        ([1e-9, 1e9], ["1e-09", "1e-06", "0.001", "1", "1,000", "1M", "1G"]),
    ],
)
def test_log_ticks_are_powers_of_ten_or_closer_on_a_short_axis(values, expected):
    assert labels(log_axis(values)) == expected


numbers = st.floats(-1e99, 1e99)


@settings(max_examples=200, deadline=None, database=None)
@given(st.lists(numbers, max_size=4), st.booleans())
@example([], True)
@example([0.0], True)
@example([7.5, 7.5], False)
@example([1e-320, 2e-320], True)
@example([0.1, 0.1 + 1e-17], False)
def test_any_values_fit_on_a_linear_axis_with_a_few_ticks(values, outward):
    axis = linear_axis(values, outward=outward)
    assert axis.low < axis.high
    assert all(-1e-6 <= axis.share(v) <= 1 + 1e-6 for v in values)
    assert all(-1e-6 <= axis.share(v) <= 1 + 1e-6 for v, _ in axis.ticks)
    assert 2 <= len(axis.ticks) <= 9


@settings(max_examples=200, deadline=None, database=None)
@given(st.lists(st.floats(1e-99, 1e99), max_size=4))
@example([3.0, 3.0])
@example([1.0, 1.002])
def test_any_positive_values_fit_on_a_log_axis_with_a_few_ticks(values):
    axis = log_axis(values)
    assert axis.low < axis.high
    assert all(0 <= axis.share(v) <= 1 for v in values)
    assert 2 <= len(axis.ticks) <= 12
    assert len(set(labels(axis))) == len(axis.ticks)


def test_numbers_are_spoken_in_full():
    assert spoken(3000.0) == "3,000"
    assert spoken(12_345_678) == "12,345,678"
    assert spoken(0.5) == "0.5"
    assert spoken(1e99) == "1e+99"
