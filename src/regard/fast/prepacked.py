"""Linear layers whose weights lie as a CPU's matrix kernels want them.

Else they are laid out anew at every call, which for few rows takes as long as the product itself.
The layout and the kernels are oneDNN's, by the operators that ``torch.compile`` uses too.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EXPECTED_ROWS = 64
"""The layout for so many rows serves all numbers of them."""


class Prepacked(NamedTuple):
    """W x + b, for W laid out once."""

    weight: Tensor
    """(out, in), opaque where it could be laid out."""
    bias: Tensor | None

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None) -> Prepacked:
        """Lay out a weight (out, in); it stays as it is where that cannot be done."""
        if can_pack(weight):
            weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), EXPECTED_ROWS)
        return cls(weight, bias)

    def __call__(self, x: Tensor, *, then: str = "none") -> Tensor:
        """x (R, in) -> (R, out); ``then`` may be "relu"."""
        if self.weight.is_mkldnn:
            return torch.ops.mkldnn._linear_pointwise.default(x, *self, then, [], "")
        y = F.linear(x, *self)
        return y.relu_() if then == "relu" else y

    def plus(self, x: Tensor, added: Tensor) -> Tensor:
        """The same, and ``added`` (R, out) to it."""
        if self.weight.is_mkldnn:
            return torch.ops.mkldnn._linear_pointwise.binary(x, added, *self, "add")
        return F.linear(x, *self) + added


class PrepackedLinear(nn.Module):
    """In place of an ``nn.Linear`` that will not learn any more."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        bias = None if linear.bias is None else linear.bias.detach()
        self.packed = Prepacked.of(linear.weight.detach(), bias)

    def forward(self, x: Tensor) -> Tensor:
        """(…, in) -> (…, out)"""
        return self.packed(x.flatten(0, -2)).unflatten(0, x.shape[:-1])


def prepack(module: nn.Module) -> nn.Module:
    """The same module with all its linear layers prepacked, in place."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, PrepackedLinear(child))
        else:
            prepack(child)
    return module


def can_pack(weight: Tensor) -> bool:
    """Whether there are such kernels for it here."""
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if weight.dtype == torch.bfloat16:
        return torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return weight.dtype == torch.float32
