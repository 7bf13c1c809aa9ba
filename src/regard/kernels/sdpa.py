"""Torch's own fused attention, and attention over some queries at a time.

Chunks of queries are for what would otherwise build a number for every pair and more. Nothing of a
chunk is kept for backward but what went in; it is computed again there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from regard.functional.attend import weigh
from regard.functional.packing import PackedMask
from regard.kernels.call import Call, product_type

LONG_FIRST = [
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]
"""For long texts on a GPU: cuDNN's is the fastest that a Hopper chip has (see RESULTS.md)."""

ON_CPU = 2**20
"""Numbers that a chunk may build: those that a processor's cache holds."""
ON_GPU = 2**26
"""The same for a GPU: enough to keep it busy, a small part of its memory."""
WORTH = 4
"""Fewer chunks than this are not worth computing everything twice."""


def sdpa(call: Call) -> Tensor:
    """scaled_dot_product_attention, as torch picks. q, k, v (…, T or S, width) -> (…, T, Dv).

    Its own causal flag aligns the *first* query with the first key, which is wrong with cached
    keys; it is used only where that makes no difference. Windows and biases are written out.
    """
    q, k, scale = call.factors
    unmasked = call.mask is None and call.near is None and call.bias is None
    if call.causal and unmasked and call.n_queries == call.n_keys:
        return F.scaled_dot_product_attention(q, k, call.v, is_causal=True, scale=scale)
    mask = joined(call.visible(), call.added())
    if mask is not None and mask.dim() < 2:
        mask = mask.expand(call.n_queries, call.n_keys)  # torch wants a row and a column
    return F.scaled_dot_product_attention(q, k, call.v, attn_mask=mask, scale=scale)


def joined(visible: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """What torch takes for both: booleans where nothing is added, else numbers and -inf."""
    if bias is None or visible is None:
        return visible if bias is None else bias
    return torch.where(visible, bias, -torch.inf)


def sdpa_long(call: Call) -> Tensor:
    """The same with torch's kernels in the order that is fastest for long texts."""
    with sdpa_kernel(LONG_FIRST, set_priority=True):
        return sdpa(call)


def room(call: Call) -> int:
    """Numbers that may be built at once."""
    return ON_GPU if call.on_gpu else ON_CPU


def a_query(call: Call) -> int:
    """Numbers that one query builds: one for every key, or a vector where keys are no factors."""
    q, k, _ = call.factors
    width = 1 if call.score is None else k.shape[-1]
    return math.prod(q.shape[:-2]) * call.n_keys * max(1, width)


def too_much(call: Call) -> bool:
    """Whether all queries at once would build much more than there is room for."""
    return call.n_queries * a_query(call) > WORTH * room(call)


def whole(call: Call) -> Tensor:
    """Scores (…, T, S), their softmax, and the values: as the readable kernel does it."""
    return weigh(call.scores(), call.v, mask=call.visible()).values


def in_chunks(call: Call, run: Callable[[Call], Tensor]) -> Tensor:
    """``whole`` or ``sdpa`` for some queries at a time, mask and bias written out for them."""
    n = max(1, room(call) // max(1, a_query(call)))
    if call.causal and call.n_queries > call.n_keys:  # some stand before the first key
        call = call._replace(mask=call.visible(), causal=False, near=None)
    begins = range(0, call.n_queries, n)
    parts = [_again(run, call.part(i, min(i + n, call.n_queries))) for i in begins]
    return torch.cat(parts, dim=-2)


def _again(run: Callable[[Call], Tensor], part: Call) -> Tensor:
    if not torch.is_grad_enabled():
        return run(part)
    return checkpoint(run, part, use_reentrant=False, preserve_rng_state=False)


# ------------------------------------------------------------------ texts end to end
# Each sees itself only, and nothing is spent on the rest.


def short_texts(call: Call) -> Tensor:
    """Groups of whole texts, one a program: ours, in Triton. (1, H, T, D) -> (1, H, T, D)."""
    from regard.kernels.gpu.packed_attention import attend_packed  # needs Triton

    texts = cast("PackedMask", call.mask)
    kind = product_type(call.factors.q)  # of all three, which a sum with float32 may have left
    q, k, v = (_rows(x).to(kind) for x in (call.factors.q, call.factors.k, call.v))
    found, _ = attend_packed(
        q, k, v, texts.queries, texts.keys, texts.spans, call.factors.scale, call.causal,
        texts.block,
    )  # fmt: skip
    return found.transpose(0, 1).unsqueeze(0)


def long_texts(call: Call) -> Tensor:
    """Torch's variable-length flash attention, for texts that no group can hold."""
    from torch.nn.attention.varlen import varlen_attn  # there is none on a CPU

    texts = cast("PackedMask", call.mask)
    asks, answers = ((of >= 0)[:, None, None] for of in (texts.queries, texts.keys))
    # Beyond the last text nothing is written, neither what is found nor gradients.
    rows = zip((call.factors.q, call.factors.k, call.v), (asks, answers, answers), strict=True)
    kind = product_type(call.factors.q)
    q, k, v = (torch.where(real, _rows(x), 0.0).to(kind).contiguous() for x, real in rows)
    found = cast("Tensor", varlen_attn(
        q, k, v, texts.query_bounds, texts.key_bounds, texts.longest, texts.longest,
        scale=call.factors.scale, window_size=(-1, 0) if call.causal else (-1, -1),
    ))  # fmt: skip
    found = torch.where(asks, found, 0.0)
    return found.transpose(0, 1).unsqueeze(0)


def _rows(x: Tensor) -> Tensor:
    """(1, H, N, D) -> (N, H, D)"""
    return x.squeeze(0).transpose(0, 1)
