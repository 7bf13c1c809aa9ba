"""The Vision Transformer (Dosovitskiy et al. 2021): the encoder block over patches of a picture.

Pre-norm and GELU as in the paper, and its start: matrices from a normal cut at two deviations,
biases at zero, and a last layer of zeros, so that a fresh model says every label alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from regard.kernels.call import product_type
from regard.layers.blocks import EncoderBlock
from regard.layers.convolutions import ConvNet, ConvStem
from regard.layers.experts import ExpertLinear
from regard.layers.patches import PatchEmbedding, PixelNorm
from regard.layers.positions import LearnedPositions, make_positions
from regard.layers.settings import Count
from regard.models.base import last_norm
from regard.models.settings import BlocksConfig

START = 0.02
"""Deviation of fresh weights."""
CHANNELS = 3
CONV_PATCHES = (2, 4, 8, 16, 32)
"""Sides of a patch that halving comes to."""

CONVOLUTIONS: Mapping[str, type[nn.Module]] = {"conv": ConvNet, "stem": ConvStem}
"""By the name of an encoder."""


class PictureConfig(BlocksConfig):
    """Of a model that reads pictures: what the picture is cut into, and what reads the pieces."""

    FROM_DATA = BlocksConfig.FROM_DATA | {"image_size"}

    image_size: Count = 64
    encoder: Literal["patches", "conv", "stem"] = Field(
        "patches",
        description="What a picture becomes vectors by: patches, or a small convolutional network "
        "that halves it until a vector stands for a patch, of residual blocks (conv) or with one "
        "convolution and a batch norm for each halving (stem), which learns sooner; n_layers "
        "blocks of attention read them in any case.",
    )
    patch_size: Count = Field(8, description="Side of a patch, in pixels.")
    pixel_mean: tuple[float, float, float] = Field(
        (0.5, 0.5, 0.5), description="Taken away from red, green and blue, which are from 0 to 1."
    )
    pixel_std: tuple[float, float, float] = Field(
        (0.5, 0.5, 0.5), description="What the three are divided by then."
    )

    def problems(self) -> Iterator[str]:
        """A picture that is not made of whole patches, and positions that cannot be added."""
        yield from super().problems()
        if self.encoder == "patches" and self.image_size % self.patch_size:
            yield (
                f"a picture of {self.image_size} pixels is not a whole number of patches of "
                f"{self.patch_size}; choose another model.patch_size or data.image_size"
            )
        if self.encoder in CONVOLUTIONS and self.patch_size not in CONV_PATCHES:
            yield (
                f"a convolutional network halves the picture: patch_size={self.patch_size} must be "
                f"one of {', '.join(map(str, CONV_PATCHES))}"
            )
        if self.joined_by == "concat":
            yield "positions are added to patches: join 'concat' and 'index' are for texts"

    @property
    def cell(self) -> int:
        """Pixels of a side that one vector stands for."""
        return self.patch_size

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches, or of what a convolutional network gives."""
        return self.grid_of(self.image_size, self.image_size)

    def grid_of(self, height: int, width: int) -> tuple[int, int]:
        """The same of a picture of so many pixels."""
        return -(-height // self.cell), -(-width // self.cell)


class PictureEncoder(nn.Module):
    """Pixels to vectors, one a patch, row by row; with a class token before them if it is asked.

    A ``backbone`` is a convolutional network in place of patches, with the width that it gives.
    """

    def __init__(
        self,
        config: PictureConfig,
        *,
        class_token: bool = False,
        backbone: tuple[nn.Module, int] | None = None,
    ) -> None:
        super().__init__()
        rows, columns = config.grid
        positions = make_positions(
            config.positions, config.d_model, join="add", max_len=rows * columns + class_token
        )
        self.cell = config.cell
        self.pixel_norm = PixelNorm(config.pixel_mean, config.pixel_std)
        if config.encoder in CONVOLUTIONS:
            make = CONVOLUTIONS[config.encoder]
            conv = make(config.d_model, channels=CHANNELS, stride=config.patch_size)
            backbone = conv, config.d_model
        self.conv = None if backbone is None else backbone[0]
        self.embedding = PatchEmbedding(
            config.d_model,
            patch_size=config.patch_size if backbone is None else 1,
            channels=CHANNELS if backbone is None else backbone[1],
            grid=config.grid,
            positions=positions,
            class_token=class_token,
            dropout=config.dropout,
            token_dropout=config.token_dropout,
        )
        n = config.n_layers
        self.layers = nn.ModuleList(EncoderBlock(config, layer=i, n_layers=n) for i in range(n))
        self.norm = last_norm(config) if n else nn.Identity()

    def forward(self, pixels: Tensor) -> Tensor:
        """Pixels (B, 3, H, W), bytes or from 0 to 1 -> (B, N, D); a class token is the first."""
        x = self._embedded(pixels)
        for layer in self.layers:
            x = layer(x, None)
        return self.norm(x)

    def grid_of(self, pixels: Tensor) -> tuple[int, int]:
        """Rows and columns of vectors that it makes of such pictures (…, H, W)."""
        rows, columns = (-(-side // self.cell) for side in pixels.shape[-2:])
        return rows, columns

    def first(self, pixels: Tensor) -> Tensor:
        """The class token's vector alone (B, D): the last layer computes nothing else.

        That layer's patches are looked at, but nobody reads what becomes of them.
        """
        x = self._embedded(pixels)
        *layers, last = self.layers
        for layer in layers:
            x = layer(x, None)
        assert isinstance(last, EncoderBlock)
        return self.norm(last.first(x))

    def _embedded(self, pixels: Tensor) -> Tensor:
        """Pixels (B, 3, H, W) -> (B, N, D), what the first layer reads.

        Where products are computed in bf16, so is the sum that runs through the layers: to read
        and write it in float32 takes a twelfth of a step of a small model on a GPU.
        """
        x = self.pixel_norm(pixels)
        x = self.embedding(x if self.conv is None else self.conv(x))
        return x.to(product_type(x))


class VisionConfig(PictureConfig):
    """An encoder of pictures, with a label read from what it makes of them."""

    family: Literal["vision"] = "vision"
    n_labels: int = Field(2, ge=2)
    pooling: Literal["cls", "mean"] = Field(
        "cls", description="What a label is read from: a class token, or the mean of all patches."
    )
    norm_first: bool = Field(True, description="Whether sub-layers normalise what they are given.")
    activation: str = Field("gelu", description="Of the feed-forward.")
    eps: float = Field(1e-6, gt=0, description="Of the norms.")

    @property
    def idle(self) -> tuple[str, ...]:
        """Nothing is as long as a text, but for a score that knows so many places."""
        return (*super().idle, *(() if self.score == "location" else ("max_len",)))


class VisionTransformer(nn.Module):
    """Pixels to vectors to a score a label."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = PictureEncoder(config, class_token=config.pooling == "cls")
        self.to_labels = nn.Linear(config.d_model, config.n_labels)
        for module in self.modules():
            _begin(module)
        nn.init.zeros_(self.to_labels.weight)

    def pooled(self, pixels: Tensor) -> Tensor:
        """One vector a picture, (B, D)."""
        if self.training and self._reads_first:
            return self.encoder.first(pixels)
        states = self.encoder(pixels)
        return states[:, 0] if self.config.pooling == "cls" else states.mean(dim=1)

    @property
    def _reads_first(self) -> bool:
        """Whether the last layer may leave out all but the class token."""
        config = self.config
        last = config.window_of(config.n_layers - 1)
        return config.pooling == "cls" and config.n_layers > 0 and last != "causal"

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, 3, H, W) -> (B, n_labels)"""
        return self.to_labels(self.pooled(pixels))


def _begin(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | ExpertLinear):
        nn.init.trunc_normal_(module.weight, std=START, a=-2 * START, b=2 * START)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    if isinstance(module, LearnedPositions):
        nn.init.trunc_normal_(module.table, std=START, a=-2 * START, b=2 * START)
