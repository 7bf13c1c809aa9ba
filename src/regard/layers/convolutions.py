"""Small convolutional networks, trained with what reads them: a picture to a grid of vectors.

A vector should look at the middle of its cell. An odd kernel of stride 2 cannot: its output i looks
at 2 i, half a place before the middle of 2 i and 2 i + 1, and halvings add up: three of them look
3.5 pixels above and left of the middle. So the last one *leans*: it looks at 2 i + 1, which leaves
half a pixel.
"""

from __future__ import annotations

from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import override


class HalvingConv(nn.Conv2d):
    """A convolution with an odd kernel that halves a grid, sides being rounded up."""

    def __init__(self, d_in: int, d_out: int, kernel: int, *, leaning: bool) -> None:
        around = 0 if leaning else kernel // 2
        super().__init__(d_in, d_out, kernel, stride=2, padding=around, bias=False)
        self.leaning = leaning

    @override
    def forward(self, input: Tensor) -> Tensor:
        """(B, d_in, H, W) -> (B, d_out, H / 2, W / 2)"""
        if self.leaning:
            before = self.kernel_size[0] // 2 - 1
            input = F.pad(input, (before, before + 2) * 2)
        return super().forward(input)


class ConvBlock(nn.Module):
    """Two 3 × 3 convolutions with a residual connection; the first may halve the grid."""

    def __init__(self, d_in: int, d_out: int, *, stride: int, leaning: bool = False) -> None:
        super().__init__()
        self.inner = (
            HalvingConv(d_in, d_out, 3, leaning=leaning)
            if stride == 2
            else nn.Conv2d(d_in, d_out, 3, padding=1, bias=False)
        )
        self.outer = nn.Conv2d(d_out, d_out, 3, padding=1, bias=False)
        self.inner_norm, self.outer_norm = _norm(d_out), _norm(d_out)
        same = stride == 1 and d_in == d_out
        self.beside = nn.Identity() if same else nn.Conv2d(d_in, d_out, 1)
        self.stride, self.leaning = stride, leaning
        self.activation = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """(B, d_in, H, W) -> (B, d_out, H / stride, W / stride)"""
        y = self.activation(self.inner_norm(self.inner(x)))
        # Strided by hand: oneDNN's backward of a strided 1 × 1 convolution writes outside its
        # memory where the picture's channels lie last and the convolution has 16 of them.
        shifted = F.pad(x, (0, 1, 0, 1))[..., 1:, 1:] if self.leaning else x
        kept = shifted[..., :: self.stride, :: self.stride]
        return self.activation(self.outer_norm(self.outer(y)) + self.beside(kept))


class ConvNet(nn.Module):
    """Pictures (B, C, H, W) -> a grid of vectors (B, D, H / stride, W / stride).

    A stage halves the grid and doubles the width, so ``stride`` is a power of two.
    """

    def __init__(self, d_model: int, *, channels: int, stride: int) -> None:
        super().__init__()
        widths = _widths(d_model, channels, stride)
        self.stages = nn.Sequential(
            *(ConvBlock(a, b, stride=2, leaning=b == d_model) for a, b in pairwise(widths)),
            ConvBlock(d_model, d_model, stride=1),
        )

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, D, H / stride, W / stride); sides are rounded up."""
        return self.stages(pixels)


class ConvStem(nn.Sequential):
    """Pictures (B, C, H, W) -> a grid of vectors (B, D, H / stride, W / stride).

    A stage is one 5 × 5 convolution that halves the grid and doubles the width, a batch norm and a
    ReLU (as the stems of Xiao et al. 2021, whose kernels are smaller). It learns what shapes are in
    a fraction of the time that ``ConvNet`` takes; but a picture's vectors depend, in training, on
    the pictures beside it.
    """

    def __init__(self, d_model: int, *, channels: int, stride: int) -> None:
        super().__init__(
            *(
                nn.Sequential(
                    HalvingConv(a, b, 5, leaning=b == d_model),
                    nn.BatchNorm2d(b),
                    nn.ReLU(),
                )
                for a, b in pairwise(_widths(d_model, channels, stride))
            )
        )


def _widths(d_model: int, channels: int, stride: int) -> tuple[int, ...]:
    """Of what each stage reads, and of what the last one gives; each doubles the one before."""
    return (channels, *(d_model >> i for i in reversed(range(stride.bit_length() - 1))))


def _norm(width: int) -> nn.GroupNorm:
    """A norm that knows nothing of the rest of the batch, so that a picture stands for itself."""
    wanted = max(1, width // 16)
    return nn.GroupNorm(next(n for n in range(wanted, 0, -1) if width % n == 0), width)
