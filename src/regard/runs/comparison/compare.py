"""Systems side by side on the same data and budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.core.errors import RegardError, TrainingError
from regard.runs.budget import parse_budget
from regard.runs.comparison.contest import Contest, claim, contest
from regard.runs.comparison.entrants import Entry, enter
from regard.runs.comparison.files import write_comparison
from regard.runs.comparison.rows import SPLIT, Comparison, Row, best, compared, row
from regard.runs.comparison.trainings import Pairs, Stopped, Watcher, Watching, Workshop
from regard.runs.data import load_data
from regard.runs.device import pick_device
from regard.training.settings import TrainSettings

BUDGET = "3e12flops"
SPLITS = (SPLIT, "long")
"""What is translated where the data has it; ``long`` only counts in the scores by length."""


def compare(
    systems: Sequence[str],
    *,
    data: str = "sentences",
    budget: str = BUDGET,
    seeds: Sequence[int] = (1, 2, 3),
    out: Path = Path("runs/compare"),
    device: str | None = None,
    overrides: Sequence[str] = (),
    watching: Watching | None = None,
    say: Callable[[str], None] = lambda _text: None,
) -> Comparison:
    """Train every system with every seed, and lay their scores and costs side by side.

    All share data, tokenizer, search and seeds; batch size, schedule and dropout are those of each
    system's recipe. The budget is that of one training; finding a learning rate comes on top, and
    is counted. Whatever stops a comparison, calling it again goes on where it was. A signal raises
    ``Stopped``; a system that fails becomes a row that says why, unless all fail.
    """
    asked = contest(systems, data, parse_budget(budget), seeds, overrides)
    pick_device(device)  # what cannot be done at all is refused before a folder is taken
    splits = load_data(next(iter(asked.systems.values())).data).splits
    claim(out, asked)
    pairs = {name: splits[name] for name in SPLITS if name in splits}
    workshop = Workshop(out, device, watching or _silently, say)
    entries, rows = _all(asked, pairs, workshop)
    comparison = _summed_up(asked, entries, compared(rows, entries, pairs), pairs)
    write_comparison(comparison, out)
    return comparison


def _all(asked: Contest, pairs: Pairs, workshop: Workshop) -> tuple[dict[str, Entry], list[Row]]:
    """Train all; what goes wrong with one is no matter of the others."""
    entries: dict[str, Entry] = {}
    rows: list[Row] = []
    for name in asked.systems:
        try:
            entry = enter(name, asked, pairs, workshop)
            rows.append(row(name, entry, asked.seeds, pairs))
            entries[name] = entry
        except Stopped:
            raise
        except Exception as error:  # hours of the others' work must not go with it
            rows.append(Row(system=name, error=_described(error)))
            workshop.say(f"{name} failed: {rows[-1].error}")
    if not entries:
        reasons = "; ".join(f"{one.system}: {one.error}" for one in rows)
        raise TrainingError(f"no system could be trained: {reasons}")
    return entries, rows


def _described(error: Exception) -> str:
    kind = "" if isinstance(error, RegardError) else f"{type(error).__name__}: "
    return f"{kind}{error}"


def _summed_up(
    asked: Contest, entries: Mapping[str, Entry], rows: Sequence[Row], pairs: Pairs
) -> Comparison:
    scores = next(iter(entries.values())).runs[0].facts["scores"][SPLIT]
    return Comparison(
        data=asked.data,
        budget=str(asked.budget),
        seeds=asked.seeds,
        n_sentences=len(pairs[SPLIT]),
        bleu_signature=scores["bleu_signature"],
        chrf_signature=scores["chrf_signature"],
        best=best(rows),
        rows=tuple(rows),
    )


class _Silent:
    """Hears everything and tells nobody."""

    def __call__(self, line: Mapping[str, Any]) -> None:
        pass

    def say(self, text: str) -> None:
        pass


@contextmanager
def _silently(_settings: TrainSettings) -> Iterator[Watcher]:
    yield _Silent()
