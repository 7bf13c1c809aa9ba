"""What each head of a run does, measured on many sentences, and what it is worth.

Where a head looks is no explanation of what the model does: it may look somewhere and change
nothing. So the loss and the BLEU that are lost without it stand beside all other measures.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from regard.core.counting import counted
from regard.core.errors import ConfigError, DataError
from regard.core.registry import did_you_mean
from regard.data.pairs import Pair
from regard.inspection.agreement import clusters, plane
from regard.inspection.heads import Array
from regard.runs.data import Data
from regard.runs.head_scores import alignment_errors, antecedent_accuracies, label
from regard.runs.head_watching import Group, groups
from regard.runs.head_worth import Worth, worth
from regard.runs.run import Run
from regard.visual.head_map import head_map
from regard.visual.head_table import head_tables
from regard.visual.head_text import heads_text
from regard.visual.report import table_html

CAVEAT = (
    "Attention is not by itself an explanation: a head may look somewhere and change nothing. "
    "So what its ablation costs stands beside it."
)
Known = tuple[Mapping[Hashable, float], Mapping[Hashable, float]]
"""Alignment error rates and antecedent accuracies, by the label of the head."""
_WIDTH = 100
"""Letters of a line where it is printed."""
Tick = Callable[[int, int], None]
"""Told after each ablated head: how many are done, and of how many."""


@dataclass(frozen=True, slots=True)
class HeadMeasures:
    """A row a head, how far heads are apart, and a map of them.

    Heads are compared within one attention's name; ``distances`` are None between others. So each
    name has a map and clusters of its own: the maps stand side by side in one plane, and no
    cluster holds heads of two names.
    """

    rows: tuple[Mapping[str, Any], ...]
    """name, layer, head; the measures of ``regard.inspection.heads``; aer, antecedent; loss_change
    (nats a token) and bleu_change, when it is ablated. None where it does not apply."""
    distances: tuple[tuple[float | None, ...], ...]
    map: tuple[tuple[float, float], ...]
    clusters: tuple[int, ...]
    split: str
    n: int
    """Sentences that were measured, and over which the loss is taken."""
    n_bleu: int
    """Sentences that were translated for BLEU, greedily: the first of them."""
    loss: float
    bleu: float
    """Of the model as it is."""
    caveat: str = CAVEAT

    def as_json(self) -> dict[str, Any]:
        """The object of ``regard heads --json``."""
        return {
            "rows": [dict(row) for row in self.rows],
            "distances": [list(row) for row in self.distances],
            "map": [list(point) for point in self.map],
            "clusters": list(self.clusters),
            "split": self.split,
            "n": self.n,
            "n_bleu": self.n_bleu,
            "loss": self.loss,
            "bleu": self.bleu,
            "caveat": self.caveat,
        }

    def __repr__(self) -> str:
        on = f"{counted(self.n, 'sentence')} of {self.split}"
        return f"<HeadMeasures of {counted(len(self.rows), 'head')} on {on}>"

    def __str__(self) -> str:
        return heads_text(self.as_json(), _WIDTH).strip("\n")

    def _repr_html_(self) -> str:
        """The map and the tables, in a notebook."""
        shown = self.as_json()
        return head_map(shown) + "".join(map(table_html, head_tables(shown)))


def head_measures(
    run: Run, data: Data, *, split: str = "valid", n: int = 200, tick: Tick | None = None
) -> HeadMeasures:
    """Measure every head on the first ``n`` sentences of a split that the model can read.

    Alignments and antecedents are scored where the data knows them. Each head is then ablated once,
    which takes one pass over the sentences for the loss and greedy translations of the first
    hundred of them for BLEU.
    """
    pairs = _pairs(run, data, split, n)
    found = groups(run, pairs)
    if not found:
        raise ConfigError(
            f"the run {run.folder.path} has no attention, so it has no heads to measure; "
            "choose a system that attends, such as luong2015 or transformer"
        )
    heads = [(one.name, *place) for one in found for place in one.heads]
    value = worth(run, pairs, heads, tick or _silently)
    known = alignment_errors(run, pairs), antecedent_accuracies(run, pairs)
    return HeadMeasures(
        rows=tuple(_rows(found, value, known)),
        distances=_distances(found),
        map=tuple(_side_by_side([plane(one.distances) for one in found])),
        clusters=tuple(_numbered([clusters(one.distances) for one in found])),
        split=split,
        n=len(pairs),
        n_bleu=value.n_bleu,
        loss=value.loss,
        bleu=value.bleu,
    )


def _pairs(run: Run, data: Data, split: str, n: int) -> list[Pair]:
    if n < 1:
        raise ConfigError(f"heads are measured on at least 1 sentence, not {n}")
    if split not in data.splits:
        known, hint = ", ".join(data.splits), did_you_mean(split, data.splits)
        raise ConfigError(f"the run's data has no split {split!r}{hint}; it has {known}")
    fitting = (pair for pair in data.splits[split] if run.fits(pair.source, pair.target))
    pairs = list(islice(fitting, n))
    if not pairs:
        raise DataError(
            f"split {split!r} has no sentence that the model can read; measure on another split"
        )
    return pairs


def _rows(found: Sequence[Group], value: Worth, known: Known) -> Iterator[dict[str, Any]]:
    errors, accuracies = known
    for group in found:
        for i, (layer, head) in enumerate(group.heads):
            loss_change, bleu_change = value.changes[group.name, layer, head]
            called = label(group.name, layer, head)
            yield {
                "name": group.name,
                "layer": layer,
                "head": head,
                **{name: values[i] for name, values in group.measures.items()},
                "aer": errors.get(called),
                "antecedent": accuracies.get(called),
                "loss_change": loss_change,
                "bleu_change": bleu_change,
            }


def _distances(found: Sequence[Group]) -> tuple[tuple[float | None, ...], ...]:
    """All heads by all heads, None between two names."""
    n_heads = sum(len(group.heads) for group in found)
    rows: list[tuple[float | None, ...]] = []
    for group in found:
        before: list[float | None] = [None] * len(rows)
        after = [None] * (n_heads - len(rows) - len(group.heads))
        rows += [(*before, *one, *after) for one in group.distances.tolist()]
    return tuple(rows)


def _side_by_side(maps: Sequence[Array]) -> Iterator[tuple[float, float]]:
    """The maps from left to right, a gap between them, so that no two share a place."""
    left = 0.0
    gap = 0.25 * max(float(np.ptp(one[:, 0])) for one in maps) or 1.0
    for one in maps:
        begin = float(one[:, 0].min())
        yield from ((left + x - begin, y) for x, y in one.tolist())
        left += float(np.ptp(one[:, 0])) + gap


def _numbered(parts: Sequence[Sequence[int]]) -> Iterator[int]:
    """Clusters of several names, none of which has another's number."""
    first = 0
    for part in parts:
        yield from (first + one for one in part)
        first += 1 + max(part)


def _silently(_done: int, _of: int) -> None:
    pass
