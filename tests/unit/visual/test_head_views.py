"""The map and the tables of heads, from plain data."""

import csv
import itertools
import math
import xml.etree.ElementTree as ET

import pytest

from regard.visual.heads import (
    Box,
    Mark,
    all_heads_table,
    head_map,
    head_tables,
    moved_apart,
    place_labels,
    plain_table,
)
from regard.visual.tables import csv_table, latex_table
from regard.visual.theme import PALETTE

SVG = "{http://www.w3.org/2000/svg}"


def row(name, layer, head, loss_change, **more):
    common = {"entropy": 1.25, "confidence": 0.5, "self": 0.125, "previous": 0.1, "next": 0.2}
    common |= {"first": 0.3, "separator": 0.4, "distance": 2.5, "aer": None, "antecedent": None}
    place = {"name": name, "layer": layer, "head": head}
    return {**place, **common, **more, "loss_change": loss_change, "bleu_change": -2.0}


CROSS = {"self": None, "previous": None, "next": None, "aer": 1 / 3}
HEADS = {
    "rows": [
        row("encoder.self", 0, 0, 0.4),
        row("encoder.self", 0, 1, 0.1),
        row("encoder.self", 1, 0, -0.01),
        row("decoder.cross", 0, 0, None, **CROSS),
    ],
    "map": [[0, 0], [1.0, 0.5], [1.0, 0.5], [2.0, 0.0]],
    "clusters": [0, 1, 1, 2],
    "split": "valid",
    "n": 1200,
    "n_bleu": 100,
    "loss": 0.5,
    "bleu": 75.0,
    "caveat": "Look & ablate.",
}


def drawn(heads):
    return ET.fromstring(head_map(heads))


def test_noise_is_drawn_small_and_told_with_its_digits():
    """Where no head costs anything, one that costs least of all is not the largest mark."""
    rows = [row("encoder.self", 0, i, cost) for i, cost in enumerate((4e-5, 1e-5, -2e-5))]
    heads = {**HEADS, "rows": rows, "map": HEADS["map"][:3], "clusters": [0, 1, 1]}
    radii = {float(one.get("r")) for one in drawn(heads).iter(f"{SVG}circle")}
    assert radii == {3.5}
    assert "+4e-05 nats per token" in head_map(heads).replace("\n", " ")
    (table,) = head_tables(heads)
    column = table.header.index("Δloss")
    assert [one[column] for one in table.rows] == ["+4e−05", "+1e−05", "−2e−05"]


def test_one_mark_a_head_with_its_place_its_cluster_and_its_name():
    svg = drawn(HEADS)
    circles = {
        (c.get("data-name"), c.get("data-layer"), c.get("data-head")): c
        for c in svg.iter(f"{SVG}circle")
    }
    assert len(circles) == 4
    texts = [text.text for text in svg.iter(f"{SVG}text")]
    assert sorted(t for t in texts if t and "." in t and t[0].isdigit()) == [
        "0.0",
        "0.0",
        "0.1",
        "1.0",
    ]
    assert "encoder.self" in texts
    assert "decoder.cross" in texts
    assert any("Look & ablate." in t for t in texts)
    big, small = (circles["encoder.self", "0", h] for h in "01")
    assert big.get("stroke") != small.get("stroke")
    assert small.get("stroke") == circles["encoder.self", "1", "0"].get("stroke")
    # Area, not width, tells the cost: a fourth of it is half the radius.
    assert float(big.get("r")) == pytest.approx(2 * float(small.get("r")))
    for place in (("encoder.self", "1", "0"), ("decoder.cross", "0", "0")):
        assert circles[place].get("fill") == "none"  # it adds no loss, or nobody knows
    assert "loss +0.4000, BLEU −2.00" in big.find(f"{SVG}title").text.replace("-", "−")


def test_text_takes_the_ink_of_the_page_and_markup_stays_text():
    bad = {**HEADS, "caveat": "<img src=x onerror=alert(1)>"}
    assert "<img" not in head_map(bad)
    assert drawn(HEADS).get("fill") == "currentColor"


def test_distances_keep_their_proportions_in_all_panels():
    heads = {**HEADS, "map": [[0, 0], [3.0, 0], [0, 1.5], [9, 9]]}
    a, b, c = next(drawn(heads).iter(f"{SVG}g")).findall(f"{SVG}circle")
    at = {
        (m.get("data-layer"), m.get("data-head")): (float(m.get("cx")), float(m.get("cy")))
        for m in (a, b, c)
    }
    across = at["0", "1"][0] - at["0", "0"][0]
    up = at["0", "0"][1] - at["1", "0"][1]  # y grows downwards on paper
    assert across == pytest.approx(2 * up, abs=0.05)


def covered(mark):
    return Box(mark.x - mark.radius, mark.y - mark.radius, 2 * mark.radius, 2 * mark.radius)


@pytest.mark.parametrize("n", [1, 12, 48])
def test_names_never_cover_each_other(n):
    room = Box(0, 0, 250, 250)
    marks = [Mark(60 + 37 * i % 130, 60 + 53 * i % 130, 3.5 + i % 3, 21, 12) for i in range(n)]
    boxes = place_labels(marks, room)
    assert len(boxes) == n
    assert not any(a.meets(b) for a, b in itertools.combinations(boxes, 2))
    assert not any(box.meets(covered(mark)) for box in boxes for mark in marks)
    assert all(room.holds(box) for box in boxes)


def test_names_stay_inside():
    room = Box(0, 0, 100, 100)
    corners = [Mark(x, y, 4, 21, 12) for x in (4, 96) for y in (4, 96)]
    assert all(room.holds(box) for box in place_labels(corners, room))


def test_a_name_stands_beside_its_mark_and_not_on_it():
    for panel in drawn(HEADS).findall(f"{SVG}g"):
        at = [
            (float(c.get("cx")), float(c.get("cy")), float(c.get("r")))
            for c in panel.iter(f"{SVG}circle")
        ]
        names = [t for t in panel.iter(f"{SVG}text") if t.get("font-size") == "11"]
        assert len(names) == len(at)
        for name in names:
            x, y = float(name.get("x")), float(name.get("y")) - 4
            gaps = [((x - cx) ** 2 + (y - cy) ** 2) ** 0.5 - r for cx, cy, r in at]
            assert 3 < min(gaps) < 30


def test_heads_at_one_place_still_have_names_of_their_own():
    boxes = place_labels([Mark(50, 50, 5, 21, 12)] * 6, Box(0, 0, 100, 100))
    assert not any(a.meets(b) for a, b in itertools.combinations(boxes, 2))


def test_a_lone_head_is_drawn_in_the_middle():
    one = {**HEADS, "rows": HEADS["rows"][3:], "map": [[7.0, 7.0]], "clusters": [0]}
    (circle,) = drawn(one).iter(f"{SVG}circle")
    assert float(circle.get("cx")) == 125


def test_a_table_an_attention_without_its_empty_columns():
    encoder, cross = head_tables(HEADS)
    assert encoder.caption == "encoder.self"
    assert encoder.header[:4] == ["head", "entropy", "conf", "self"]
    assert encoder.rows[0] == "0.0 1.25 50 12 10 20 30 40 2.5 +0.400 −2.0 0".split()
    assert "AER" not in encoder.header
    assert [row[0] for row in encoder.rows] == ["0.0", "0.1", "1.0"]
    assert "self" not in cross.header
    assert cross.rows[0][cross.header.index("AER")] == "33.3"
    assert "Δloss" not in cross.header  # this head cannot be ablated


def test_csv_has_all_digits_and_nothing_where_nothing_applies():
    rows = list(csv.DictReader(csv_table(plain_table(HEADS)).splitlines()))
    assert float(rows[3]["aer"]) == 1 / 3
    assert rows[3]["self"] == rows[3]["loss_change"] == ""
    assert [row["cluster"] for row in rows] == ["0", "1", "1", "2"]
    assert (rows[1]["x"], rows[1]["y"]) == ("1.0", "0.5")


def test_latex_has_every_head_the_caveat_and_no_letter_it_cannot_set():
    text = latex_table(all_heads_table(HEADS))
    assert r"encoder.self 0.0 & 1.25 & 50 & 12" in text
    assert r"Look \& ablate." in text
    assert r"\ensuremath{-}2.0" in text
    assert text.isascii()


def test_marks_that_share_a_place_are_moved_apart_and_the_others_stay():
    room = Box(0, 0, 100, 100)
    alone = Mark(x=90, y=90, radius=5, width=10, height=10)
    crowd = [Mark(x=50, y=50, radius=4 + i, width=10, height=10) for i in range(4)]
    cornered = [Mark(x=2, y=2, radius=3, width=10, height=10)] * 2
    moved = moved_apart([alone, *crowd, *cornered], room)
    assert moved[0] == alone
    for a, b in itertools.combinations(moved, 2):
        assert math.hypot(a.x - b.x, a.y - b.y) > a.radius + b.radius
    for mark in moved:
        assert room.holds(covered(mark))


def test_clusters_of_one_attention_never_look_alike():
    rows = [row("encoder.self", 0, h, 0.1) for h in range(9)]
    places = [[h, h % 2] for h in range(9)]
    other = [row("decoder.cross", 0, 0, 0.1)]
    heads = {**HEADS, "rows": rows + other, "map": [*places, [20, 0]], "clusters": list(range(10))}
    looks = [
        (c.get("data-name"), c.get("stroke"), c.get("stroke-dasharray"))
        for c in drawn(heads).iter(f"{SVG}circle")
    ]
    assert len(set(looks)) == 10
    first = next(c for c in drawn(heads).iter(f"{SVG}circle") if c.get("data-cluster") == "9")
    assert first.get("stroke") == PALETTE[0]  # colours begin anew in each panel


def test_no_mark_of_the_map_hides_another():
    marks = [
        [float(c.get(key)) for key in ("cx", "cy", "r")]
        for c in drawn({**HEADS, "map": [[0, 0]] * 4}).iter(f"{SVG}circle")
        if c.get("data-name") == "encoder.self"
    ]
    assert len(marks) == 3
    for (ax, ay, ar), (bx, by, br) in itertools.combinations(marks, 2):
        assert math.hypot(ax - bx, ay - by) > ar + br
