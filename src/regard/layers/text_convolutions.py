"""Convolutions over the positions of a text: centred for an encoder, causal for a decoder.

A convolution is one product of a matrix with what its kernel sees, which lies side by side: all
positions at once. A decoder that reads on needs the last (k - 1) · dilation inputs of each layer
and nothing else, so that a step costs the same wherever it is. In a packed row, where texts lie end
to end, a kernel sees zeros in place of what is of another text.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import override

from regard.kernels.activations import norm_relu
from regard.layers.dropout import Dropout

HALF = 0.5**0.5
"""√.5: a sum of two vectors of equal variance has that variance again when multiplied by it."""


@dataclass(frozen=True, slots=True)
class PastInputs:
    """What causal convolutions have read so far, as far as they can see."""

    layers: tuple[Tensor, ...]
    """Of each layer (B, (k - 1) · dilation, d_in): its last inputs, zeros before the first."""
    length: int = 0
    """Tokens read so far."""

    def select(self, rows: Tensor) -> PastInputs:
        """Rows of the batch by index, in that order."""
        return PastInputs(tuple(x.index_select(0, rows) for x in self.layers), self.length)


def side_by_side(x: Tensor, kernel: int, dilation: int = 1) -> Tensor:
    """x (B, T + (k - 1) · dilation, D) -> (B, T, k · D): what the kernel sees at each position.

    >>> side_by_side(torch.arange(4.0).view(1, 4, 1), kernel=2, dilation=2).tolist()
    [[[0.0, 2.0], [1.0, 3.0]]]
    """
    n = x.shape[1] - (kernel - 1) * dilation
    return torch.cat([x[:, i * dilation : i * dilation + n] for i in range(kernel)], dim=-1)


def of_one_text(texts: Tensor, kernel: int, before: int, dilation: int = 1) -> Tensor:
    """texts (N,) of a packed row -> (N, kernel): which positions that a kernel sees are of its own.

    The first of them stands ``before`` positions before the position itself.

    >>> of_one_text(torch.tensor([0, 0, 1]), kernel=2, before=1).int().tolist()
    [[0, 1], [1, 1], [0, 1]]
    """
    nobody = torch.iinfo(texts.dtype).min
    around = F.pad(texts, (before, (kernel - 1) * dilation - before), value=nobody)
    return side_by_side(around[None, :, None], kernel, dilation)[0] == texts.unsqueeze(1)


class TextConvolution(nn.Module):
    """A kernel of ``kernel`` positions, ``dilation`` apart; ``product`` is its matrix.

    ``product`` maps (…, kernel · d_in) to (…, d_out): a linear layer.
    """

    def __init__(self, product: nn.Module, kernel: int, *, dilation: int = 1) -> None:
        super().__init__()
        self.product = product
        self.kernel, self.dilation = kernel, dilation

    @property
    def n_past(self) -> int:
        """Positions that the kernel sees beside one."""
        return (self.kernel - 1) * self.dilation

    def centred(self, x: Tensor, texts: Tensor | None = None) -> Tensor:
        """x (B, T, d_in), zeros before and behind it -> (B, T, d_out).

        With ``texts`` (T,) x is a packed row, (1, T, d_in), and zeros stand around each text in it.
        """
        before = self.n_past // 2
        padded = F.pad(x, (0, 0, before, self.n_past - before))
        return self._valid(padded, texts, before)

    def causal(self, x: Tensor, past: Tensor, texts: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (B, T, d_in) after ``past`` (B, n_past, d_in) -> (B, T, d_out), and the new past.

        With ``texts`` (T,) x is a packed row, and nothing is before it.
        """
        read = torch.cat((past.to(x.dtype), x), dim=1)
        return self._valid(read, texts, self.n_past), read[:, x.shape[1] :]

    def _valid(self, x: Tensor, texts: Tensor | None, before: int) -> Tensor:
        seen = side_by_side(x, self.kernel, self.dilation)
        if texts is not None:
            own = of_one_text(texts, self.kernel, before, self.dilation).unsqueeze(-1)
            seen = seen.unflatten(-1, (self.kernel, -1)).masked_fill(~own, 0.0).flatten(-2)
        return self.product(seen)


# ------------------------------------------------------------------ gated, of normed weights


class WeightNormLinear(nn.Module):
    """W x + b, the rows of W having lengths that are learned apart from their directions:
    w = g v / ‖v‖ (Salimans & Kingma 2016).
    """

    def __init__(self, d_in: int, d_out: int, *, std: float) -> None:
        """W begins as N(0, std), b as zeros."""
        super().__init__()
        self.direction = nn.Parameter(torch.randn(d_out, d_in) * std)
        self.length = nn.Parameter(self.direction.detach().norm(dim=1))
        self.bias = nn.Parameter(torch.zeros(d_out))

    @property
    def weight(self) -> Tensor:
        """W (d_out, d_in)"""
        scale = self.length / self.direction.norm(dim=1)
        return self.direction * scale.unsqueeze(1)

    def forward(self, x: Tensor) -> Tensor:
        """(…, d_in) -> (…, d_out)"""
        return F.linear(x, self.weight, self.bias)


def normed_linear(d_in: int, d_out: int, *, keep: float = 1.0) -> WeightNormLinear:
    """One that keeps the variance of its input, of which a share ``keep`` is left by dropout."""
    return WeightNormLinear(d_in, d_out, std=(keep / d_in) ** 0.5)


class GatedConvolution(nn.Module):
    """Dropout, a convolution to twice the width, and the gated linear unit A ⊙ σ(B) (Dauphin et
    al. 2017); weights begin so large that it keeps the variance of its input (Gehring et al. 2017).
    """

    def __init__(self, d_in: int, d_out: int, kernel: int, *, dropout: float) -> None:
        super().__init__()
        n = kernel * d_in
        product = WeightNormLinear(n, 2 * d_out, std=(4 * (1 - dropout) / n) ** 0.5)
        self.convolution = TextConvolution(product, kernel)
        self.dropout = Dropout(dropout)

    def centred(self, x: Tensor, mask: Tensor, texts: Tensor | None = None) -> Tensor:
        """x (B, S, d_in), mask (B, S, 1) True at real positions -> (B, S, d_out).

        With ``texts`` (S,) x is a packed row.
        """
        real = self.dropout(x).masked_fill(~mask, 0.0)
        return F.glu(self.convolution.centred(real, texts))

    def causal(self, x: Tensor, past: Tensor, texts: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (B, T, d_in) after ``past`` -> (B, T, d_out), and the new past; or a packed row."""
        y, past = self.convolution.causal(self.dropout(x), past, texts)
        return F.glu(y), past


# ------------------------------------------------------------------ dilated, in residual blocks


def multiplicative_unit(h: Tensor, convolved: Tensor) -> Tensor:
    """g₁ ⊙ tanh(g₂ ⊙ h + g₃ ⊙ u), where each g = σ(conv h), and u = tanh(conv h).

    h (B, T, D), its four convolutions side by side (B, T, 4D) -> (B, T, D).
    """
    gates, u = convolved.split((3 * h.shape[-1], h.shape[-1]), dim=-1)
    g1, g2, g3 = gates.sigmoid().chunk(3, dim=-1)
    return g1 * (g2 * h + g3 * u.tanh()).tanh()


class NormReLU(nn.LayerNorm):
    """ReLU(LayerNorm(x))"""

    @override
    def forward(self, input: Tensor) -> Tensor:
        return norm_relu(input, self.weight, self.bias, self.eps)


class DilatedBlock(nn.Module):
    """A residual block of ByteNet on vectors of width 2D (Kalchbrenner et al. 2016):

        norm, ReLU, 1 × 1 to D;  norm, ReLU, dilated 1 × k;  norm, ReLU, 1 × 1 to 2D;  + input

    With ``multiplicative`` the dilated convolution is a multiplicative unit, and no ReLU is before
    it. Norms are taken over the channels of a position, so no position knows another by them.
    """

    def __init__(
        self, d: int, kernel: int, dilation: int, *, multiplicative: bool, dropout: float
    ) -> None:
        super().__init__()
        read = nn.LayerNorm(d) if multiplicative else NormReLU(d)
        self.norms = nn.ModuleList((NormReLU(2 * d), read, NormReLU(d)))
        self.narrow, self.widen = nn.Linear(2 * d, d), nn.Linear(d, 2 * d)
        product = nn.Linear(kernel * d, 4 * d if multiplicative else d)
        self.convolution = TextConvolution(product, kernel, dilation=dilation)
        self.multiplicative = multiplicative
        self.dropout = Dropout(dropout)

    def centred(self, x: Tensor, mask: Tensor, texts: Tensor | None = None) -> Tensor:
        """x (B, S, 2D), mask (B, S, 1) True at positions that are read -> (B, S, 2D).

        With ``texts`` (S,) x is a packed row.
        """
        h = self._enter(x).masked_fill(~mask, 0.0)
        return self._leave(x, h, self.convolution.centred(h, texts))

    def causal(self, x: Tensor, past: Tensor, texts: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (B, T, 2D) after ``past`` (B, n_past, D) -> (B, T, 2D), and the new past; or a packed
        row.
        """
        h = self._enter(x)
        y, past = self.convolution.causal(h, past, texts)
        return self._leave(x, h, y), past

    def _enter(self, x: Tensor) -> Tensor:
        """What the convolution reads, (B, T, D)."""
        return self.norms[1](self.narrow(self.norms[0](x)))

    def _leave(self, x: Tensor, h: Tensor, y: Tensor) -> Tensor:
        y = multiplicative_unit(h, y) if self.multiplicative else y
        return x + self.dropout(self.widen(self.norms[2](y)))
