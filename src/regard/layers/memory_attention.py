"""Attention to states: one head, no projections but the score's own."""

from __future__ import annotations

from torch import Tensor, nn

from regard.layers.draw import normaliser as normaliser_named
from regard.layers.key_values import KeyValues
from regard.layers.score import Beta, PreparedScore, Score
from regard.layers.viewpoint import Seen, Viewpoint
from regard.layers.window import WINDOWS


class MemoryAttention(nn.Module):
    """A decoder's states ask, or a learned query; an encoder's answer, keys and values at once."""

    def __init__(
        self,
        d_query: int,
        d_memory: int,
        *,
        score: str,
        window: str = "global",
        normaliser: str = "softmax",
        half_width: int = 10,
        max_len: int = 512,
        beta: Beta = "fixed",
    ) -> None:
        super().__init__()
        self.score = Score(
            score, d_query=d_query, d_key=d_memory, d_hidden=d_query, max_len=max_len, beta=beta
        )
        if score == "general":
            # W begins as the identity, so that `general` begins as `dot`: from small random
            # numbers, attention between recurrent states stays flat for a thousand steps.
            nn.init.eye_(self.score.get_parameter("weight"))
        self.window = WINDOWS[window](d_query, half_width)
        self.normaliser = normaliser_named(normaliser)
        self.view = Viewpoint()

    def project(self, memory: Tensor, values: Tensor | None = None) -> KeyValues:
        """Memory (B, S, d_memory) -> prepared keys and values, once for all queries.

        The values are the memory itself, or what was made of it (B, S, Dv).
        """
        values = memory if values is None else values
        return KeyValues(self.score.prepare(memory.unsqueeze(1)), values.unsqueeze(1))  # one head

    def look(self, x: Tensor, memory: KeyValues, *, mask: Tensor, first: int = 0) -> Tensor:
        """x (B, T, d_query), beginning at position ``first`` -> contexts (B, T, Dv)."""
        q = x.unsqueeze(1)  # (B, 1, T, D)
        window = self.window(q, memory.k.shape[-2], mask, False, first)
        seen = Seen(
            q=q,
            k=memory.k,
            v=memory.v,
            score=PreparedScore(self.score),
            mask=window.mask,
            causal=window.causal,
            near=window.near,
            prior=window.prior,
            normaliser=self.normaliser,
        )
        if self.view.watched:
            seen = self.view(seen)
        return seen.values().squeeze(1)
