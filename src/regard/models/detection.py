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
from typing import Any, Literal, NamedTuple, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.functional.positions import cell_places, grid_codes, plane_codes
from regard.layers.blocks import DecoderBlock, EncoderBlock
from regard.layers.resnet import REDUCTION, BlockKind, ResNet, resnet_stride
from regard.layers.settings import Count
from regard.models.base import last_norm, stream_norm
from regard.models.vision import CHANNELS, PictureConfig, PictureEncoder

PRIOR = 0.01
"""How likely a fresh model holds it that a query has found something of a class (sigmoid)."""
START_SIDE = 0.2
"""Width and height of a fresh anchor, as shares of the picture's."""
START_RADIUS, LOG_SPREAD = 0.5, math.log(0.5)
"""Where in a box a fresh head looks: how far from the middle, how widely; in units of the box."""
LEAST_SIDE = 0.02
"""Of a box, in a bias: a head of a smaller one looks no more narrowly."""


class DetectionConfig(PictureConfig):
    """A model that says which objects are in a picture, and where."""

    LOOKS_ACROSS = True

    family: Literal["detection"] = "detection"
    n_labels: Count = 1
    encoder: Literal["patches", "conv", "stem", "resnet"] = Field(  # type: ignore[assignment]
        "conv",
        description="What a picture becomes cells by: a small convolutional network (one cell for "
        "8 × 8 pixels), patches, or a ResNet as in the paper (one cell for 32 × 32 pixels, norms "
        "frozen); n_layers blocks of attention read them in any case.",
    )
    resnet_block: BlockKind = Field(
        "basic", description="Of a ResNet: two convolutions a block, or three with a bottleneck."
    )
    resnet_depths: tuple[Count, ...] = Field(
        (2, 2, 2, 2), min_length=1, description="Blocks of each stage of a ResNet."
    )
    resnet_widths: tuple[Count, ...] = Field(
        (64, 128, 256, 512), min_length=1, description="Channels that each of these stages gives."
    )
    resnet_stem: Count = Field(64, description="Channels before the first stage of a ResNet.")
    n_decoder_layers: Count | None = Field(
        None, description="Layers of the decoder; n_layers where it is not given."
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
        for window in dict.fromkeys(one for one in self.window_names if one != "global"):
            yield f"window {window!r} goes by order, and objects have none: leave it 'global'"
        if self.normaliser == "hard":
            yield "normaliser 'hard' is trained by rewards, which detection has not"
        if len(self.resnet_depths) != len(self.resnet_widths):
            yield (
                f"resnet_depths={list(self.resnet_depths)} and resnet_widths="
                f"{list(self.resnet_widths)} are of different numbers of stages"
            )
        if self.resnet_block == "bottleneck" and min(self.resnet_widths) < REDUCTION:
            yield f"resnet_block 'bottleneck' needs resnet_widths of {REDUCTION} at least"

    @property
    def idle(self) -> tuple[str, ...]:
        """Only a ResNet has its sizes, and only a score that knows places a length."""
        resnet = ("resnet_block", "resnet_depths", "resnet_widths", "resnet_stem")
        length = () if self.score == "location" else ("max_len",)
        return (*super().idle, *length, *(() if self.encoder == "resnet" else resnet))

    @property
    def cell(self) -> int:
        """Pixels of a side that one cell stands for."""
        return resnet_stride(len(self.resnet_widths)) if self.encoder == "resnet" else super().cell

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


class Cells(NamedTuple):
    """A picture as a decoder looks at it."""

    states: Tensor
    """(B, N, D), row by row."""
    codes: Tensor
    """(N, D): sine codes of where each lies."""
    grid: tuple[int, int]
    """Rows and columns, N in all."""


class CellEncoder(nn.Module):
    """Pixels to vectors of cells that know each other and where each lies."""

    def __init__(self, config: DetectionConfig) -> None:
        super().__init__()
        n = config.n_layers
        self.cells = PictureEncoder(
            config.model_copy(update={"n_layers": 0, "positions": "none"}), backbone=_resnet(config)
        )
        # Anchors are compared with middles of cells; the paper's code counts to their far ends.
        self.at = 0.5 if config.queries == "anchors" else 1.0
        self.layers = nn.ModuleList(EncoderBlock(config, layer=i, n_layers=n) for i in range(n))
        self.norm = last_norm(config)

    def forward(self, pixels: Tensor) -> Cells:
        """Pixels (B, 3, H, W), bytes or from 0 to 1."""
        x, (rows, columns) = self.cells(pixels), self.cells.grid_of(pixels)
        codes = grid_codes(rows, columns, x.shape[-1], at=self.at, device=x.device).to(x.dtype)
        for layer in self.layers:
            x = layer(x, None, codes)
        return Cells(self.norm(x), codes, (rows, columns))


def _resnet(config: DetectionConfig) -> tuple[nn.Module, int] | None:
    """The ResNet that a detector reads pictures with, and its width; None where it has none."""
    if config.encoder != "resnet":
        return None
    sizes = config.resnet_depths, config.resnet_widths
    made = ResNet(*sizes, stem=config.resnet_stem, kind=config.resnet_block, channels=CHANNELS)
    return made, config.resnet_widths[-1]


class BoxBias(nn.Module):
    """Each head looks at a part of its query's box: the log of a Gaussian, added to the scores.

    Its middle and its spread are a head's own, in units of the box, and may be moved by the query;
    heads begin around the middle of the box (Gao et al. 2021). Gaussians are products of one in
    each direction, so that few numbers are computed for a cell.
    """

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        turns = torch.arange(n_heads) * (math.tau / n_heads)
        around = START_RADIUS * torch.stack((turns.cos(), turns.sin()), dim=-1)
        self.shape = nn.Parameter(torch.cat((around, torch.full_like(around, LOG_SPREAD)), dim=-1))
        self.change = nn.Linear(d_model, 4 * n_heads)
        nn.init.zeros_(self.change.weight)
        nn.init.zeros_(self.change.bias)

    def forward(self, x: Tensor, boxes: Tensor, grid: tuple[int, int]) -> Tensor:
        """Queries (B, T, D), their boxes (B, T, 4), rows and columns -> (B, H, T, N)."""
        shape = self.shape + self.change(x).float().unflatten(-1, self.shape.shape)  # (B, T, H, 4)
        centre, size = boxes.unsqueeze(2).chunk(2, dim=-1)  # (B, T, 1, 2): x and y
        size = size.clamp(min=LEAST_SIDE)
        centre, spread = centre + size * shape[..., :2], size * shape[..., 2:].exp()
        rows, columns = grid
        across, down = (
            ((cell_places(n, 0.5, x.device) - centre[..., i, None]) / spread[..., i, None]).square()
            for i, n in enumerate((columns, rows))
        )  # (B, T, H, columns), (B, T, H, rows)
        distance = down.unsqueeze(-1) + across.unsqueeze(-2)
        return -0.5 * distance.flatten(3).transpose(1, 2)


class QueryDecoder(nn.Module):
    """Queries that look at cells; what they say is read after every layer by the same heads.

    The queries of the paper are vectors that say where to look, and begin with nothing found. An
    anchor is a box besides: its codes say where to look, and the vector what for.
    """

    def __init__(self, config: DetectionConfig) -> None:
        super().__init__()
        self.config = config
        n, d = config.n_decoder_layers or config.n_layers, config.d_model
        total = config.n_groups * config.n_queries
        self.layers = nn.ModuleList(
            DecoderBlock(config, cross_after="attention", layer=i, n_layers=n) for i in range(n)
        )
        self.norm = stream_norm(config)  # of what is read after a layer, pre-norm or post-norm
        self.to_classes = nn.Linear(d, config.n_outputs)
        self.to_boxes = _mlp(d, d, d, 4)
        self.queries = nn.Parameter(torch.randn(total, d) * d**-0.5)
        self.anchors = None
        if config.classes == "sigmoid":
            nn.init.constant_(self.to_classes.bias, -math.log(1 / PRIOR - 1))
        if config.queries == "anchors":
            self.anchors = nn.Parameter(_fresh_anchors(total))
            self.from_anchors = _mlp(2 * d, d, d)
            self.biases = nn.ModuleList(BoxBias(d, config.n_heads) for _ in range(n))
            for start in self.to_boxes[-1].parameters():  # a fresh model's boxes are its anchors
                nn.init.zeros_(start)

    def forward(self, cells: Cells) -> Detections:
        """What the queries say: in training those of all groups, one group after the other."""
        n = len(self.queries) if self.training else self.config.n_queries
        rows = (len(cells.states), -1, -1)
        queries = self.queries[:n].expand(rows)
        anchors = None if self.anchors is None else self.anchors[:n].expand(rows)
        x = torch.zeros_like(queries) if anchors is None else queries
        mask, keys = self._same_group(n), cells.states + cells.codes
        logits, boxes = [], []
        for i, layer in enumerate(cast("Iterable[Any]", self.layers)):
            positions, bias = queries, None
            if anchors is not None:
                places = anchors.sigmoid()
                positions = self.from_anchors(box_codes(places, x.shape[-1]))
                bias = self.biases[i](x, places, cells.grid)
            source = layer.project_source(keys, cells.states)
            x = layer.together(x, source, mask=mask, positions=positions, bias=bias)
            states = self.norm(x)
            said = self.to_boxes(states).float()
            if anchors is not None:
                said = said + anchors
                anchors = said.detach()
            logits.append(self.to_classes(states).float())
            boxes.append(said.sigmoid())
        return Detections(torch.stack(logits), torch.stack(boxes))

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
        return self.decoder(self.encoder(pixels))


def chances(logits: Tensor, classes: str) -> Tensor:
    """(…, C) with a sigmoid, (…, C + 1) with a softmax -> the chance of each label (…, C)."""
    return logits.sigmoid() if classes == "sigmoid" else logits.softmax(dim=-1)[..., :-1]


def box_codes(boxes: Tensor, d: int) -> Tensor:
    """Sine codes of boxes (…, 4), middle and size -> (…, 2 d)."""
    return torch.cat([plane_codes(part, d) for part in boxes.chunk(2, dim=-1)], dim=-1)


def _fresh_anchors(n: int) -> Tensor:
    """(n, 4) before the sigmoid: middles anywhere, all of one size."""
    return torch.cat((torch.rand(n, 2), torch.full((n, 2), START_SIDE)), dim=1).logit(eps=0.02)


def _mlp(*widths: int) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
