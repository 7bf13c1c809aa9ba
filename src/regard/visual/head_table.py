"""What each head does, as tables: rounded for people, with all digits for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

from regard.evaluation.metrics import METRICS
from regard.visual.tables import Table, plain_console, show_table


class HeadColumn(NamedTuple):
    """One measure: its key in the JSON, its name, and how it is written."""

    key: str
    name: str
    unit: int
    format: str
    meaning: str


COLUMNS = (
    HeadColumn("entropy", "entropy", 1, ".2f", "of a row of weights, in bits"),
    HeadColumn("confidence", "conf", 100, ".0f", "largest weight of a row, in %"),
    HeadColumn("self", "self", 100, ".0f", "weight on the place itself, in %"),
    HeadColumn("previous", "prev", 100, ".0f", "on the word before, in %"),
    HeadColumn("next", "next", 100, ".0f", "on the word after, in %"),
    HeadColumn("first", "first", 100, ".0f", "on the first place, in %"),
    HeadColumn("separator", "end", 100, ".0f", "on the end token, in %"),
    HeadColumn("distance", "dist", 1, ".1f", "places to the words it looks at"),
    HeadColumn("aer", "AER", 100, ".1f", "alignment error rate, in %"),
    HeadColumn("antecedent", "ante", 100, ".1f", "antecedents of pronouns found, in %"),
    HeadColumn("loss_change", "Δloss", 1, "+.3f", "nats a token, when the head is ablated"),
    HeadColumn("bleu_change", "ΔBLEU", 1, "+.1f", "of greedy search, when the head is ablated"),
    HeadColumn("accuracy_change", "Δacc", 100, "+.1f", "accuracy in %, when the head is ablated"),
    HeadColumn("spearman_change", "Δrho", 1, "+.3f", "Spearman, when the head is ablated"),
    HeadColumn("exact_match_change", "ΔEM", 100, "+.1f", "exact in %, when the head is ablated"),
    HeadColumn("f1_change", "ΔF1", 100, "+.1f", "F1 in %, when the head is ablated"),
    HeadColumn("perplexity_change", "Δppl", 1, "+.2f", "perplexity, when the head is ablated"),
    HeadColumn("moved_change", "moved", 1, ".4f", "vectors turn by 1 − cosine, when it is ablated"),
)
CLUSTER = ("cl", "cluster of heads that look alike")


def columns_of(heads: Mapping[str, Any]) -> list[HeadColumn]:
    """The columns that such a run has."""
    return [column for column in COLUMNS if column.key in heads["rows"][0]]


def cost_of(heads: Mapping[str, Any]) -> tuple[HeadColumn, list[float | None]]:
    """By what a head is worth something, and how much is lost without each, in that unit.

    The loss where there is one, else the first score there is.
    """
    changes = [column for column in columns_of(heads) if column.key.endswith("_change")]
    known = [c for c in changes if any(row[c.key] is not None for row in heads["rows"])]
    chosen = (known or changes)[0]
    score = chosen.key.removesuffix("_change")
    sign = -1 if score in METRICS and METRICS[score].better == "higher" else 1
    values = [row[chosen.key] for row in heads["rows"]]
    return chosen, [None if one is None else sign * one for one in values]


def head_tables(heads: Mapping[str, Any]) -> list[Table]:
    """One table an attention, from the JSON of ``regard heads``; heads are named layer.head.

    A column that is empty is left out.
    """
    tables = []
    for name in dict.fromkeys(row["name"] for row in heads["rows"]):
        members = [i for i, row in enumerate(heads["rows"]) if row["name"] == name]
        told = [[heads["rows"][i][column.key] for i in members] for column in columns_of(heads)]
        known = [any(one is not None for one in values) for values in told]
        columns = list(compress(columns_of(heads), known))
        tables.append(_rounded(name, heads, members, columns, "{layer}.{head}"))
    return tables


def all_heads_table(heads: Mapping[str, Any]) -> Table:
    """All heads in one rounded table, for a paper; its caption tells what was done."""
    caption = f"{conditions(heads)} {meanings(heads)} {heads['caveat']}"
    members = range(len(heads["rows"]))
    return _rounded(caption, heads, members, columns_of(heads), "{name} {layer}.{head}")


def _rounded(
    caption: str,
    heads: Mapping[str, Any],
    members: Sequence[int],
    columns: Sequence[HeadColumn],
    named: str,
) -> Table:
    """Some heads, a row each; ``named`` says how they are called."""
    rows = []
    for i in members:
        row = heads["rows"][i]
        cells = [
            "–" if row[c.key] is None else f"{c.unit * row[c.key]:{c.format}}".replace("-", "−")
            for c in columns
        ]
        rows.append([named.format_map(row), *cells, str(heads["clusters"][i])])
    return Table(caption, ["head", *(column.name for column in columns), CLUSTER[0]], rows)


def plain_table(heads: Mapping[str, Any]) -> Table:
    """One row a head, one number a cell, with all its digits; what does not apply is empty."""
    header = [*heads["rows"][0], "cluster", "x", "y"]
    rows = [
        ["" if cell is None else str(cell) for cell in (*row.values(), cluster, *point)]
        for row, cluster, point in zip(heads["rows"], heads["clusters"], heads["map"], strict=True)
    ]
    return Table("", header, rows)


def heads_text(heads: Mapping[str, Any], width: int) -> str:
    """From the JSON of ``regard heads``."""
    console, text = plain_console(width)
    for table in head_tables(heads):
        console.print(f"\n{table.caption}")
        show_table(table, console)
    console.print(f"\n{conditions(heads)}\n{meanings(heads)}\n{heads['caveat']}")
    return text.getvalue()


def conditions(heads: Mapping[str, Any]) -> str:
    """What the numbers were measured on."""
    if "n_bleu" not in heads:
        keys = [column.key.removesuffix("_change") for column in columns_of(heads)]
        told = [
            f"{key.replace('_', ' ')} {heads[key]:.3f}"
            for key in keys
            if key != "moved" and heads.get(key) is not None  # vectors alone have no score
        ]
        whole = f"; whole model: {', '.join(told)}" if told else ""
        return f"{heads['n']:,} texts of {heads['split']}{whole}."
    return (
        f"{heads['n']:,} sentences of {heads['split']}, BLEU on {heads['n_bleu']:,} of them; whole "
        f"model: loss {heads['loss']:.3f}, BLEU {heads['bleu']:.1f}."
    )


def meanings(heads: Mapping[str, Any]) -> str:
    """What the columns are."""
    told = [f"{column.name}: {column.meaning}" for column in columns_of(heads)]
    return "; ".join([*told, ": ".join(CLUSTER)]) + "."
