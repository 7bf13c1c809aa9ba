"""How strongly each input moves each output, by gradients."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def block_norms(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """x (B, S, D) -> y (B, T, E); the Frobenius norms (B, T, S) of the blocks ∂y_t / ∂x_s."""
    x = x.detach().requires_grad_()
    y = function(x)
    rows = []
    for t in range(y.shape[1]):
        # Examples are strangers, so the gradient of their sum is each one's own.
        parts = [
            torch.autograd.grad(y[:, t, e].sum(), x, retain_graph=True)[0]
            for e in range(y.shape[2])
        ]
        rows.append(torch.cat(parts, dim=-1).norm(dim=-1))
    return torch.stack(rows, dim=1)
