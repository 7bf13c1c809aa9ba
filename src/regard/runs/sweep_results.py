"""What came of a sweep: a row a trial, warnings, and the files that are written.

On disk it is JSON and CSV for programs, and a page with a table and parallel coordinates.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.files import write_whole
from regard.core.numbers import counted, measured
from regard.evaluation.metrics import METRICS, score_text, score_title
from regard.runs.rates import is_at_edge
from regard.runs.sweep import SETTINGS, VALID, Plan, Swept
from regard.visual.parallel import parallel_coordinates
from regard.visual.report import report_page
from regard.visual.tables import Table, csv_table

NONE = "–"


@dataclass(frozen=True, slots=True)
class SweepResult:
    """A sweep that is done: its trials, the best first."""

    name: str
    """Of the recipe."""
    asked: Plan
    trials: Sequence[Swept]

    @property
    def criterion(self) -> str:
        """The metric of the validation that chose."""
        return self.asked.recipe.train.criterion

    @property
    def best(self) -> Swept:
        """The trial to take."""
        return self.trials[0]

    @property
    def names(self) -> list[str]:
        """Settings that were swept, as ``section.key``."""
        return list(self.best.trial.settings)

    def value(self, one: Swept) -> float | None:
        """The best score of a trial; None where it failed before its first validation."""
        found = one.trial.best(one.steps)
        return None if found is None else found[0]

    @property
    def warnings(self) -> list[str]:
        """What speaks against trusting the best."""
        told = []
        for name in self.names:
            chosen = _number(self.best.trial.settings[name])
            tried = [_number(one.trial.settings[name]) for one in self.trials]
            numbers = [one for one in tried if one is not None]
            if chosen is not None and is_at_edge(chosen, numbers):
                text = self.best.trial.settings[name]
                told.append(
                    f"{name}={text} is at the edge of what was tried; a better may lie beyond"
                )
        if "train.seed" not in self.names:
            told.append("one seed: small differences may be chance; sweep train.seed=1,2,3 as well")
        return told

    def as_json(self) -> dict[str, Any]:
        """What ``regard sweep --json`` prints."""
        return {
            "recipe": self.name,
            "by": f"{VALID}{self.criterion}",
            "better": METRICS[self.criterion].better,
            "search": self.asked.search,
            "warnings": self.warnings,
            "trials": [self._row(one) for one in self.trials],
        }

    def _row(self, one: Swept) -> dict[str, Any]:
        found, lines = one.trial.best(one.steps), one.trial.lines(one.steps)
        last = lines[-1] if lines else {"step": 0, "seconds": 0.0, "flops": 0.0}
        return {
            "settings": dict(one.trial.settings),
            "run": str(one.trial.path),
            self.criterion: None if found is None else found[0],
            "best_step": None if found is None else found[1],
            "steps": last["step"],
            "seconds": last["seconds"],
            "flops": last["flops"],
            "error": one.error,
        }


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def sweep_table(result: SweepResult) -> Table:
    """A row a trial."""
    title = score_title(result.criterion)
    shown = [name.partition(".")[2] for name in result.names]
    rows = []
    for n, one in enumerate(result.as_json()["trials"], start=1):
        best_step = NONE if one["best_step"] is None else f"{one['best_step']:,}"
        settings = [one["settings"][name] for name in result.names]
        score = "failed" if one["error"] else score_text(result.criterion, one[result.criterion])
        steps, time = f"{one['steps']:,}", measured(one["seconds"])
        rows.append([str(n), *settings, score, best_step, steps, time])
    caption = f"{result.name}: {counted(len(rows), 'trial')}, {result.asked.search}, by {title} on "
    warned = "".join(f"; warning: {one}" for one in result.warnings)
    header = ["#", *shown, f"{title} on valid", "at step", "Steps", "Time"]
    return Table(f"{caption}valid{warned}", header, rows)


def failures_table(result: SweepResult) -> Table:
    """Trials that could not be trained, and why."""
    rows = [[one.trial.name, one.error] for one in result.trials if one.error is not None]
    return Table("Failed", ["Trial", "Why"], rows)


def write_sweep(result: SweepResult, out: Path) -> None:
    """Write sweep.json, .csv and .html."""
    told = result.as_json()
    keys = [key for key in told["trials"][0] if key != "settings"]
    rows = [
        [str("" if x is None else x) for x in (*one["settings"].values(), *map(one.get, keys))]
        for one in told["trials"]
    ]
    texts = {
        "json": json.dumps(told, indent=2, ensure_ascii=False) + "\n",
        "csv": csv_table(Table("", [*result.names, *keys], rows)),
        "html": _page(result, (out / SETTINGS).read_text(encoding="utf-8")),
    }
    for suffix, text in texts.items():
        write_whole(out / f"sweep.{suffix}", text)


def _page(result: SweepResult, settings: str) -> str:
    title, failures = score_title(result.criterion), failures_table(result)
    scored = [one for one in result.trials if result.value(one) is not None]
    axes: dict[str, list[float | str]] = {}
    for name in result.names:
        texts = [one.trial.settings[name] for one in scored]
        numbers = [number for number in map(_number, texts) if number is not None]
        whole = len(numbers) == len(texts)
        axes[name.partition(".")[2]] = [*numbers] if whole else [*texts]
    axes[f"{title} on valid"] = [result.value(one) or 0.0 for one in scored]
    return report_page(
        f"{counted(len(result.trials), 'trial')} of {result.name}",
        kind="Sweep",
        facts=[
            ("Best", result.best.trial.name),
            (f"{title} on valid", score_text(result.criterion, result.value(result.best))),
            ("Run", result.best.trial.path.name),
            *(("Warning", one) for one in result.warnings),
        ],
        curves=[parallel_coordinates(axes, title="Settings and what they came to, the best first")],
        tables=[sweep_table(result), *([failures] if failures.rows else [])],
        settings=settings,
    )
