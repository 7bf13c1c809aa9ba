"""Multi-head attention: ``regard.MultiHeadAttention``."""

from __future__ import annotations

from torch import Tensor, nn

from regard.core.errors import ConfigError
from regard.functional.masks import Mask
from regard.functional.positions import BASE
from regard.layers.draw import normaliser as normaliser_named
from regard.layers.key_values import KeyValues
from regard.layers.places import PLACES
from regard.layers.score import Score
from regard.layers.viewpoint import Seen, Viewpoint
from regard.layers.window import WINDOWS


class MultiHeadAttention(nn.Module):
    """Several attentions side by side on projections of the same input, joined by W_o.

    Self-attention with one argument, cross-attention with two. The widths of queries, keys and
    values may differ where the score allows it; W_o brings them back to ``d_model``. With fewer
    ``n_kv_heads`` than heads, as many heads share each key and value (Ainslie et al. 2023).
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        score: str = "scaled_dot",
        window: str = "global",
        normaliser: str = "softmax",
        positions: str = "none",
        d_memory: int | None = None,
        d_query: int | None = None,
        d_key: int | None = None,
        d_value: int | None = None,
        bias: bool = True,
        half_width: int = 10,
        max_len: int = 512,
        n_kv_heads: int | None = None,
        rotary_base: float = BASE,
    ) -> None:
        super().__init__()
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        if n_heads < 1 or n_kv_heads < 1:
            raise ConfigError(f"n_heads={n_heads}, n_kv_heads={n_kv_heads}: at least 1 is needed")
        if n_heads % n_kv_heads:
            raise ConfigError(
                f"n_kv_heads={n_kv_heads} does not divide n_heads={n_heads}: as many heads must "
                "share each key"
            )
        d_key = d_key or d_query or _head_width(d_model, n_heads)
        d_query = d_query or d_key
        d_value = d_value or d_key
        d_memory = d_memory or d_model
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.to_q = nn.Linear(d_model, n_heads * d_query, bias=bias)
        self.to_k = nn.Linear(d_memory, n_kv_heads * d_key, bias=bias)
        self.to_v = nn.Linear(d_memory, n_kv_heads * d_value, bias=bias)
        self.to_out = nn.Linear(n_heads * d_value, d_model, bias=bias)
        self.score = Score(score, d_query=d_query, d_key=d_key, max_len=max_len, n_heads=n_heads)
        self.window = WINDOWS[window](d_query, half_width, n_heads)
        self.places = PLACES[positions](n_heads, rotary_base)
        self.normaliser = normaliser_named(normaliser)
        self.view = Viewpoint()
        for projection in (self.to_q, self.to_k, self.to_v, self.to_out):
            nn.init.xavier_uniform_(projection.weight)
            if bias:
                nn.init.zeros_(projection.bias)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Mask = None,
        causal: bool = False,
    ) -> Tensor:
        """x (B, T, D) looks at itself, or at memory (B, S, d_memory) -> (B, T, D)."""
        looked_at = x if memory is None else memory
        return self.look(x, self.project(looked_at), mask=mask, causal=causal)

    def project(self, memory: Tensor) -> KeyValues:
        """Keys and values of what will be looked at, to be computed once and kept by the caller."""
        k, v = (_heads(to(memory), self.n_kv_heads) for to in (self.to_k, self.to_v))
        return KeyValues(k, v)

    def look(
        self,
        x: Tensor,
        memory: KeyValues,
        *,
        mask: Mask = None,
        causal: bool = False,
        first: int = 0,
    ) -> Tensor:
        """As ``forward``, at keys and values already projected; x begins at position ``first``."""
        q = _heads(self.to_q(x), self.n_heads)
        memory = memory.shared_by(self.n_heads)
        if x.shape[1] == 1:
            causal = False  # the last position may see all keys there are
        window = self.window(q, memory.k.shape[-2], mask, causal, first)
        told = self.places(q, memory.k, first)
        seen = Seen(
            q=told.q,
            k=told.k,
            v=memory.v,
            score=self.score,
            mask=window.mask,
            causal=window.causal,
            near=window.near,
            bias=told.bias,
            prior=window.prior,
            normaliser=self.normaliser,
        )
        if self.view.watched:
            seen = self.view(seen)
        return self.to_out(_join_heads(seen.values()))


def _heads(x: Tensor, n: int) -> Tensor:
    return x.unflatten(-1, (n, -1)).transpose(1, 2)  # (B, T, H·D) -> (B, H, T, D)


def _join_heads(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)  # (B, H, T, D) -> (B, T, H·D)


def _head_width(d_model: int, n_heads: int) -> int:
    if n_heads < 1 or d_model % n_heads:
        raise ConfigError(f"d_model={d_model} is not a multiple of n_heads={n_heads}")
    return d_model // n_heads
