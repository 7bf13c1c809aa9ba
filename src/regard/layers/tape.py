"""The Long Short-Term Memory-Network (Cheng et al. 2016): an LSTM that forgets no step.

Where an LSTM has one h and one c, this one has a tape of all it had, and at every step recalls a
mixture of them by attention. All that the words alone decide is computed before the first step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.functional import masks
from regard.layers.attention import MemoryAttention
from regard.layers.key_values import KeyValues
from regard.layers.score import Beta, PreparedScore
from regard.layers.viewpoint import Seen


@dataclass(frozen=True, slots=True)
class Tape:
    """All steps so far. Never changed in place."""

    steps: KeyValues
    """k (B, 1, T, D): h as the score wants its keys; v (B, 1, T, 2D): h and c side by side."""
    recalled: Tensor
    """(B, D): h̃ of the last step, which asks in the next; zeros before the first."""

    @property
    def length(self) -> int:
        """Steps so far."""
        return self.steps.k.shape[-2]

    @property
    def hidden(self) -> Tensor:
        """(B, T, D): the hidden tape, h of every step."""
        return self.steps.v[:, 0].chunk(2, dim=-1)[0]

    def select(self, rows: Tensor) -> Tape:
        """Rows of the batch by index, in that order."""
        return Tape(self.steps.select(rows), self.recalled.index_select(0, rows))


class TapeAttention(MemoryAttention):
    """Attention to the steps before. The word and what was recalled last ask together.

    The query is W x_t + h̃_{t-1}. With the score ``additive`` that is the paper's
    vᵀtanh(W_h h_i + W_x x_t + W_h̃ h̃_{t-1}), where W_h̃ is the score's matrix and W_x is W_h̃ W: as
    many numbers and the same functions, but now every score can be used.
    """

    def __init__(
        self, d_word: int, d_hidden: int, *, score: str, max_len: int = 512, beta: Beta = "fixed"
    ) -> None:
        super().__init__(d_hidden, d_hidden, score=score, max_len=max_len, beta=beta)
        self.words = nn.Linear(d_word, d_hidden, bias=False)

    def recall(self, q: Tensor, steps: KeyValues) -> Tensor:
        """q (B, D) -> h̃ and c̃ side by side (B, 2D); zeros where there was no step yet."""
        if steps.k.shape[-2] == 0:
            return q.new_zeros(q.shape[0], 2 * q.shape[1])
        seen = self._seen(q[:, None, None], steps)  # one head, one query
        if self.view.edited:
            seen = self.view.change(seen)
        return seen.values()[:, 0, 0]

    def entry(self, h: Tensor, c: Tensor) -> KeyValues:
        """h, c (B, D) as one more step, whose key is projected here and never again."""
        both = torch.cat((h, c), dim=-1)[:, None, None]
        return KeyValues(self.score.prepare(h[:, None, None]), both)

    def show(self, queries: list[Tensor], steps: KeyValues, mask: Tensor | None) -> None:
        """All queries (B, D) at once to whoever watches; they are those of the last steps.

        An edit has changed each step; it changes all of them here again, and in the same way.
        """
        # Counted from one step earlier: a step sees what came before it, and never itself.
        before = masks.causal(len(queries) + 1, steps.k.shape[-2], device=steps.k.device)[:-1]
        asks = torch.stack(queries, dim=1).unsqueeze(1)
        self.view(self._seen(asks, steps, masks.both(mask, before)))

    def _seen(self, q: Tensor, steps: KeyValues, mask: Tensor | None = None) -> Seen:
        return Seen(
            q=q,
            k=steps.k,
            v=steps.v,
            score=PreparedScore(self.score),
            mask=mask,
            causal=False,
            prior=None,
            normaliser=self.normaliser,
        )


class TapeCell(nn.Module):
    """One step of an LSTM that goes on from what was recalled, not from the step before.

        (i, f, o, ĉ) = (σ, σ, σ, tanh)(W [h̃; x])
        c = f ∘ c̃ + i ∘ ĉ
        h = o ∘ tanh(c)

    Deep fusion adds to c what was brought from another tape.
    """

    def __init__(self, d_word: int, d_hidden: int) -> None:
        super().__init__()
        self.words = nn.Linear(d_word, 4 * d_hidden)
        self.recalled = nn.Linear(d_hidden, 4 * d_hidden, bias=False)

    def forward(
        self, read: Tensor, h: Tensor, c: Tensor, brought: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """A word's part ``words(x)`` (B, 4D), h̃ and c̃ (B, D), what is brought (B, D) -> h, c."""
        gates = read + self.recalled(h)
        d = h.shape[-1]
        i, f, o = gates[..., : 3 * d].sigmoid().chunk(3, dim=-1)
        new = f * c + i * gates[..., 3 * d :].tanh()
        if brought is not None:
            new = new + brought
        return o * new.tanh(), new


def empty_tape(like: Tensor) -> Tape:
    """The tape before the first step, for rows as in ``like`` (B, D)."""
    nothing = like.new_zeros(like.shape[0], 1, 0, like.shape[1])
    steps = KeyValues(nothing, torch.cat((nothing, nothing), dim=-1))
    return Tape(steps, torch.zeros_like(like))


def unroll(
    cell: TapeCell,
    attends: TapeAttention,
    x: Tensor,
    tape: Tape,
    *,
    brought: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tape:
    """Words x (B, T, d_word) after the ``tape`` -> the tape with them on it.

    ``brought`` (B, T, D) is what deep fusion adds to each step's c. ``mask`` (B, 1, 1, T) says
    which words are real; they come first, so no real step ever sees another kind, and the mask is
    for those who watch.
    """
    reads, asks = cell.words(x).unbind(dim=1), attends.words(x).unbind(dim=1)
    extra = [None] * len(reads) if brought is None else brought.unbind(dim=1)
    steps, h, queries = tape.steps, tape.recalled, []
    for read, ask, more in zip(reads, asks, extra, strict=True):
        queries.append(ask + h)
        h, c = attends.recall(queries[-1], steps).chunk(2, dim=-1)
        entry = attends.entry(*cell(read, h, c, more))
        steps = steps.extended(entry) if steps.k.shape[-2] else entry
    if queries and attends.view.watched:
        attends.show(queries, steps, mask)
    return Tape(steps, h)
