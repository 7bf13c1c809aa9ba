"""What each head does, as tables: rounded for people, with all digits for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from regard.visual.report import Table

NONE = "–"


class Column(NamedTuple):
    """One measure: its key in the JSON, its name, and how it is written."""

    key: str
    name: str
    unit: int
    format: str
    meaning: str


COLUMNS = (
    Column("entropy", "entropy", 1, ".2f", "of a row of weights, in bits"),
    Column("confidence", "conf", 100, ".0f", "largest weight of a row, in %"),
    Column("self", "self", 100, ".0f", "weight on the place itself, in %"),
    Column("previous", "prev", 100, ".0f", "on the word before, in %"),
    Column("next", "next", 100, ".0f", "on the word after, in %"),
    Column("first", "first", 100, ".0f", "on the first place, in %"),
    Column("separator", "end", 100, ".0f", "on the end token, in %"),
    Column("distance", "dist", 1, ".1f", "places to the words it looks at"),
    Column("aer", "AER", 100, ".1f", "alignment error rate, in %"),
    Column("antecedent", "ante", 100, ".1f", "antecedents of pronouns found, in %"),
    Column("loss_change", "Δloss", 1, "+.3f", "nats a token, when the head is ablated"),
    Column("bleu_change", "ΔBLEU", 1, "+.1f", "of greedy search, when the head is ablated"),
)
CLUSTER = ("cl", "cluster of heads that look alike")


def head_tables(heads: Mapping[str, Any]) -> list[Table]:
    """One table an attention, from the JSON of ``regard heads``; heads are named layer.head.

    A column that is empty is left out.
    """
    names = list(dict.fromkeys(row["name"] for row in heads["rows"]))
    return [_of_one(heads, name) for name in names]


def all_heads_table(heads: Mapping[str, Any]) -> Table:
    """All heads in one rounded table, for a paper; its caption tells what was done."""
    rows = [
        [f"{row['name']} {row['layer']}.{row['head']}", *_cells(row, COLUMNS), str(cluster)]
        for row, cluster in zip(heads["rows"], heads["clusters"], strict=True)
    ]
    header = ["head", *(column.name for column in COLUMNS), CLUSTER[0]]
    caption = f"{conditions(heads)} {meanings()} {heads['caveat']}"
    return Table(caption, header, rows)


def plain_table(heads: Mapping[str, Any]) -> Table:
    """One row a head, one number a cell, with all its digits; what does not apply is empty."""
    header = [*heads["rows"][0], "cluster", "x", "y"]
    rows = [
        ["" if cell is None else str(cell) for cell in (*row.values(), cluster, *point)]
        for row, cluster, point in zip(heads["rows"], heads["clusters"], heads["map"], strict=True)
    ]
    return Table("", header, rows)


def conditions(heads: Mapping[str, Any]) -> str:
    """What the numbers were measured on."""
    return (
        f"{heads['n']:,} sentences of {heads['split']}, BLEU on {heads['n_bleu']:,} of them; whole "
        f"model: loss {heads['loss']:.3f}, BLEU {heads['bleu']:.1f}."
    )


def meanings() -> str:
    """What the columns are."""
    told = [f"{column.name}: {column.meaning}" for column in COLUMNS]
    return "; ".join([*told, ": ".join(CLUSTER)]) + "."


def _of_one(heads: Mapping[str, Any], name: str) -> Table:
    numbered = zip(heads["rows"], heads["clusters"], strict=True)
    members = [(row, cluster) for row, cluster in numbered if row["name"] == name]
    columns = [c for c in COLUMNS if any(row[c.key] is not None for row, _ in members)]
    header = ["head", *(column.name for column in columns), CLUSTER[0]]
    rows = [
        [f"{row['layer']}.{row['head']}", *_cells(row, columns), str(cluster)]
        for row, cluster in members
    ]
    return Table(name, header, rows)


def _cells(row: Mapping[str, Any], columns: Sequence[Column]) -> list[str]:
    return [_cell(row[column.key], column) for column in columns]


def _cell(value: float | None, column: Column) -> str:
    if value is None:
        return NONE
    return f"{column.unit * value:{column.format}}".replace("-", "−")
