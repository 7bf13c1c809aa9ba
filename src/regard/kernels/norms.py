"""LayerNorm and what follows it as one kernel, for updates that are recorded on a GPU.

A network of many narrow layers spends its time reading and writing what is between two products.
Compiled, a norm, a ReLU and the rounding to 16 bits are one pass each way.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.kernels.call import is_recorded, product_type


def norm_relu(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """ReLU(LayerNorm(x)) over the last axis, in the type of products."""
    run = _compiled() if is_recorded(x) else _norm_relu
    normed: Tensor = run(x, weight, bias, eps, product_type(x))
    return normed


def _norm_relu(x: Tensor, weight: Tensor, bias: Tensor, eps: float, kind: torch.dtype) -> Tensor:
    return F.relu(F.layer_norm(x, x.shape[-1:], weight, bias, eps)).to(kind)


@cache
def _compiled() -> Any:
    return torch.compile(_norm_relu, dynamic=True)
