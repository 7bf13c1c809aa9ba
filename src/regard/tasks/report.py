"""What the reports of all tasks have in common: size, cost, curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from regard.core import durations
from regard.models.presets import n_parameters
from regard.visual.charts import curves
from regard.visual.tables import Table

Metrics = Sequence[Mapping[str, Any]]


def headline(
    model: nn.Module, facts: Mapping[str, Any], *, seen: str = "target tokens"
) -> list[tuple[str, str]]:
    """Size and cost, for the head of the page; ``seen`` is what was learned from."""
    measured = facts["measured"]
    return [
        ("Parameters", f"{n_parameters(model):,}"),
        ("Training FLOPs", _flops(measured["flops"])),
        ("Time", durations.measured(measured["seconds"])),
        ("Steps", f"{measured['steps']:,}"),
        ("Best weights at step", f"{measured['best_step']:,}"),
        (f"{seen.capitalize()} seen", f"{measured['tokens']:,}"),
    ]


def cost_table(facts: Mapping[str, Any]) -> Table:
    """What the run cost, beside what was expected of it before the first step."""
    expected, measured = facts["estimate"] or {}, facts["measured"]
    kinds = (
        ("FLOPs", "flops", _flops),
        ("Time", "seconds", durations.measured),
        ("Memory", "memory_bytes", _bytes),
    )
    rows = [
        [
            name,
            shown(measured[key]),
            "unknown" if expected.get(key) is None else shown(expected[key]),
        ]
        for name, key, shown in kinds
    ]
    return Table(f"Cost ({facts['ended']})", ["", "Measured", "Expected"], rows)


def series(lines: Metrics, kind: str, name: str) -> list[tuple[float, float]]:
    """A number by step, from the lines of one kind."""
    return [(x["step"], x[name]) for x in lines if x["kind"] == kind and name in x]


def loss_curve(
    lines: Metrics,
    *,
    title: str = "Loss",
    training: str = "training",
    measure: str = "nats a token",
) -> str:
    """Of training and validation."""
    return curves(
        {training: series(lines, "train", "loss"), "validation": series(lines, "valid", "loss")},
        title=title,
        x_label="step",
        y_label=f"{measure}, log scale",
        log_y=True,
    )


def pace_curves(lines: Metrics, *, seen: str = "target tokens") -> list[str]:
    """The learning rate, and how fast it went; ``seen`` as in ``headline``."""
    return [
        curves(
            {"learning rate": series(lines, "train", "lr")},
            title="Schedule",
            x_label="step",
            y_label="lr",
        ),
        curves(
            {"speed": series(lines, "train", "tokens_per_second")},
            title="Speed",
            x_label="step",
            y_label=f"{seen} a second",
        ),
    ]


def _flops(value: float) -> str:
    return f"{value:.3g}"


def _bytes(value: float) -> str:
    return f"{value / 2**30:.2f} GiB"
