"""What each head of a run does, measured on many examples, and what it is worth.

Where a head looks is no explanation of what the model does: it may look somewhere and change
nothing. So what the run's own scores lose without it stands beside all other measures.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from regard.core.errors import ConfigError
from regard.core.numbers import counted
from regard.data.language import read_texts
from regard.evaluation.saliency import attention_distance
from regard.inspection.capture import COMPRESSED, POOL, watch
from regard.inspection.edits import Ablate, edited
from regard.inspection.heads import (
    Array,
    Divergences,
    HeadSums,
    HeadTally,
    clusters,
    divergences,
    plane,
    tally,
)
from regard.runs.progress import ticking
from regard.tasks.base import TASKS
from regard.tasks.opening import several
from regard.tasks.texts import PatchGrid, Reading, Subject
from regard.text.specials import PAD_ID
from regard.visual.heads import head_tables, heads_text
from regard.visual.patch_figures import head_figures
from regard.visual.tables import table_html

Weights = NDArray[np.float32]
_log = logging.getLogger("regard")


@dataclass(frozen=True, slots=True)
class Group:
    """All heads of one name, such as ``decoder.cross``: rows and columns are alike for them."""

    name: str
    heads: tuple[tuple[int, int], ...]
    """(layer, head) of each."""
    measures: dict[str, list[float | None]]
    """Measure -> one value a head."""
    distances: Array
    """(heads, heads)"""


Tick = Callable[[int, int], None]
"""Told after each ablated head: how many are done, and of how many."""


def groups(model: nn.Module, readings: Iterable[Reading], device: torch.device) -> list[Group]:
    """Every attention of the model while it reads; none where it has none."""
    far: dict[str, PatchDistances] = {}
    heads: dict[str, tuple[tuple[int, int], ...]] = {}
    tallies: dict[str, HeadTally] = {}
    apart: dict[str, Divergences] = {}
    for reading in readings:
        for name, layers in _weights(model, reading, device).items():
            heads[name] = tuple((layer, h) for layer, w in layers for h in range(w.shape[1]))
            weights = np.concatenate([one for _, one in layers], axis=1)  # (B, layers · H, T, S)
            rows, columns = reading.ids(name.removesuffix(COMPRESSED))
            if name.endswith(COMPRESSED):  # slots are no tokens
                columns = np.full((len(weights), weights.shape[-1]), PAD_ID)
            tallied = tally(weights, rows, columns, same=name.endswith(".self"))
            diverged = divergences(weights, rows, columns)
            if (patches := reading.patches.get(name)) is not None:
                apart_in_pixels = patch_distances(weights, patches)
                far[name] = far[name] + apart_in_pixels if name in far else apart_in_pixels
            tallies[name] = tallies[name] + tallied if name in tallies else tallied
            apart[name] = apart[name] + diverged if name in apart else diverged
    found = []
    for name, places in heads.items():
        means = tallies[name].means()
        if name == POOL:  # what pools a text stands nowhere, so nothing is far from it
            means = {**means, "distance": [None]}
        if name in far:  # patches stand in a plane, and not one behind the other
            none: list[float | None] = [None] * len(places)
            nowhere = dict.fromkeys(("previous", "next", "distance"), none)
            means = {**means, **nowhere, "pixel_distance": far[name].means()}
        elif far:
            means = {**means, "pixel_distance": [None] * len(places)}
        found.append(Group(name, places, means, apart[name].mean()))
    return found


class PatchDistances(HeadSums):
    """Sums of distances in pixels for every head, and over how many pictures: both (H,)."""

    def means(self) -> list[float | None]:
        """A distance a head."""
        return [float(a / b) for a, b in zip(self.sums, self.counts, strict=True)]


def patch_distances(weights: NDArray[Any], patches: PatchGrid) -> PatchDistances:
    """Of weights (B, H, T, S) from patches to patches; what stands before them is left out."""
    n, n_heads = patches.n_before, weights.shape[1]
    found = [attention_distance(one[:, n:, n:], patches.grid, patches.size) for one in weights]
    return PatchDistances(np.sum(found, axis=0), np.full(n_heads, float(len(weights))))


def _weights(
    model: nn.Module, reading: Reading, device: torch.device
) -> dict[str, list[tuple[int, Weights]]]:
    """Name -> each layer with its weights (B, H, T, S), in order."""
    found: dict[str, list[tuple[int, Weights]]] = {}
    with torch.no_grad(), watch(model) as views:
        model(*(one.to(device) for one in reading.inputs))
        for (name, layer), view in sorted(views.items(), key=lambda one: one[0][1]):
            found.setdefault(name, []).append((layer, view.weights().float().cpu().numpy()))
    return found


CAVEAT = (
    "Attention is not by itself an explanation: a head may look somewhere and change nothing. "
    "So what its ablation costs stands beside it."
)


_WIDTH = 100
"""Letters of a line where it is printed."""


@dataclass(frozen=True, slots=True)
class HeadMeasures:
    """A row a head, how far heads are apart, and a map of them.

    Heads are compared within one attention's name; ``distances`` are None between others. So each
    name has a map and clusters of its own: the maps stand side by side in one plane, and no
    cluster holds heads of two names.
    """

    rows: tuple[Mapping[str, Any], ...]
    """name, layer, head; the measures of ``regard.inspection.heads``; then, when it is ablated,
    loss_change (nats per token) and the change of each other score. A translator's also have aer
    and antecedent, those of pictures pixel_distance. None where it does not apply."""
    distances: tuple[tuple[float | None, ...], ...]
    map: tuple[tuple[float, float], ...]
    clusters: tuple[int, ...]
    split: str
    n: int
    """Sentences that were measured, and over which the loss is taken."""
    task: str = "translation"
    scores: Mapping[str, float] = field(default_factory=dict)
    """All scores of the model as it is."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else the task tells of the measuring, such as ``n_bleu``."""
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
            "task": self.task,
            "loss": self.scores.get("loss"),  # None where the task is judged by none
            **self.scores,
            **self.facts,
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
        return "".join(head_figures(shown)) + "".join(map(table_html, head_tables(shown)))


def heads(
    run: Any,
    split: str | None = None,
    *,
    texts: str | Path | Sequence[str] | None = None,
    n: int = 200,
    say: Callable[[str], None] = _log.warning,
) -> HeadMeasures:
    """Measure every head on a split, ``valid`` by default, or on texts, a list or a file of them.

    A bar shows how many were ablated, where somebody can see it; ``say`` is told what a user
    should know.
    """
    if texts is not None and split is not None:
        raise ConfigError("--split is of the run's own data and --texts names others: give one")
    if n < 1:
        raise ConfigError(f"heads are measured on at least 1 sentence, not {n}")
    task = TASKS[run.task]
    with ticking("ablating heads") as tick:
        if texts is None:
            subject = task.subject(run, split or "valid", n)
        elif isinstance(texts, str | Path):
            subject = task.given_subject(run, read_texts(str(texts)), Path(texts).name, n)
        else:
            subject = task.given_subject(run, several(texts), "a list", n)
        for line in subject.notes:
            say(line)
        return measured(run, subject, tick)


def head_measures(
    run: Any, data: Any = None, *, split: str = "valid", n: int = 200, tick: Tick | None = None
) -> HeadMeasures:
    """Measure every head on the first ``n`` examples of a split that the model can read.

    Without ``data`` they are those of the run. Each head is then ablated once, which takes one pass
    over the examples for the loss and, of a translator, greedy translations of the first hundred
    of them for BLEU. Alignments and antecedents are scored where the data knows them.
    """
    if n < 1:
        raise ConfigError(f"heads are measured on at least 1 sentence, not {n}")
    given = {} if data is None else {"data": data}
    return measured(run, TASKS[run.task].subject(run, split, n, **given), tick)


def measured(run: Any, subject: Subject, tick: Tick | None = None) -> HeadMeasures:
    """Measure every head on what its task chose, and ablate one after the other."""
    found = groups(subject.model, subject.readings(), subject.device)
    if not found:
        raise ConfigError(
            f"the run {run.folder.path} has no attention, so it has no heads to measure; choose a "
            f"system that attends, such as {TASKS[run.task].attends}"
        )
    whole, known = subject.judge(), subject.known()
    n_heads = sum(len(group.heads) for group in found)
    rows: list[dict[str, Any]] = []
    for group in found:
        for i, (layer, head) in enumerate(group.heads):
            with edited(subject.model, [Ablate(group.name, layer, head)]):
                without = subject.judge()
            lost = {name: without[name] - score for name, score in whole.items()}
            called = f"{group.name} layer {layer} head {head}"
            row = {
                "name": group.name,
                "layer": layer,
                "head": head,
                **{name: values[i] for name, values in group.measures.items()},
                **{name: values.get(called) for name, values in known.items()},
                "loss_change": lost.pop("loss", None),
                **{f"{name}_change": change for name, change in lost.items()},
            }
            rows.append(row)
            if tick is not None:
                tick(len(rows), n_heads)
    return HeadMeasures(
        rows=tuple(rows),
        distances=_distances(found),
        map=tuple(_side_by_side([plane(one.distances) for one in found])),
        clusters=tuple(_numbered([clusters(one.distances) for one in found])),
        split=subject.split,
        n=subject.n,
        task=run.task,
        scores=whole,
        facts=subject.facts,
    )


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
