"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Column
from rich.table import Table as Grid

SHARES = ("accuracy", "exact_match", "f1")
"""Scores from 0 to 1."""


def show_scores(scores: Mapping[str, Mapping[str, Any]], *, signatures: bool = False) -> None:
    """A row a test set; below it, what attention found there and the scores of its parts."""
    console = Console(markup=False, highlight=False, soft_wrap=True)
    if not all("bleu" in one for one in scores.values()):
        console.print(_plain(scores))
        if parts := _parts(scores):
            console.print(_plain(parts))
        return
    table = Grid("test set", *_columns("sentences", "exact match", "BLEU", "chrF", "perplexity"))
    for name, one in scores.items():
        table.add_row(
            name,
            f"{one['n']:,}",
            f"{100 * one['exact_match']:.1f} %",
            f"{one['bleu']:.2f}",
            f"{one['chrf']:.2f}",
            f"{one['perplexity']:.3f}" if "perplexity" in one else "–",
        )
        for tag, part in one.get("exact_match_by_tag", {}).items():
            table.add_row(f"  {tag}", f"{part['n']:,}", f"{100 * part['exact_match']:.1f} %")
    console.print(table)
    for name, one in scores.items():
        for line in attention_lines(one):
            console.print(f"{name}: {line}")
    if signatures:
        one = next(iter(scores.values()))
        console.print(one["bleu_signature"], one["chrf_signature"], sep="\n")


def _plain(scores: Mapping[str, Mapping[str, Any]]) -> Grid:
    """All numbers there are of any task: a row a test set, a column a score."""
    names = dict.fromkeys(
        name
        for one in scores.values()
        for name, value in one.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    )
    titles = [Column(name.replace("_", " "), justify="right") for name in names]
    table = Grid(Column("test set", no_wrap=True), *titles)
    for test_set, one in scores.items():
        table.add_row(test_set, *(_number(name, one.get(name)) for name in names))
    return table


def _parts(scores: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Scores of the tasks that test sets are made of, where they are."""
    return {
        f"{test_set}: {name}": part
        for test_set, one in scores.items()
        for name, part in one.get("parts", {}).items()
    }


def _number(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    if name in SHARES:
        return f"{100 * value:.1f} %"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def attention_lines(scores: Mapping[str, Any]) -> list[str]:
    """What was too long, and what attention finds: the head chosen, chance beside it."""
    lines = []
    if "too_long" in scores:
        lines.append(f"{scores['too_long']} sentences are too long for the model: not translated")
    if "aer" in scores:
        lines.append(
            f"alignment error rate {100 * scores['aer']:.1f} % "
            f"({scores['aer_by']}; shuffled {100 * scores['aer_shuffled']:.1f} %)"
        )
    if "antecedent_accuracy" in scores:
        lines.append(
            f"antecedent found {100 * scores['antecedent_accuracy']:.1f} % "
            f"({scores['antecedent_accuracy_by']}; "
            f"shuffled {100 * scores['antecedent_accuracy_shuffled']:.1f} %)"
        )
    return lines


def _columns(*names: str) -> list[Column]:
    return [Column(name, justify="right", no_wrap=True) for name in names]
