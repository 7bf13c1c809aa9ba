"""Which implementation attends: the readable reference, or a fused kernel that builds no weights.

Both obey one contract and are tested to agree, gradients included. A fused kernel is taken
whenever it can do the work: the score is an inner product and no prior multiplies the weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch.nn.functional as F
from torch import Tensor

from regard.functional import masks
from regard.functional.scores import Factors

_reference_only: ContextVar[bool] = ContextVar("reference_only", default=False)


@contextmanager
def reference_only() -> Iterator[None]:
    """Inside the block the readable kernel does all the work: for counting and for comparing."""
    token = _reference_only.set(True)
    try:
        yield
    finally:
        _reference_only.reset(token)


def may_fuse() -> bool:
    """Whether fused kernels are allowed just now."""
    return not _reference_only.get()


def fused(factors: Factors, v: Tensor, *, mask: Tensor | None, causal: bool) -> Tensor:
    """Torch's scaled_dot_product_attention. q, k, v (…, T or S, width) -> (…, T, Dv).

    Its own causal flag aligns the *first* query with the first key, which is wrong with cached
    keys; it is used only where that makes no difference.
    """
    q, k, scale = factors
    n_queries, n_keys = q.shape[-2], k.shape[-2]
    if causal and (mask is not None or n_queries != n_keys):
        mask = masks.both(mask, masks.causal(n_queries, n_keys, device=q.device))
        causal = False
    if mask is not None and mask.dim() < 2:
        mask = mask.expand(n_queries, n_keys)  # torch wants a row and a column
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, scale=scale)
