"""The encoder block and the decoder block that every Transformer is an assembly of.

A block is a few sub-layers (self-attention, attention to a source, feed-forward), each with a
residual connection around it. Both kinds take the same settings (``BlockSettings``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from regard.core.registry import Registry
from regard.functional.attend import is_drawn
from regard.functional.masks import Mask
from regard.layers.attention import MultiHeadAttention
from regard.layers.dropout import Dropout, DropPath
from regard.layers.experts import ExpertLinear, Experts
from regard.layers.feed_forward import FeedForward
from regard.layers.key_values import KeyValues
from regard.layers.positions import is_relative
from regard.layers.settings import BlockSettings

NORMS: Registry[Callable[..., nn.Module]] = Registry("norm")
NORMS.add("layer")(nn.LayerNorm)
NORMS.add("rms")(nn.RMSNorm)


def make_norm(kind: str, width: int, *, eps: float = 1e-5) -> nn.Module:
    """``layer`` takes the mean away and divides by the deviation; ``rms`` only divides."""
    return NORMS[kind](width, eps=eps)


class Residual(nn.Module):
    """The connection around a sub-layer: norm(x + f(x)) as in the paper, or x + f(norm(x)).

    ``y = f(residual.enter(x))``, then ``x = residual.leave(x, y)``.
    """

    def __init__(
        self,
        d_model: int,
        *,
        dropout: float,
        norm_first: bool,
        norm: str = "layer",
        eps: float = 1e-5,
        drop_path: float = 0.0,
    ) -> None:
        super().__init__()
        self.norm = make_norm(norm, d_model, eps=eps)
        self.dropout = Dropout(dropout)
        self.drop_path = DropPath(drop_path) if drop_path else None
        self.norm_first = norm_first

    def enter(self, x: Tensor) -> Tensor:
        """The stream (B, T, D) -> what the sub-layer is given."""
        return self.norm(x) if self.norm_first else x

    def leave(self, x: Tensor, added: Tensor) -> Tensor:
        """The stream and what the sub-layer gave -> the stream after it."""
        added = self.dropout(added)
        x = x + (added if self.drop_path is None else self.drop_path(added))
        return x if self.norm_first else self.norm(x)


class TransformerBlock(nn.Module):
    """What both kinds of block consist of; ``layer`` of ``n_layers``, counted from 0.

    ``cross_after`` is the sub-layer behind which a decoder looks at the source: ``attention``, as
    in the paper, or ``feed_forward``; None where there is no source.
    """

    def __init__(
        self,
        settings: BlockSettings,
        *,
        cross_after: str | None = None,
        layer: int = 0,
        n_layers: int = 1,
    ) -> None:
        super().__init__()
        cross = cross_after is not None
        self.source_last = cross_after == "feed_forward"
        # Stochastic depth: the deeper a layer, the more often it is skipped (Huang et al. 2016).
        drop_path = settings.drop_path * (layer + 1) / n_layers
        self.self_attention = _attention(settings, layer)
        self.cross_attention = _attention(settings, layer, cross=True) if cross else None
        self.feed_forward = _feed_forward(settings, layer)
        same = settings.model_dump(include={"dropout", "norm_first", "norm", "eps"})
        around = partial(Residual, settings.d_model, drop_path=drop_path, **same)
        self.around_self = around()
        self.around_cross = around() if cross else None
        self.around_feed_forward = around()

    def _look_around(self, x: Tensor, mask: Mask, positions: Tensor | None) -> Tensor:
        """Self-attention of all of x (B, T, D), and the residual connection around it."""
        y = self.around_self.enter(x)
        placed, attention = _placed(y, positions), self.self_attention
        found = attention.look(placed, attention.project(placed, y), mask=mask)
        return self.around_self.leave(x, found)

    def _fed_forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        around, feed_forward = self.around_feed_forward, self.feed_forward
        y = around.enter(x)
        y = feed_forward(y, real) if isinstance(feed_forward, Experts) else feed_forward(y)
        return around.leave(x, y)


class EncoderBlock(TransformerBlock):
    """Self-attention, then feed-forward."""

    def forward(self, x: Tensor, mask: Mask, positions: Tensor | None = None) -> Tensor:
        """x (B, S, D), mask that broadcasts to (B, H, S, S) -> (B, S, D).

        ``positions`` (B, S, D) join queries and keys, not values, as every layer of DETR has it.
        """
        seen = self._look_around(x, mask, positions)
        return self._fed_forward(seen, _real(x, mask))

    def first(self, x: Tensor) -> Tensor:
        """What ``forward`` gives at the first position alone, which sees all: (B, S, D) -> (B, D).

        With the window ``causal`` it would see itself only, and this is not what it gives.
        """
        y = self.around_self.enter(x)
        found = self.self_attention(y[:, :1], y)
        return self._fed_forward(self.around_self.leave(x[:, :1], found))[:, 0]


class DecoderBlock(TransformerBlock):
    """Masked self-attention, attention to a source, feed-forward."""

    def forward(
        self,
        x: Tensor,
        past: KeyValues,
        source: KeyValues | None = None,
        source_mask: Mask = None,
        mask: Mask = None,
        real: Tensor | None = None,
    ) -> tuple[Tensor, KeyValues]:
        """x (B, T, D) after the ``past`` -> (B, T, D) and the past with x in it.

        ``real`` (B, T) is False at padding, which experts are not asked about.
        """
        first = past.length
        y = self.around_self.enter(x)
        present = self.self_attention.extended(past, y)
        found = self.self_attention.look(y, present, mask=mask, causal=True, first=first)
        x = self.around_self.leave(x, found)
        if source is None:
            return self._fed_forward(x, real), present
        if self.source_last:
            x = self._fed_forward(x, real)
            return self._look_across(x, source, source_mask, first), present
        x = self._look_across(x, source, source_mask, first)
        return self._fed_forward(x, real), present

    def project_source(self, keys: Tensor, values: Tensor | None = None) -> KeyValues:
        """What is looked at (B, S, D), and values of its own if given, as ``forward`` takes it."""
        assert self.cross_attention is not None
        return self.cross_attention.project(keys, values)

    def after_prefix(
        self,
        x: Tensor,
        past: KeyValues,
        prefix: KeyValues,
        lengths: Tensor,
        real: Tensor | None = None,
    ) -> tuple[Tensor, KeyValues]:
        """x (B, T, D) after the ``past``, which stands behind a prefix of ``lengths`` (B,).

        The prefix is kept apart: a search reorders and repeats what is written, not what was read.
        """
        first = past.length
        y = self.around_self.enter(x)
        present = self.self_attention.extended(past, y)
        found = self.self_attention.look_back(y, prefix, present, lengths, first)
        return self._fed_forward(self.around_self.leave(x, found), real), present

    def together(
        self,
        x: Tensor,
        source: KeyValues,
        *,
        mask: Mask,
        positions: Tensor,
        bias: Tensor | None,
    ) -> Tensor:
        """All of x (B, T, D) at once, in no order, each looking at the source.

        ``positions`` (B, T, D) join queries and keys, not values. The mask (T, T) says who of x may
        see whom; the bias (B, H, T, S) is added to the scores of the source.
        """
        x = self._look_around(x, mask, positions)
        return self._fed_forward(self._look_across(x, source, positions=positions, bias=bias))

    def _look_across(
        self,
        x: Tensor,
        source: KeyValues,
        mask: Mask = None,
        first: int = 0,
        positions: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Tensor:
        assert self.cross_attention is not None
        assert self.around_cross is not None
        y = _placed(self.around_cross.enter(x), positions)
        found = self.cross_attention.look(y, source, mask=mask, first=first, bias=bias)
        return self.around_cross.leave(x, found)


SHALLOW = 2
"""Layers of a post-norm stack that learn as fast, or faster, with Glorot's weights as they are."""


@torch.no_grad()
def begin_small(blocks: Sequence[nn.Module] | nn.ModuleList) -> None:
    """Make what fresh sub-layers add to a post-norm stream small: (4 n)^-¼ of Glorot's weights.

    n counts the sub-layers of the stack. The norm after each of them shrinks the stream by as much
    as it was added to, so that with Glorot's weights little of the words is left after six layers,
    and heads that see nothing learn nothing (Liu et al. 2020; the factor is that of Wang et al.
    2022). Values, outputs and feed-forwards are meant: queries and keys add nothing. A ``SHALLOW``
    stack stays as it is.
    """
    if len(blocks) <= SHALLOW:
        return
    layers = [module for block in blocks for module in block.modules()]
    attentions = [one for one in layers if isinstance(one, MultiHeadAttention)]
    feed_forwards = [one for one in layers if isinstance(one, FeedForward | Experts)]
    factor = (4 * (len(attentions) + len(feed_forwards))) ** -0.25
    linears: list[nn.Module] = [x for one in attentions for x in (one.to_v, one.to_out)]
    linears += [linear for one in feed_forwards for linear in one.children()]
    for linear in linears:
        if isinstance(linear, nn.Linear | ExpertLinear):
            linear.weight *= factor


def _feed_forward(settings: BlockSettings, layer: int) -> FeedForward | Experts:
    d_model, bias, activation = settings.d_model, settings.bias, settings.activation
    if settings.experts is None or not settings.has_experts(layer):
        return FeedForward(d_model, settings.d_ff, bias=bias, activation=activation)
    return Experts(
        d_model,
        settings.expert_width,
        n_experts=settings.experts,
        top_k=settings.top_k,
        bias=bias,
        activation=activation,
        balance=settings.balance,
    )


def _real(x: Tensor, mask: Mask) -> Tensor | None:
    """(B, S): False at padding of x (B, S, D), where a mask (B, 1, 1, S) says which that is."""
    if isinstance(mask, Tensor) and mask.dim() == 4 and mask.shape[1:3] == (1, 1):
        return mask[:, 0, 0].expand(x.shape[:2])
    return None


def _placed(x: Tensor, positions: Tensor | None) -> Tensor:
    return x if positions is None else x + positions


def _attention(settings: BlockSettings, layer: int, *, cross: bool = False) -> MultiHeadAttention:
    """Keys are drawn in attention across only; positions of a source are not a target's."""
    changes: dict[str, str] = {"window": settings.window_of(layer)}
    if cross or not is_relative(settings.positions):
        changes["positions"] = "none"
    if is_drawn(settings.normaliser) and not cross:
        changes["normaliser"] = "softmax"
    own = settings.model_copy(update=changes)
    return MultiHeadAttention(settings.d_model, settings.n_heads, own, d_key=settings.d_head)
