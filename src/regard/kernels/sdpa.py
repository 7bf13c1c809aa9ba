"""Torch's own fused attention, and who among its kernels does the work."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.kernels.call import Call

LONG_FIRST = [
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]
"""For long texts on a GPU: cuDNN's is the fastest that a Hopper chip has (see RESULTS.md)."""


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
