"""The position-wise feed-forward network."""

from __future__ import annotations

from torch import Tensor, nn


class FeedForward(nn.Module):
    """W₂ relu(W₁ x): the same at every position, and the nonlinearity between attentions."""

    def __init__(self, d_model: int, d_ff: int, *, bias: bool = True) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff, bias=bias)
        self.outer = nn.Linear(d_ff, d_model, bias=bias)
        for linear in (self.inner, self.outer):
            nn.init.xavier_uniform_(linear.weight)
            if bias:
                nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(…, D) -> (…, D)."""
        return self.outer(self.inner(x).relu())
