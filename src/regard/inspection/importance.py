"""How much an outcome rests on each head: how probable it is without the head, all else fixed.

Each head of each attention is ablated once, many of them in one pass: copies of one text are a
batch, of which every row lacks another head. What comes out is given, so that only its probability
changes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.core.errors import ShapeError
from regard.inspection.capture import Place, viewpoints, watch
from regard.inspection.edits import Edit, NoPositions, edited
from regard.layers.viewpoint import Seen

Judge = Callable[[int], Tensor]
"""So many copies of one text are read at once -> how probable its outcomes are in each (n, T)."""
MOST_NUMBERS = 2**25
"""Logits and weights of one pass: 128 MB."""


class Head(NamedTuple):
    """One head of one attention."""

    attention: str
    layer: int
    head: int


class Probabilities(NamedTuple):
    """How probable the T outcomes of a text are."""

    heads: tuple[Head, ...]
    """All of the model, in the order of its modules."""
    whole: Tensor
    """(T,): as the model is."""
    without: Tensor
    """(heads, T): without one head after the other."""


@dataclass(frozen=True, slots=True)
class AblateByRow(Edit):
    """In one attention every row of a batch lacks a head of its own, or none."""

    name: str
    layer: int
    heads: tuple[int | None, ...]
    """One a row."""

    def concerns(self, where: Place) -> bool:
        """Whether the attention of this name and layer is meant."""
        return where == (self.name, self.layer)

    def __call__(self, seen: Seen) -> Seen:
        """The weights of a row's head are multiplied by 0, after normalising."""
        B, H = seen.q.shape[:2]
        if len(self.heads) != B:
            raise ShapeError(
                f"{self.name} {self.layer} was given {B} rows, but heads of {len(self.heads)}"
            )
        lacked = torch.tensor([-1 if one is None else one for one in self.heads])
        kept = (lacked[:, None] != torch.arange(H)).to(seen.v)[:, :, None, None]  # (B, H, 1, 1)
        return dataclasses.replace(seen, prior=kept if seen.prior is None else seen.prior * kept)


def passes(
    model: nn.Module,
    judge: Judge,
    *,
    row_numbers: int,
    edits: Sequence[Edit | NoPositions] = (),
) -> Iterator[tuple[tuple[Head, ...], Tensor]]:
    """Pass by pass: heads, and the probabilities (heads, T) without each of them.

    The first pass lacks none: it comes with all heads of the model, and its probabilities are
    (1, T). ``row_numbers`` are the logits of one row. What is changed in the model besides holds in
    each pass and not between two, so that others may use the model meanwhile.
    """
    with torch.inference_mode(), edited(model, edits), watch(model) as views:
        whole = judge(1)
        shapes = {where: view.calls[0].q.shape[1] for where, view in views.items() if view.calls}
        weights = [
            call.q.shape[1] * call.q.shape[2] * call.k.shape[2]
            for view in views.values()
            for call in view.calls
        ]
    order = dict.fromkeys(where for where, _ in viewpoints(model) if where in shapes)
    heads = tuple(Head(*where, head) for where in order for head in range(shapes[where]))
    yield heads, whole
    at_once = max(1, MOST_NUMBERS // (row_numbers + max(weights, default=0)))
    for begin in range(0, len(heads), at_once):
        some = heads[begin : begin + at_once]
        with torch.inference_mode(), edited(model, [*edits, *_by_row(some)]):
            without = judge(len(some))
        yield some, without


def _by_row(heads: Sequence[Head]) -> list[AblateByRow]:
    """Row i lacks head i."""
    places = dict.fromkeys((one.attention, one.layer) for one in heads)
    return [
        AblateByRow(*place, tuple(one.head if one[:2] == place else None for one in heads))
        for place in places
    ]


def joined(found: Iterator[tuple[tuple[Head, ...], Tensor]]) -> Probabilities:
    """What all passes found."""
    heads, whole = next(found)
    parts = [without for _, without in found]
    return Probabilities(heads, whole[0], torch.cat(parts) if parts else whole[:0])
