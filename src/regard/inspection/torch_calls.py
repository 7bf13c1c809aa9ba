"""Calls of torch's own attention as what our views are made of: queries, keys, values, masks.

Three ways lead to attention outside this project, and each becomes a ``Seen`` of the first row of a
batch, from which the weights are computed again:

- ``F.scaled_dot_product_attention``, with grouped heads, a causal flag, boolean or added masks;
- ``F.multi_head_attention_forward`` and ``nn.MultiheadAttention``, which project by themselves;
- scores, a softmax and a product with values, written out by hand.

Tensors may have any leading axes: (T, D) is one head, (N, T, D) are N heads, and of (B, …, T, D)
the first of B is taken, whose other axes are heads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import override

from regard.functional.attend import softmax, wide
from regard.functional.scores import BoundScore, Factors
from regard.layers.viewpoint import Seen

BIAS_KEY, ZERO_KEY, SINK_KEY = "<bias>", "<zero>", "<sink>"
"""What stands behind the keys of the text: two of ``nn.MultiheadAttention``, and scores alone."""
NOTHING = 5000.0
"""exp(-5000) is 0 in every float."""


@dataclass(frozen=True)
class ScaledProduct(BoundScore):
    """scale · q kᵀ, by whatever scale a call was given."""

    scale: float

    @override
    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        return self.factors(q, k).product()

    @override
    def factors(self, q: Tensor, k: Tensor) -> Factors:
        return Factors(q, k, self.scale)


class AttentionCall(NamedTuple):
    """One call of attention, of which the first row of the batch is seen."""

    seen: Seen
    n_rows: int
    """Of the batch."""
    added_keys: tuple[str, ...] = ()
    """What stands behind the keys of the text."""
    to_out: Tensor | None = None
    """(H, Dv, D): each head's part of W_o, where the call knows it."""


def sdpa_call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> AttentionCall:
    """What ``F.scaled_dot_product_attention`` was given; dropout is off when we look."""
    if enable_gqa:
        key, value = (
            x.repeat_interleave(query.shape[-3] // x.shape[-3], dim=-3) for x in (key, value)
        )
    n_queries, n_keys = query.shape[-2], key.shape[-2]
    mask, bias = None, None
    if attn_mask is not None:
        whole = first_row(attn_mask, (*query.shape[:-2], n_queries, n_keys))
        mask, bias = (whole, None) if whole.dtype == torch.bool else visible_and_bias(whole)
    if is_causal:  # counted from the first key, whatever the lengths
        mask = torch.ones(n_queries, n_keys, dtype=torch.bool, device=query.device).tril()
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return _call(query, key, value, factor, mask=mask, bias=bias)


def written_out_call(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scaled: Tensor,
    scale: float,
    dtype: torch.dtype,
    n_sinks: int = 0,
) -> AttentionCall:
    """Attention by hand: ``scaled`` is what the softmax was given, q kᵀ came out in ``dtype``.

    What was added to the scores is found by subtraction, and is nothing where it is mere rounding.
    Sinks are scores without a key or a value, behind the others.
    """
    n_keys = k.shape[-2]
    k, v = (F.pad(x, (0, 0, 0, n_sinks)) for x in (k, v))
    whole = first_row(scaled.reshape(*q.shape[:-1], scaled.shape[-1]))
    visible, _ = visible_and_bias(whole)
    keys = first_row(k, (*q.shape[:-2], *k.shape[-2:])).to(wide(k.dtype))
    with torch.autocast(q.device.type, enabled=False):
        product = first_row(q).to(keys.dtype) @ keys.mT * scale
    added = whole.to(product.dtype) - product
    rounding = 16 * torch.finfo(dtype).eps * (1 + product.abs().max())
    added = _without_shift(added, visible, n_keys, rounding)
    bias = added if added.abs().max() > rounding else None
    found = _call(q, k, v, scale, mask=visible, bias=bias)
    return found._replace(added_keys=(SINK_KEY,) * n_sinks)


def multi_head_call(
    *,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    out_proj_weight: Tensor,
    key_padding_mask: Tensor | None = None,
    attn_mask: Tensor | None = None,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    **_others: Any,
) -> AttentionCall:
    """What ``F.multi_head_attention_forward`` was given; queries (T, B, D) or (T, D)."""
    n_rows = query.shape[1] if query.dim() == 3 else 1
    parts = (q_proj_weight, k_proj_weight, v_proj_weight)
    weights: Any = parts if in_proj_weight is None else in_proj_weight.chunk(3)
    biases = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
    rows = [x[:, 0] if x.dim() == 3 else x for x in (query, key, value)]  # (T or S, D)
    q, k, v = (F.linear(x, w, b) for x, w, b in zip(rows, weights, biases, strict=True))
    added: tuple[str, ...] = ()
    if bias_k is not None and bias_v is not None:
        k, v, added = torch.cat((k, bias_k[0])), torch.cat((v, bias_v[0])), (BIAS_KEY,)
    q, k, v = (x.unflatten(-1, (num_heads, -1)).transpose(0, 1) for x in (q, k, v))  # (H, T, Dh)
    k = k if static_k is None else static_k[:num_heads]
    v = v if static_v is None else static_v[:num_heads]
    if add_zero_attn:
        k, v, added = F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1)), (*added, ZERO_KEY)
    mask, bias = None, None
    hidden = _both_masks(attn_mask, key_padding_mask, num_heads, q.dtype)
    if hidden is not None:
        whole = F.pad(hidden, (0, len(added))).expand(*q.shape[:-1], k.shape[-2])
        mask, bias = visible_and_bias(whole[None])
    to_out = out_proj_weight.detach().T.unflatten(0, (num_heads, -1))
    found = _call(q, k, v, 1 / math.sqrt(q.shape[-1]), mask=mask, bias=bias)
    return found._replace(n_rows=n_rows, added_keys=added, to_out=to_out)


def module_call(
    module: nn.MultiheadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> AttentionCall:
    """What a ``nn.MultiheadAttention`` was given, whichever path it took inside."""
    q, k, v = (x.unbind()[0][None] if x.is_nested else x for x in (query, key, value))
    if module.batch_first and q.dim() == 3:
        q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    return multi_head_call(
        query=q,
        key=k,
        value=v,
        num_heads=module.num_heads,
        in_proj_weight=module.in_proj_weight,
        in_proj_bias=module.in_proj_bias,
        bias_k=module.bias_k,
        bias_v=module.bias_v,
        add_zero_attn=module.add_zero_attn,
        out_proj_weight=module.out_proj.weight,
        key_padding_mask=key_padding_mask,
        attn_mask=attn_mask,
        q_proj_weight=module.q_proj_weight,
        k_proj_weight=module.k_proj_weight,
        v_proj_weight=module.v_proj_weight,
    )


def first_row(x: Tensor, shape: Sequence[int] | None = None) -> Tensor:
    """(…, T, D), perhaps broadcast to a shape -> (1, H, T, D); see above for the leading axes."""
    whole = x if shape is None else x.expand(*shape)
    if whole.dim() >= 4:
        return whole[0].flatten(0, -3)[None]
    return whole[(None,) * (4 - whole.dim())]


def visible_and_bias(added: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """What is added to scores (…, T, S) -> which keys are visible, and what is added to those.

    -inf hides a key, and so does any number that leaves it a weight of exactly 0, as masks of
    -10,000 or of the smallest float do. A row of nothing but equally small numbers hides none: the
    softmax weighs them.
    """
    visible = added - added.amax(dim=-1, keepdim=True) > -NOTHING  # false where all are -inf
    bias = added.masked_fill(~visible, 0.0)
    return None if visible.all() else visible, bias if bias.any() else None


def _without_shift(added: Tensor, visible: Tensor | None, n_keys: int, rounding: Tensor) -> Tensor:
    """The same without a number that all keys of a row have: a softmax does not see it.

    Some subtract the largest score of a row before they exponentiate.
    """
    seen = torch.ones_like(added, dtype=torch.bool) if visible is None else visible
    high = added.masked_fill(~seen, -math.inf)[..., :n_keys].amax(dim=-1, keepdim=True)
    low = added.masked_fill(~seen, math.inf)[..., :n_keys].amin(dim=-1, keepdim=True)
    if (high - low <= rounding).all():
        added = added - low.masked_fill(low.isinf(), 0.0)
    return added.masked_fill(~seen, 0.0)


def _both_masks(
    mask: Tensor | None, padding: Tensor | None, n_heads: int, dtype: torch.dtype
) -> Tensor | None:
    """What the two masks of ``nn.MultiheadAttention`` add to the scores of the first row."""
    added, hidden = _added(mask, dtype), _added(padding, dtype)
    if added is not None and added.dim() == 3:  # (B·H, T, S)
        added = added[:n_heads]
    if hidden is None:
        return added
    hidden = hidden[:1] if hidden.dim() == 2 else hidden[None]  # (1, S)
    return hidden if added is None else added + hidden


def _added(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """A mask of ``nn.MultiheadAttention``, in which True hides, as what is added to scores."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask, -math.inf)


def _call(
    q: Tensor, k: Tensor, v: Tensor, scale: float, *, mask: Tensor | None, bias: Tensor | None
) -> AttentionCall:
    lead = q.shape[:-2]
    shape = (*lead, *v.shape[-2:])  # values may lie in other leading axes than queries
    seen = Seen(
        q=first_row(q),
        k=first_row(k, (*lead, *k.shape[-2:])),
        v=first_row(v if v.dim() == q.dim() else v.reshape(shape), shape),
        score=ScaledProduct(scale),
        normaliser=softmax,
        bias=bias,
        mask=mask,
        causal=False,
    )
    return AttentionCall(seen, lead[0] if len(lead) >= 2 else 1)
