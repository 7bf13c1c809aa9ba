"""Detection as a set (Carion et al. 2020): queries look at a picture, each says a class and a box.

The encoder reads the cells of a picture; where a cell lies joins its query and its key in every
layer, never its value. In the decoder so many queries look at the cells and at each other, all at
once, and after every layer the same two heads read a class (or none) and a box from each.

For little data a query is an anchor: a box that is learned, whose sine codes say where to look, and
which every layer moves a little (DAB-DETR, Liu et al. 2022). In training there may be several
groups of queries that do not see each other and each find all objects; one of them is kept
(Group DETR, Chen et al. 2023).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Literal, NamedTuple, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.functional.positions import sinusoid
from regard.layers.blocks import DecoderBlock, EncoderBlock
from regard.layers.settings import Count
from regard.models.base import last_norm
from regard.models.vision import PictureConfig, PictureEncoder

TURN = 2 * math.pi
"""Sine codes of a picture's side: from one end to the other the fastest wave turns once."""
PRIOR = 0.01
"""How likely a fresh model holds it that a query has found something of a class (sigmoid)."""
START_SIDE = 0.2
"""Width and height of a fresh anchor, as shares of the picture's."""


class DetectionConfig(PictureConfig):
    """A model that says which objects are in a picture, and where."""

    LOOKS_ACROSS = True

    family: Literal["detection"] = "detection"
    n_labels: Count = 1
    encoder: Literal["patches", "conv"] = Field(
        "conv",
        description="What a picture becomes cells by: a small convolutional network (one cell for "
        "8 × 8 pixels), or patches; n_layers blocks of attention read them in either case.",
    )
    positions: str = Field("sinusoidal", description="How a cell's place is told: by sines.")
    n_queries: Count = Field(30, description="The most objects that can be found in a picture.")
    queries: Literal["anchors", "learned"] = Field(
        "anchors",
        description="What a query is: a box that every layer moves, or a vector (as in the paper).",
    )
    n_groups: Count = Field(
        1, description="Groups of n_queries that each learn to find everything; one is kept."
    )
    classes: Literal["sigmoid", "softmax"] = Field(
        "sigmoid",
        description="How a class is said: each by its own chance (trained by the focal loss), or "
        "all together with 'no object' (as in the paper).",
    )

    def problems(self) -> Iterator[str]:
        """Positions and windows of texts, and attention that is trained by other means."""
        yield from super().problems()
        if self.positions != "sinusoidal":
            yield f"positions {self.positions!r}: cells of a picture are told by 'sinusoidal' here"
        if self.window != "global":
            yield f"window {self.window!r} goes by order, and objects have none: leave it 'global'"
        if self.normaliser == "hard":
            yield "normaliser 'hard' is trained by rewards, which detection has not"

    @property
    def n_outputs(self) -> int:
        """Numbers that say a class: one a label, and with a softmax one for no object."""
        return self.n_labels + (self.classes == "softmax")


class Detections(NamedTuple):
    """What every query says after every layer of the decoder, the last one at the end."""

    logits: Tensor
    """(L, B, Q, C); with a softmax (L, B, Q, C + 1), the last being for no object."""
    boxes: Tensor
    """(L, B, Q, 4): middle and size, as shares of the picture's sides."""


class CellEncoder(nn.Module):
    """Pixels to vectors of cells that know each other and where each lies."""

    def __init__(self, config: DetectionConfig) -> None:
        super().__init__()
        n = config.n_layers
        self.cells = PictureEncoder(config.model_copy(update={"n_layers": 0, "positions": "none"}))
        self.layers = nn.ModuleList(EncoderBlock(config, layer=i, n_layers=n) for i in range(n))
        self.norm = last_norm(config)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """(B, 3, H, W) -> cells (B, N, D), row by row, and codes of their places (N, D)."""
        x = self.cells(pixels)
        middles = cell_middles(*self.cells.grid_of(pixels), device=pixels.device)
        codes = plane_codes(middles, x.shape[-1]).to(x.dtype)
        for layer in self.layers:
            x = layer(x, None, codes)
        return self.norm(x), codes


class QueryDecoder(nn.Module):
    """Queries that look at cells; what they say is read after every layer by the same heads."""

    def __init__(self, config: DetectionConfig) -> None:
        super().__init__()
        self.config = config
        n, d, total = config.n_layers, config.d_model, config.n_groups * config.n_queries
        self.layers = nn.ModuleList(
            DecoderBlock(config, cross_after="attention", layer=i, n_layers=n) for i in range(n)
        )
        self.norm = last_norm(config)
        self.to_classes = nn.Linear(d, config.n_outputs)
        self.to_boxes = _mlp(d, d, d, 4)
        # A vector a query: where it looks from (learned), or what it looks for (anchors).
        self.queries = nn.Parameter(torch.randn(total, d) * d**-0.5)
        self.anchors = self.from_anchors = None
        if config.queries == "anchors":
            self.anchors = nn.Parameter(_fresh_anchors(total))
            self.from_anchors = _mlp(2 * d, d, d)
            for start in self.to_boxes[-1].parameters():  # a fresh model's boxes are its anchors
                nn.init.zeros_(start)
        if config.classes == "sigmoid":
            nn.init.constant_(self.to_classes.bias, -math.log(1 / PRIOR - 1))

    def forward(self, cells: Tensor, codes: Tensor) -> Detections:
        """Cells (B, N, D), codes of their places (N, D) -> what the queries say.

        In training these are the queries of all groups, one group after the other.
        """
        n = len(self.queries) if self.training else self.config.n_queries
        queries = self.queries[:n].expand(len(cells), -1, -1)
        anchors = None if self.anchors is None else self.anchors[:n].expand(len(cells), -1, -1)
        x = torch.zeros_like(queries) if anchors is None else queries
        mask, keys = self._same_group(n), cells + codes
        logits, boxes = [], []
        for layer in cast("Iterable[DecoderBlock]", self.layers):
            positions = queries if anchors is None else self._codes_of(anchors)
            x = layer.together(x, keys, cells, mask, positions)
            states = self.norm(x)
            said = self.to_boxes(states).float()
            if anchors is not None:
                said = said + anchors
                anchors = said.detach()
            logits.append(self.to_classes(states).float())
            boxes.append(said.sigmoid())
        return Detections(torch.stack(logits), torch.stack(boxes))

    def _codes_of(self, anchors: Tensor) -> Tensor:
        """Boxes before the sigmoid (B, Q, 4) -> positions of their queries (B, Q, D)."""
        assert self.from_anchors is not None
        middle, size = anchors.sigmoid().chunk(2, dim=-1)
        d = self.config.d_model
        return self.from_anchors(torch.cat((plane_codes(middle, d), plane_codes(size, d)), dim=-1))

    def _same_group(self, n: int) -> Tensor | None:
        """(n, n): queries see those of their own group; None where there is one."""
        if n == self.config.n_queries:
            return None
        group = torch.arange(n, device=self.queries.device) // self.config.n_queries
        return group.unsqueeze(1) == group


class Detector(nn.Module):
    """Pixels to objects."""

    def __init__(self, config: DetectionConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = CellEncoder(config)
        self.decoder = QueryDecoder(config)

    def forward(self, pixels: Tensor) -> Detections:
        """Pixels (B, 3, H, W), bytes or from 0 to 1."""
        return self.decoder(*self.encoder(pixels))


def chances(logits: Tensor, classes: str) -> Tensor:
    """(…, C) with a sigmoid, (…, C + 1) with a softmax -> the chance of each label (…, C)."""
    return logits.sigmoid() if classes == "sigmoid" else logits.softmax(dim=-1)[..., :-1]


def plane_codes(places: Tensor, d: int) -> Tensor:
    """Sine codes of points (…, 2), x and y from 0 to 1 -> (…, d): one half says y, the other x."""
    x, y = (TURN * places).unbind(-1)
    return torch.cat((sinusoid(y, d - d // 2), sinusoid(x, d // 2)), dim=-1)


def cell_middles(rows: int, columns: int, device: torch.device | None = None) -> Tensor:
    """(rows · columns, 2): x and y of every cell's middle, row by row.

    >>> cell_middles(1, 2).tolist()
    [[0.25, 0.5], [0.75, 0.5]]
    """
    y, x = ((torch.arange(n, device=device) + 0.5) / n for n in (rows, columns))
    return torch.stack((x.repeat(rows), y.repeat_interleave(columns)), dim=-1)


def _fresh_anchors(n: int) -> Tensor:
    """(n, 4) before the sigmoid: middles anywhere, all of one size."""
    middles = torch.rand(n, 2).clamp(0.02, 0.98)
    return torch.cat((middles, torch.full((n, 2), START_SIDE)), dim=1).logit()


def _mlp(*widths: int) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
