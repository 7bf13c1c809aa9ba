"""ResNet (He et al. 2016) as detectors use it: a picture to a grid of vectors, its norms frozen.

The names follow the layout that the field shares: a stem that makes of the picture a quarter, then
stages of residual blocks, each but the first of which halves the grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

BlockKind = Literal["basic", "bottleneck"]
REDUCTION = 4
"""How much narrower a bottleneck is inside than what comes out of it."""
EPS = 1e-5


class FrozenBatchNorm(nn.Module):
    """A batch norm that learns nothing any more: its four vectors are constants of the model.

    Detectors are trained with few pictures a batch, from which no mean can be told; they keep what
    the network learned before (Carion et al. 2020, Ren et al. 2015).
    """

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, width: int, *, gain: float = 1.0) -> None:
        super().__init__()
        for name, value in (
            ("weight", gain),
            ("bias", 0.0),
            ("running_mean", 0.0),
            ("running_var", 1.0),
        ):
            self.register_buffer(name, torch.full((width,), value))

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> the same shape: a number is multiplied and one added, by channel."""
        scale = self.weight * (self.running_var + EPS).rsqrt()
        shift = self.bias - self.running_mean * scale
        return x * scale.to(x.dtype).view(-1, 1, 1) + shift.to(x.dtype).view(-1, 1, 1)


class ConvNorm(nn.Module):
    """A convolution without a bias, and the norm behind it."""

    def __init__(
        self, d_in: int, d_out: int, size: int, *, stride: int = 1, gain: float = 1.0
    ) -> None:
        super().__init__()
        # A 1 × 1 convolution is strided by hand, as in ``convolutions.ConvBlock``.
        self.skip = stride if size == 1 else 1
        stride = 1 if size == 1 else stride
        self.conv = nn.Conv2d(d_in, d_out, size, stride=stride, padding=size // 2, bias=False)
        self.norm = FrozenBatchNorm(d_out, gain=gain)
        nn.init.kaiming_normal_(self.conv.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """(B, d_in, H, W) -> (B, d_out, H / stride, W / stride), sides rounded up."""
        return self.norm(self.conv(x if self.skip == 1 else x[..., :: self.skip, :: self.skip]))


class ResidualBlock(nn.Module):
    """Convolutions with a connection around them: two of 3 × 3, or one between two of 1 × 1.

    ``gain`` is what the last norm of a fresh block multiplies by: as norms are frozen, nothing else
    keeps what many blocks add up from growing.
    """

    def __init__(
        self, d_in: int, d_out: int, *, stride: int, kind: BlockKind, gain: float = 1.0
    ) -> None:
        super().__init__()
        if kind == "basic":
            layers = [
                ConvNorm(d_in, d_out, 3, stride=stride),
                ConvNorm(d_out, d_out, 3, gain=gain),
            ]
        else:
            inner = d_out // REDUCTION
            layers = [
                ConvNorm(d_in, inner, 1),
                ConvNorm(inner, inner, 3, stride=stride),
                ConvNorm(inner, d_out, 1, gain=gain),
            ]
        same = stride == 1 and d_in == d_out
        self.layers = nn.ModuleList(layers)
        self.beside = None if same else ConvNorm(d_in, d_out, 1, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        """(B, d_in, H, W) -> (B, d_out, H / stride, W / stride)"""
        *first, last = self.layers
        y = x
        for layer in first:
            y = layer(y).relu_()
        return (last(y) + (x if self.beside is None else self.beside(x))).relu_()


class ResNet(nn.Module):
    """Pictures (B, C, H, W) -> a grid of vectors (B, widths[-1], H / stride, W / stride)."""

    def __init__(
        self,
        depths: Sequence[int],
        widths: Sequence[int],
        *,
        stem: int,
        kind: BlockKind,
        channels: int = 3,
    ) -> None:
        super().__init__()
        self.stem = ConvNorm(channels, stem, 7, stride=2)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        gain = sum(depths) ** -0.5
        self.stages = nn.ModuleList(
            nn.Sequential(
                *(
                    ResidualBlock(
                        a if k == 0 else b,
                        b,
                        stride=2 if i and k == 0 else 1,
                        kind=kind,
                        gain=gain,
                    )
                    for k in range(depth)
                )
            )
            for i, (depth, (a, b)) in enumerate(zip(depths, pairwise((stem, *widths)), strict=True))
        )

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, widths[-1], H / stride, W / stride); sides are rounded up."""
        x = self.pool(self.stem(pixels).relu_())
        for stage in self.stages:
            x = stage(x)
        return x


def resnet_stride(n_stages: int) -> int:
    """Pixels of a side that one vector stands for.

    >>> resnet_stride(4)
    32
    """
    return 2 ** (1 + n_stages)
