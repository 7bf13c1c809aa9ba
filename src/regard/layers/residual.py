"""The residual stream: what a sub-layer adds to it, and where it is normalised."""

from __future__ import annotations

from torch import Tensor, nn

from regard.layers.dropout import Dropout
from regard.layers.norms import make_norm


class Residual(nn.Module):
    """Stands around a sub-layer: norm(x + f(x)) as in the paper, or x + f(norm(x)).

    ``y = f(residual.enter(x))``, then ``x = residual.leave(x, y)``.
    """

    def __init__(
        self,
        d_model: int,
        *,
        dropout: float,
        norm_first: bool,
        norm: str = "layer",
        eps: float = 1e-5,
    ) -> None:
        super().__init__()
        self.norm = make_norm(norm, d_model, eps=eps)
        self.dropout = Dropout(dropout)
        self.norm_first = norm_first

    def enter(self, x: Tensor) -> Tensor:
        """The stream (B, T, D) -> what the sub-layer is given."""
        return self.norm(x) if self.norm_first else x

    def leave(self, x: Tensor, added: Tensor) -> Tensor:
        """The stream and what the sub-layer gave -> the stream after it."""
        x = x + self.dropout(added)
        return x if self.norm_first else self.norm(x)
