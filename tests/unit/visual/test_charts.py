"""Curves and bars, and the numbers along their axes."""

import math
from xml.etree import ElementTree

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.visual.charts import curves, linear_axis, log_axis
from regard.visual.theme import PALETTE, exact

SVG = "{http://www.w3.org/2000/svg}"
NAMES = {"title": "Loss", "x_label": "step", "y_label": "nats"}


def drawn(series, **options):
    return ElementTree.fromstring(curves(series, **{**NAMES, **options}))


def circles(picture):
    return list(picture.iter(f"{SVG}circle"))


def lines(picture):
    """Paths of the series; those of the legend end in a horizontal stroke."""
    return [p for p in picture.iter(f"{SVG}path") if "h" not in p.get("d")]


def texts(picture):
    return [t.text for t in picture.iter(f"{SVG}text")]


def test_every_point_has_a_circle_that_tells_its_numbers():
    picture = drawn({"train": [(0, 2.5), (1000, 1.25)], "valid": [(500, 2.0)]})
    notes = [circle.find(f"{SVG}title").text for circle in circles(picture)]
    assert notes == [
        "train: step 0, nats 2.5",
        "train: step 1,000, nats 1.25",
        "valid: step 500, nats 2",
    ]


def test_larger_values_stand_higher_and_later_ones_further_right():
    low, high = circles(drawn({"a": [(0, 1), (1, 2)]}))
    assert float(high.get("cy")) < float(low.get("cy"))
    assert float(high.get("cx")) > float(low.get("cx"))


@pytest.mark.parametrize("log_y", [False, True])
def test_points_stand_beside_the_ticks_of_their_values(log_y):
    picture = drawn({"a": [(0, 1), (30, 100)]}, log_y=log_y)
    numbers = {t.text: t for t in picture.iter(f"{SVG}text")}
    end = circles(picture)[1]
    assert float(end.get("cx")) == pytest.approx(float(numbers["30"].get("x")))
    assert float(end.get("cy")) == pytest.approx(float(numbers["100"].get("y")) - 4)


def test_the_axes_end_where_round_values_do():
    picture = drawn({"a": [(0, 0), (1, 10)]})
    levels = [float(r.get("y1")) for r in picture.iter(f"{SVG}line") if r.get("y1") == r.get("y2")]
    assert [float(c.get("cy")) for c in circles(picture)] == [max(levels), min(levels)]


def test_the_line_goes_through_its_points():
    picture = drawn({"a": [(0, 1), (1, 2), (2, 0.5)]})
    corners = [tuple(map(float, xy.split())) for xy in lines(picture)[0].get("d")[1:].split("L")]
    assert corners == [(float(c.get("cx")), float(c.get("cy"))) for c in circles(picture)]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_leaves_a_gap(bad):
    points = [(0, 1), (1, 2), (2, bad), (3, 5), (4, 4), (bad, 4), (6, 3)]
    picture = drawn({"a": points})
    assert len(circles(picture)) == 5
    assert [line.get("d").count("L") for line in lines(picture)] == [1, 1]
    assert "nan" not in curves({"a": points}, **NAMES)


def test_on_a_log_axis_zero_and_below_leave_a_gap():
    picture = drawn({"a": [(0, 1), (1, 0), (2, -3), (3, 100)]}, log_y=True)
    assert len(circles(picture)) == 2
    assert "10" in texts(picture)


def test_one_point_is_seen_though_it_makes_no_line():
    picture = drawn({"a": [(5, 3.2)]})
    assert not lines(picture)
    assert circles(picture)[0].get("opacity") is None


def test_points_of_a_short_line_are_seen():
    assert all(c.get("opacity") is None for c in circles(drawn({"a": [(0, 1), (1, 2)]})))


def test_points_of_a_long_line_are_hidden_but_answer_the_mouse():
    many = [(x, x % 7) for x in range(100)]
    picture = drawn({"a": [*many, (100, math.nan), (101, 1)]})
    hidden = [c for c in circles(picture) if c.get("opacity") == "0"]
    assert len(hidden) == 100
    assert len(circles(picture)) == 101  # the last stands alone and must be seen


@pytest.mark.parametrize("series", [{}, {"a": []}, {"a": [(0, math.nan)]}])
def test_without_any_data_it_says_so(series):
    assert "no data" in texts(drawn(series))


def test_equal_values_give_a_level_line_inside_the_plot():
    picture = drawn({"a": [(0, 2.5), (1, 2.5)]})
    left, right = circles(picture)
    assert left.get("cy") == right.get("cy")
    assert 0 < float(left.get("cy")) < float(picture.get("viewBox").split()[3])


def test_the_legend_names_every_series_in_its_colour():
    names = [f"system {i}" for i in range(9)]
    picture = drawn({name: [(0, 1), (1, 2)] for name in names})
    assert [text for text in texts(picture) if text in names] == names
    strokes = [
        (g.get("stroke"), g.find(f"{SVG}path").get("stroke-dasharray")) for g in groups(picture)
    ]
    assert len(set(strokes)) == 9
    assert [colour for colour, _ in strokes[:6]] == list(PALETTE)


def groups(picture):
    return [g for g in picture.iter(f"{SVG}g") if g.get("stroke")]


def test_many_long_names_make_the_picture_taller_and_not_wider():
    few = drawn({"a": [(0, 1)]})
    many = drawn({f"a rather long name of a system {i}": [(0, 1)] for i in range(8)})
    (_, _, width, height), (_, _, same, more) = (p.get("viewBox").split() for p in (few, many))
    assert width == same
    assert float(more) > float(height)


def test_names_are_escaped():
    evil = "<script>alert(1)</script>"
    svg = curves({evil: [(0, 1)]}, title=evil, x_label=evil, y_label='"{}')
    assert "<script" not in svg
    assert evil in texts(ElementTree.fromstring(svg))


def test_it_is_one_picture_to_a_screen_reader():
    picture = drawn({"train": [(0, 1)], "valid": [(0, 2)]})
    assert picture.get("role") == "img"
    assert picture.get("aria-label") == "Loss: nats by step of train, valid"


def test_its_text_takes_the_ink_of_the_page():
    picture = drawn({"a": [(0, 1)]})
    assert picture.get("fill") == "currentColor"
    assert all(text.get("fill") is None for text in picture.iter(f"{SVG}text"))


floats = st.floats(allow_nan=True, allow_infinity=True)


@settings(max_examples=100, deadline=None, database=None)
@given(
    st.dictionaries(st.text(max_size=60), st.lists(st.tuples(floats, floats), max_size=5)),
    st.text(max_size=5),
    st.booleans(),
)
def test_any_numbers_and_names_give_well_formed_svg(series, name, log_y):
    picture = drawn(series, title=name, x_label=name, y_label=name, log_y=log_y)
    width, height = map(float, picture.get("viewBox").split()[2:])
    for circle in circles(picture):
        assert 0 <= float(circle.get("cx")) <= width
        assert 0 <= float(circle.get("cy")) <= height


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
@example([1.24509294e98, 1.24633971e98])
def test_any_positive_values_fit_on_a_log_axis_with_a_few_ticks(values):
    axis = log_axis(values)
    assert axis.low < axis.high
    assert all(0 <= axis.share(v) <= 1 for v in values)
    assert 2 <= len(axis.ticks) <= 12
    assert len(set(labels(axis))) == len(axis.ticks)


def test_numbers_are_exact_in_full():
    assert exact(3000.0) == "3,000"
    assert exact(12_345_678) == "12,345,678"
    assert exact(0.5) == "0.5"
    assert exact(1e99) == "1e+99"


def test_an_axis_reaches_what_it_is_told_to_whatever_is_drawn():
    series = {"score": [(0, 91), (9, 93)]}

    def ticks(**options):
        found = drawn(series, **options).iter(f"{SVG}text")
        return {one.text for one in found if one.get("text-anchor") == "end"}

    assert {"0", "100"} <= ticks(reach=(0, 100))
    assert {"0", "100"}.isdisjoint(ticks())
