"""Attention as layers: ``regard.MultiHeadAttention``, and attention of one head to states."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from regard.core.errors import ConfigError
from regard.core.settings import parse
from regard.functional.attend import softmax
from regard.functional.masks import Mask
from regard.functional.positions import Bias
from regard.kernels import self_attention
from regard.layers.draw import normaliser as normaliser_named
from regard.layers.key_values import KeyValues
from regard.layers.positions import RelativePositions, RotaryPositions, make_relative
from regard.layers.score import GivenScore, PreparedScore, Score
from regard.layers.settings import AttentionSettings, Beta
from regard.layers.viewpoint import Seen, Viewpoint
from regard.layers.window import WINDOWS, CompressedWindow, KeyWidths, Restriction, Window


class MultiHeadAttention(nn.Module):
    """Several attentions side by side on projections of the same input, joined by W_o.

    Self-attention with one argument, cross-attention with two. How it looks is said by settings,
    as an object or one by one: ``score``, ``window``, ``normaliser``, ``bias``, ``n_kv_heads`` and
    the others of ``AttentionSettings``; its ``positions`` are relative ones or none. A ``score``
    given by itself may also be a ``regard.Score``, a module or any function of q and k.

    Queries and keys are ``d_query`` and ``d_key`` wide, which may differ where the score allows it,
    and values ``d_value``; W_o is (n_heads · d_value × d_out), d_out being ``d_model`` unless it is
    given. With fewer ``n_kv_heads`` than heads, as many heads share each key and value (Ainslie et
    al. 2023).
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        settings: AttentionSettings | None = None,
        *,
        d_memory: int | None = None,
        d_query: int | None = None,
        d_key: int | None = None,
        d_value: int | None = None,
        d_out: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if settings is not None and options:
            raise ConfigError(f"{', '.join(options)}: give settings as one object or one by one")
        given = options.pop("score") if callable(options.get("score")) else None
        settings = settings or parse(AttentionSettings, options, "")
        n_kv_heads = n_heads if settings.n_kv_heads is None else settings.n_kv_heads
        if n_heads < 1:
            raise ConfigError(f"n_heads={n_heads}: at least 1 is needed")
        if n_heads % n_kv_heads:
            raise ConfigError(
                f"n_kv_heads={n_kv_heads} does not divide n_heads={n_heads}: as many heads must "
                "share each key"
            )
        if not (d_key or d_query) and d_model % n_heads:
            raise ConfigError(f"d_model={d_model} is not a multiple of n_heads={n_heads}")
        d_key = d_key or d_query or d_model // n_heads
        d_query = d_query or d_key
        d_value = d_value or d_key
        d_memory = d_memory or d_model
        bias = settings.bias
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.to_q = nn.Linear(d_model, n_heads * d_query, bias=bias)
        self.to_k = nn.Linear(d_memory, n_kv_heads * d_key, bias=bias)
        self.to_v = nn.Linear(d_memory, n_kv_heads * d_value, bias=bias)
        self.to_out = nn.Linear(n_heads * d_value, d_out or d_model, bias=bias)
        if given is None:
            most = settings.max_len
            given = Score(
                settings.score, d_query=d_query, d_key=d_key, max_len=most, n_heads=n_heads
            )
        self.score = given if isinstance(given, Score) else GivenScore(given)
        if problems := [*settings.attention_problems(settings.window)]:
            raise ConfigError("; ".join(problems))
        widths = KeyWidths(n_kv_heads, d_key, d_value)
        self.window = WINDOWS[settings.window](d_query, settings.half_width, n_heads, widths)
        self.relative = make_relative(settings.positions, n_heads, settings.rotary_base)
        self.normaliser = normaliser_named(settings.normaliser)
        self.view = Viewpoint(slots=isinstance(self.window, CompressedWindow))
        for projection in (self.to_q, self.to_k, self.to_v, self.to_out):
            nn.init.xavier_uniform_(projection.weight)
            if bias:
                nn.init.zeros_(projection.bias)

    def forward(
        self, x: Tensor, memory: Tensor | None = None, *, mask: Mask = None, causal: bool = False
    ) -> Tensor:
        """x (B, T, D) looks at itself, or at memory (B, S, d_memory) -> (B, T, d_out)."""
        if memory is None and mask is None and not causal and self._joins(x):
            projections = (self.to_q, self.to_k, self.to_v)
            return self.to_out(self_attention.joined_attention(x, projections, self.n_heads))
        keys_values = self.project(x if memory is None else memory)
        return self.look(x, keys_values, mask=mask, causal=causal)

    def _joins(self, x: Tensor) -> bool:
        """Whether x is read by the kernel for plain attention of every position to every other."""
        if not self_attention.pays(x, self.to_q.out_features // self.n_heads):
            return False
        plain = type(self.window) is Window and type(self.relative) is RelativePositions
        scaled = self.score.name == "scaled_dot" and self.normaliser is softmax
        widths = {to.out_features for to in (self.to_q, self.to_k, self.to_v)}
        return plain and scaled and len(widths) == 1 and not self.view.watched

    def project(self, memory: Tensor, values: Tensor | None = None) -> KeyValues:
        """Keys and values of what will be looked at, to be computed once and kept by the caller.

        Both are made of the memory (B, S, d_memory), or the values of other vectors of its shape.
        """
        return self.window.kept(self._tokens(memory, values))

    def extended(self, past: KeyValues, x: Tensor) -> KeyValues:
        """What was kept of a text so far, and x (B, T, D) behind it."""
        return self.window.extended(past, self._tokens(x))

    def _tokens(self, memory: Tensor, values: Tensor | None = None) -> KeyValues:
        k = _heads(self.to_k(memory), self.n_kv_heads)
        v = _heads(self.to_v(memory if values is None else values), self.n_kv_heads)
        return KeyValues(k, v)

    def look(
        self,
        x: Tensor,
        memory: KeyValues,
        *,
        mask: Mask = None,
        causal: bool = False,
        first: int = 0,
        bias: Tensor | None = None,
    ) -> Tensor:
        """x (B, T, D), beginning at position ``first``, looks at projected keys and values.

        A ``bias`` (B, H, T, S) is added to the scores; an attention with relative positions, which
        have one of their own, takes none.
        """
        q = _heads(self.to_q(x), self.n_heads)
        keys = self.window.looked_at(memory).shared_by(self.n_heads)
        if x.shape[1] == 1:
            causal = False  # the last position may see all keys there are
        window = self.window(q, keys.length, mask, causal, first)
        q, k, relative = self.relative(q, keys.k, first, self.window.places(keys.k))
        assert bias is None or relative is None
        added = relative if bias is None else bias
        return self._found(q, k, keys.v, added, window)

    def look_back(
        self, x: Tensor, prefix: KeyValues, own: KeyValues, lengths: Tensor, first: int
    ) -> Tensor:
        """x (B, T, D), from position ``first`` of its own text on, looks at all before it.

        Each text stands behind a prefix, of which the first ``lengths`` (B,) positions count.
        """
        if self._shift_invariant:
            prefix, lengths = self.window.visible_prefix(prefix, lengths)
        q = _heads(self.to_q(x), self.n_heads)
        keys = self.window.behind(prefix, own, lengths).shared_by(self.n_heads)
        begins = lengths + first
        window = self.window.by_text(q, keys.length, begins)
        q, k, relative = self.relative(q, keys.k, begins, self.window.places(keys.k))
        return self._found(q, k, keys.v, relative, window)

    @property
    def _shift_invariant(self) -> bool:
        """Whether positions may be counted from anywhere: only distances matter, nobody watches.

        An inner product knows no positions. Rotary ones are distances to products of the vectors
        themselves, not of what a score has learned to make of them.
        """
        if self.view.watched or not isinstance(self.score, Score) or not self.score.kind.factors:
            return False
        return not isinstance(self.relative, RotaryPositions) or not self.score.learned

    def _found(self, q: Tensor, k: Tensor, v: Tensor, bias: Bias, window: Restriction) -> Tensor:
        seen = Seen(q, k, v, self.score, self.normaliser, bias, *window)
        if self.view.watched:
            seen = self.view(seen)
        return self.to_out(
            seen.values().transpose(1, 2).flatten(2)
        )  # (B, T, H·Dv) -> (B, T, d_out)


class MemoryAttention(nn.Module):
    """One head, no projections but the score's own.

    A decoder's states ask, or a learned query; an encoder's answer, keys and values at once.
    """

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

    def look(self, x: Tensor, memory: KeyValues, *, mask: Mask, first: int = 0) -> Tensor:
        """x (B, T, d_query), beginning at position ``first`` -> contexts (B, T, Dv)."""
        q = x.unsqueeze(1)  # (B, 1, T, D)
        window = self.window(q, memory.k.shape[-2], mask, False, first)
        score = PreparedScore(self.score)
        seen = Seen(q, memory.k, memory.v, score, self.normaliser, None, *window)
        if self.view.watched:
            seen = self.view(seen)
        return seen.values().squeeze(1)


def _heads(x: Tensor, n: int) -> Tensor:
    return x.unflatten(-1, (n, -1)).transpose(1, 2)  # (B, T, H·D) -> (B, H, T, D)
