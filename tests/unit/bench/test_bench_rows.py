import json
from xml.etree import ElementTree

import pytest

from regard.bench.results import Bench, BenchRow, plot, remarks, tables


def row(who, value, precision="fp32", what="greedy, batch 1", **more):
    return BenchRow(what=what, who=who, value=value, precision=precision, unit="tokens/s", **more)


def bench(*rows):
    return Bench(device="a chip", facts={"threads": 2}, matrix_rates={"fp32": 1e12}, rows=rows)


def test_the_ratio_is_to_the_best_peer_of_the_same_work_whatever_its_precision():
    ours, slow, fast = row("regard", 30.0), row("a", 10.0), row("b", 15.0, "bf16")
    elsewhere = row("b", 1000.0, what="greedy, batch 2")
    found = bench(ours, slow, fast, elsewhere)
    assert [found.ratio(one) for one in found.rows] == [2.0, pytest.approx(2 / 3), 1.0, 1.0]


def test_we_are_not_our_own_peer_and_who_failed_is_nobody_s():
    ours, other, failed = row("regard", 30.0), row("regard", 60.0), row("a", None, error="no room")
    assert [bench(ours, other, failed).ratio(one) for one in (ours, failed)] == [None, None]


def test_json_has_the_device_and_of_each_row_what_the_design_promises():
    told = json.loads(json.dumps(bench(row("regard", 30.0), row("a", 10.0)).as_json()))
    assert told["device"] == "a chip"
    assert told["threads"] == 2
    assert told["rows"][0].keys() >= {"what", "who", "precision", "value", "unit", "ratio"}
    assert told["rows"][0]["ratio"] == 3.0


def test_a_table_a_work_and_a_remark_for_who_failed_and_for_limits():
    rows = (
        row("regard", 31234.0, low=30000.0, high=33000.0, parameters=1234567, share=0.125),
        row("a", None, error="out of memory"),
        row("b", None, error="left out: 40 s at 128 already"),
        row("regard", 5.0, what="greedy, batch 2", limit="mm 90%"),
    )
    first, second = tables(bench(*rows))
    assert first.caption == "greedy, batch 1, tokens/s"
    assert list(first.rows[0][:5]) == ["regard", "fp32", "1,234,567", "31,234", "30,000 – 33,000"]
    assert first.rows[0][6] == "12.5%"
    assert [first.rows[i][3] for i in (1, 2)] == ["failed", "left out"]
    assert len(second.rows) == 1
    assert [line.rsplit(": ")[-1] for line in remarks(bench(*rows))] == [
        "out of memory",
        "40 s at 128 already",
        "mm 90%",
    ]


def growing(who, at, value):
    return row(who, value, what=f"by length, {at:,}", by="length", at=at)


def test_a_series_is_one_table_with_a_column_for_its_size():
    found = bench(growing("regard", 128, 10.0), growing("regard", 2048, 20.0))
    (table,) = tables(found)
    assert table.caption == "by length, tokens/s"
    assert table.header[1] == "length"
    assert [cells[1] for cells in table.rows] == ["128", "2,048"]


def test_the_picture_has_bars_for_works_and_curves_for_series_and_leaves_out_who_failed():
    found = bench(
        row("regard", 3.0),
        row("absent", None, error="no room"),
        growing("regard", 128, 10.0),
        growing("regard", 512, 20.0),
    )
    drawn = plot(found)
    ElementTree.fromstring(drawn)
    assert "greedy, batch 1" in drawn
    assert "as a power of 2" in drawn
    assert "absent" not in drawn
