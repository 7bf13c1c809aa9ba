"""The feed-forward of a block, and the nonlinearities that stand in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.registry import Registry
from regard.kernels.activations import gelu

ACTIVATIONS: Registry[Callable[[Tensor], Tensor]] = Registry("activation")
ACTIVATIONS.add("relu")(F.relu)
ACTIVATIONS.add("gelu")(gelu)
ACTIVATIONS.add("gelu_tanh")(partial(F.gelu, approximate="tanh"))
ACTIVATIONS.add("silu")(F.silu)
ACTIVATIONS.add("swiglu")(F.silu)
GATED = ("swiglu",)
"""Those whose result is multiplied with a second projection."""


class FeedForward(nn.Module):
    """W₂ f(W₁ x) or W₂ (f(W₁ x) · W₃ x), at every position: the nonlinearity between attentions."""

    def __init__(
        self, d_model: int, d_ff: int, *, bias: bool = True, activation: str = "relu"
    ) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.inner = nn.Linear(d_model, d_ff, bias=bias)
        self.beside = nn.Linear(d_model, d_ff, bias=bias) if activation in GATED else None
        self.outer = nn.Linear(d_ff, d_model, bias=bias)
        for linear in (self.inner, self.beside, self.outer):
            if linear is not None:
                nn.init.xavier_uniform_(linear.weight)
                if bias:
                    nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(…, D) -> (…, D)."""
        y = self.activation(self.inner(x))
        return self.outer(y if self.beside is None else y * self.beside(x))
