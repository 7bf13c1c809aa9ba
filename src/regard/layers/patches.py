"""Pictures as sequences: patches of pixels become vectors as words do (Dosovitskiy et al. 2021)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.errors import ShapeError
from regard.functional.positions import grid_codes
from regard.layers.dropout import Dropout, TokenDropout
from regard.layers.positions import LearnedPositions, Positions, SinusoidalPositions


class PixelNorm(nn.Module):
    """Pixels (B, C, H, W) as bytes, or from 0 to 1 -> numbers around 0, by channel."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        for name, values in (("mean", mean), ("std", std)):
            self.register_buffer(name, torch.tensor(values).view(-1, 1, 1), persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, C, H, W) -> the same shape, in the type of the weights."""
        x = pixels.to(self.mean.dtype)
        return ((x / 255 if pixels.dtype == torch.uint8 else x) - self.mean) / self.std


class PatchEmbedding(nn.Module):
    """Pictures (B, C, H, W) -> their patches, row by row, (B, N, D), each knowing its place.

    With a class token, one more position stands before the patches. Learned positions belong to the
    ``grid`` (rows, columns) that they were trained with; for a picture of another size they are
    interpolated, the class token's row left as it is. Sinusoidal ones tell row and column apart.
    """

    def __init__(
        self,
        d_model: int,
        *,
        patch_size: int,
        channels: int,
        grid: tuple[int, int],
        positions: Positions,
        class_token: bool,
        dropout: float,
        token_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.patch_size, self.grid = patch_size, grid
        self.project = nn.Linear(channels * patch_size * patch_size, d_model)
        self.class_token = nn.Parameter(torch.zeros(d_model)) if class_token else None
        self.positions = positions
        self.dropout, self.token_dropout = Dropout(dropout), TokenDropout(token_dropout)

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, 1 + N, D), or (B, N, D) without a class token."""
        x = self.token_dropout(self.project(self.patches(pixels)))
        if self.class_token is not None:
            x = torch.cat((self.class_token.to(x.dtype).expand(x.shape[0], 1, -1), x), dim=1)
        return self.dropout(self._placed(x, self.grid_of(pixels)))

    def grid_of(self, pixels: Tensor) -> tuple[int, int]:
        """Rows and columns of patches; a picture must be whole patches."""
        height, width = pixels.shape[-2:]
        if height % self.patch_size or width % self.patch_size or not height * width:
            raise ShapeError(
                f"a picture of {height} × {width} pixels is not a whole number of patches of "
                f"{self.patch_size} × {self.patch_size}"
            )
        return height // self.patch_size, width // self.patch_size

    def patches(self, pixels: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, N, C · P · P): the pixels of each patch, channel by channel."""
        (rows, columns), P = self.grid_of(pixels), self.patch_size
        tiles = pixels.unflatten(2, (rows, P)).unflatten(4, (columns, P))  # (B, C, r, P, c, P)
        return tiles.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)

    def _placed(self, x: Tensor, grid: tuple[int, int]) -> Tensor:
        if isinstance(self.positions, SinusoidalPositions):
            codes = grid_codes(*grid, x.shape[-1], device=x.device).to(x.dtype)
            return x + (codes if self.class_token is None else F.pad(codes, (0, 0, 1, 0)))
        if grid == self.grid or not isinstance(self.positions, LearnedPositions):
            return self.positions(x)
        table, n = self.positions.table, int(self.class_token is not None)
        return x + torch.cat((table[:n], interpolated(table[n:], self.grid, grid)))


def interpolated(table: Tensor, old: tuple[int, int], new: tuple[int, int]) -> Tensor:
    """Positions of a grid (rows · columns, D) -> those of another grid, bilinearly.

    >>> interpolated(torch.tensor([[0.0], [1.0]]), (1, 2), (1, 4)).flatten().tolist()
    [0.0, 0.25, 0.75, 1.0]
    """
    squares = table.view(1, *old, -1).permute(0, 3, 1, 2)  # (1, D, rows, columns)
    found = F.interpolate(squares.float(), size=new, mode="bilinear", antialias=False)
    return found.to(table.dtype).permute(0, 2, 3, 1).flatten(0, 2)
