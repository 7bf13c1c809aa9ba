"""Plain self-attention over short rows, such as a picture's patches, while a compiled model learns.

One product makes queries, keys and values, and one kernel reads them where they lie and writes
their gradients where the next product wants them. Three products of a narrow model are bound by
memory: each reads the input again, and their three gradients must be added up afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.kernels.call import may_fuse, product_type
from regard.kernels.gpu import HAS_TRITON

LONGEST = 256
"""Positions of a row; beyond, torch's kernels for texts fill their tiles."""
WIDTHS = (16, 32, 64)
"""Of a head."""


def pays(x: Tensor, d_head: int) -> bool:
    """Whether x (B, T, D) is best looked at so: compiled, on a GPU, in 16 bits."""
    if not (torch.compiler.is_compiling() and x.is_cuda and HAS_TRITON and may_fuse()):
        return False
    half = product_type(x) in (torch.bfloat16, torch.float16)
    return half and x.shape[1] <= LONGEST and d_head in WIDTHS


def joined_attention(x: Tensor, projections: Sequence[nn.Linear], n_heads: int) -> Tensor:
    """x (B, T, D) looks at itself by softmax(q kᵀ / √Dh) v -> (B, T, H · Dh), heads side by side.

    The projections are those of queries, keys and values, all of one width.
    """
    from regard.kernels.gpu.joined_attention import attend_joined  # needs Triton

    weight = torch.cat(tuple(one.weight for one in projections))
    biases = tuple(one.bias for one in projections if one.bias is not None)
    qkv = F.linear(x, weight, torch.cat(biases) if biases else None)
    qkv = qkv.unflatten(-1, (3, n_heads, -1))  # (B, T, 3, H, Dh)
    found, _ = attend_joined(qkv, qkv.shape[-1] ** -0.5)
    return found.flatten(2)
