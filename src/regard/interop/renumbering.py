"""Vocabularies of others with our special tokens in front, which decoding relies on.

A row that the model of others lacks is zeros, and its logit gets the bias ``CLOSED``: it has no
share in the softmax, so that the log-probabilities of all other tokens stay what they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.interop.naming import OUTPUT_BIAS, OUTPUT_WEIGHT, SOURCE_TOKENS, TARGET_TOKENS
from regard.models.settings import TransformerConfig
from regard.text.specials import BEGIN_ID, SPECIALS

CLOSED = -1e4  # its exponential is 0 in float32, and no sum over logits becomes infinite


@dataclass(frozen=True, slots=True)
class Renumbering:
    """Which of their rows each of our ids takes."""

    rows: tuple[int | None, ...]
    """None where they have none."""
    closed: frozenset[int]
    """Our ids that the model must give no probability."""

    @property
    def same(self) -> bool:
        """Whether nothing changes."""
        return not self.closed and self.rows == tuple(range(len(self.rows)))

    def taken(self, table: Tensor) -> Tensor:
        """Their rows (V, …) in our order, zeros where they have none."""
        index = torch.tensor([len(table) if row is None else row for row in self.rows])
        extra = table.new_zeros((1, *table.shape[1:]))
        return torch.cat((table, extra)).index_select(0, index)

    def bias(self, theirs: Tensor | None, n: int) -> Tensor:
        """Their bias of the output in our order, closed where it must be."""
        found = self.taken(torch.zeros(n) if theirs is None else theirs)
        found[sorted(self.closed)] = CLOSED
        return found

    def tokens(self, theirs: Sequence[str]) -> list[str]:
        """Their tokens in our order; a token of theirs that is called as one of ours is renamed."""
        rest = [theirs[row] for row in self.rows[len(SPECIALS) :] if row is not None]
        return [*SPECIALS, *(f"{token}_" if token in SPECIALS else token for token in rest)]


def specials_first(
    n: int, *, pad: int | None, begin: int, end: int, unknown: int | None
) -> Renumbering:
    """Their special ids to the front of n; ``begin`` is the id that a target starts with.

    What starts a target may also be their padding, which is then ours to begin with, or their end,
    which then stands in two places and can be written as the end alone.
    """
    front = (None if pad in (begin, end) else pad, begin, end, unknown)
    closed = {number for number, row in enumerate(front) if row is None}
    if begin == end:
        closed.add(BEGIN_ID)
    rest = (row for row in range(n) if row not in front)
    return Renumbering((*front, *rest), frozenset(closed))


def renumbered(
    config: TransformerConfig,
    weights: Mapping[str, Tensor],
    source: Renumbering,
    target: Renumbering,
) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """A model of theirs, by our names, with our ids."""
    found = dict(weights)
    found[SOURCE_TOKENS] = source.taken(weights[SOURCE_TOKENS])
    for name in (TARGET_TOKENS, OUTPUT_WEIGHT):
        if name in weights:
            found[name] = target.taken(weights[name])
    if config.output_bias or target.closed:
        found[OUTPUT_BIAS] = target.bias(weights.get(OUTPUT_BIAS), config.n_target_vocab)
    changes = {
        "n_source_vocab": len(source.rows),
        "n_target_vocab": len(target.rows),
        "output_bias": OUTPUT_BIAS in found,
    }
    return config.model_copy(update=changes), found
