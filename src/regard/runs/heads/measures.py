"""What each head of a run does, measured on many sentences, and what it is worth.

Where a head looks is no explanation of what the model does: it may look somewhere and change
nothing. So what the run's own scores lose without it stands beside all other measures.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from regard.core.counting import counted
from regard.core.errors import ConfigError, DataError
from regard.data.pairs import Pair
from regard.inspection.heads import Array, clusters, plane
from regard.runs.data import Data, load_data
from regard.runs.heads.scores import alignment_errors, antecedent_accuracies, label
from regard.runs.heads.subjects import Subject, given_subject, own_subject
from regard.runs.heads.watching import Group, groups, pair_readings
from regard.runs.heads.worth import BLEU_SENTENCES, Tick, Worth, pair_judge, worth
from regard.runs.kinds.translator import Run
from regard.runs.own_data import check_data
from regard.runs.splits import split_of
from regard.visual.head_map import head_map
from regard.visual.head_table import head_tables, heads_text
from regard.visual.tables import table_html

CAVEAT = (
    "Attention is not by itself an explanation: a head may look somewhere and change nothing. "
    "So what its ablation costs stands beside it."
)
Known = tuple[Mapping[Hashable, float], Mapping[Hashable, float]]
"""Alignment error rates and antecedent accuracies, by the label of the head."""
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
    loss_change (nats a token) and the change of each other score. A translator's also have aer and
    antecedent. None where it does not apply."""
    distances: tuple[tuple[float | None, ...], ...]
    map: tuple[tuple[float, float], ...]
    clusters: tuple[int, ...]
    split: str
    n: int
    """Sentences that were measured, and over which the loss is taken."""
    n_bleu: int | None = None
    """Sentences that were translated for BLEU, greedily: the first of them."""
    loss: float | None = None
    bleu: float | None = None
    """Of the model as it is; BLEU of translators alone."""
    caveat: str = CAVEAT
    task: str = "translation"
    scores: Mapping[str, float] = field(default_factory=dict)
    """All scores of the model as it is, where it is no translator."""

    def as_json(self) -> dict[str, Any]:
        """The object of ``regard heads --json``."""
        return {
            "rows": [dict(row) for row in self.rows],
            "distances": [list(row) for row in self.distances],
            "map": [list(point) for point in self.map],
            "clusters": list(self.clusters),
            "split": self.split,
            "n": self.n,
            **self._scores(),
            "caveat": self.caveat,
        }

    def _scores(self) -> dict[str, Any]:
        if self.task == "translation":
            return {"n_bleu": self.n_bleu, "loss": self.loss, "bleu": self.bleu}
        return {"task": self.task, "loss": self.loss, **self.scores}

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
    run: Any,
    data: Data | None = None,
    *,
    split: str = "valid",
    n: int = 200,
    tick: Tick | None = None,
) -> HeadMeasures:
    """Measure every head on the first ``n`` sentences of a split that the model can read.

    Without ``data`` they are those of the run. Each head is then ablated once, which takes one pass
    over the sentences for the loss and, of a translator, greedy translations of the first hundred
    of them for BLEU. Alignments and antecedents are scored where the data knows them.
    """
    _check_number(n)
    if not isinstance(run, Run):
        return measured(run, own_subject(run, split, n), tick)
    if data is None:
        check_data(run.folder, run.recipe.data, "give some")
        data = load_data(run.recipe.data)
    pairs = _pairs(run, data, split, n)
    subject = Subject(
        run.model,
        run.device,
        lambda: pair_readings(run, pairs),
        pair_judge(run, pairs),
        split,
        len(pairs),
    )
    found, value = _watched(run, subject, tick)
    known = alignment_errors(run, pairs), antecedent_accuracies(run, pairs)
    return HeadMeasures(
        rows=tuple(_rows(found, value, known)),
        **_alike(found),
        split=split,
        n=len(pairs),
        n_bleu=min(len(pairs), BLEU_SENTENCES),
        loss=value.scores["loss"],
        bleu=value.scores["bleu"],
    )


def text_measures(
    run: Any, texts: Sequence[str], *, name: str, n: int = 200, tick: Tick | None = None
) -> HeadMeasures:
    """Measure every head of an encoder or a language model on the first ``n`` of some texts."""
    _check_number(n)
    if isinstance(run, Run):
        raise ConfigError("heads of a translator are measured on pairs: choose a split of its data")
    return measured(run, given_subject(run, texts, name, n), tick)


def measured(run: Any, subject: Subject, tick: Tick | None = None) -> HeadMeasures:
    """Measure every head of an encoder or a language model."""
    found, value = _watched(run, subject, tick)
    return HeadMeasures(
        rows=tuple(_rows(found, value)),
        **_alike(found),
        split=subject.split,
        n=subject.n,
        loss=value.scores.get("loss"),
        task=run.task,
        scores=value.scores,
    )


ATTENDING = {"translation": "transformer or luong2015", "language": "gpt"}
"""Systems with heads, for the tasks that encoders do not have."""


def _watched(run: Any, subject: Subject, tick: Tick | None) -> tuple[list[Group], Worth]:
    found = groups(subject.model, subject.readings(), subject.device)
    if not found:
        raise ConfigError(
            f"the run {run.folder.path} has no attention, so it has no heads to measure; choose a "
            f"system that attends, such as {ATTENDING.get(run.task, 'bert')}"
        )
    heads = [(one.name, *place) for one in found for place in one.heads]
    return found, worth(subject.model, heads, subject.judge, tick or _silently)


def _alike(found: Sequence[Group]) -> dict[str, Any]:
    """How far heads are apart, as ``HeadMeasures`` has it."""
    return {
        "distances": _distances(found),
        "map": tuple(_side_by_side([plane(one.distances) for one in found])),
        "clusters": tuple(_numbered([clusters(one.distances) for one in found])),
    }


def _check_number(n: int) -> None:
    if n < 1:
        raise ConfigError(f"heads are measured on at least 1 sentence, not {n}")


def _pairs(run: Run, data: Data, split: str, n: int) -> list[Pair]:
    fitting = (pair for pair in split_of(data.splits, split) if run.fits(pair.source, pair.target))
    pairs = list(islice(fitting, n))
    if not pairs:
        raise DataError(
            f"split {split!r} has no sentence that the model can read; measure on another split"
        )
    return pairs


def _rows(
    found: Sequence[Group], value: Worth, known: Known | None = None
) -> Iterator[dict[str, Any]]:
    """A row a head; where there are pairs, also what is ``known`` of them."""
    for group in found:
        for i, (layer, head) in enumerate(group.heads):
            changes = value.changes[group.name, layer, head]
            called = label(group.name, layer, head)
            yield {
                "name": group.name,
                "layer": layer,
                "head": head,
                **{name: values[i] for name, values in group.measures.items()},
                **({} if known is None else _found_by(called, known)),
                "loss_change": changes.get("loss"),
                **{f"{name}_change": change for name, change in changes.items() if name != "loss"},
            }


def _found_by(called: str, known: Known) -> dict[str, float | None]:
    errors, accuracies = known
    return {"aer": errors.get(called), "antecedent": accuracies.get(called)}


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
