"""Models that answer a question about a picture by choosing one of the answers they know.

``san2016``, stacked attention (Yang et al. 2016): an LSTM reads the question to a vector u; u looks
at the grid of the picture, and what it finds is added to it, twice. ``dan2018`` is the same model,
taught to look where similar examples look and not where others do; ``dcn2018`` besides adds to what
it found what these examples have in common with it (Patro & Namboodiri 2018). ``joint``: a
Transformer that reads the words and the patches as one sequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.functional import masks
from regard.layers.attention import MemoryAttention
from regard.layers.blocks import EncoderBlock
from regard.layers.dropout import Dropout
from regard.layers.recurrence import Recurrence
from regard.layers.settings import Count
from regard.models.base import input_embedding, last_norm
from regard.models.vision import PictureConfig, PictureEncoder

Combine = Literal["add", "multiply"]


class VisualQuestionsConfig(PictureConfig):
    """A model that answers questions about pictures."""

    FROM_DATA = PictureConfig.FROM_DATA | {"n_vocab"}
    LOOKS_ACROSS = True

    family: Literal["visual_questions"] = "visual_questions"
    n_vocab: int = Field(ge=1)
    n_labels: int = Field(2, ge=2)
    reader: Literal["stacked", "joint"] = Field(
        "stacked",
        description="An LSTM reads the question and looks at the picture (stacked), or a "
        "Transformer reads words and patches together (joint).",
    )
    n_looks: Count = Field(2, description="How often the question looks at the picture.")
    score: str = Field("additive", description="How queries are matched with keys.")
    n_layers: int = Field(0, ge=0, description="Blocks of attention over the picture, or over all.")
    differential: Literal["none", "loss", "context"] = Field(
        "none",
        description="What is learned from examples that are similar and ones that are not: nothing "
        "more, where to look (loss), or also what they have in common (context).",
    )
    combine: Combine = Field("multiply", description="How what they have in common joins the rest.")

    def problems(self) -> Iterator[str]:
        """What only one of the two readers can do."""
        yield from super().problems()
        if self.reader == "joint" and self.differential != "none":
            yield "differential attention is of the stacked reader"
        if self.reader == "joint" and self.n_layers == 0:
            yield "a joint reader needs n_layers of at least 1"


class Looked(NamedTuple):
    """What a question found in a picture."""

    question: Tensor
    """(B, D): what the question asks for after its last look."""
    found: Tensor
    """(B, D): what the last look found, weighted by attention."""


class StackedReader(nn.Module):
    """A question that looks at a picture several times."""

    def __init__(self, config: VisualQuestionsConfig) -> None:
        super().__init__()
        d = config.d_model
        self.config = config
        self.tokens = nn.Embedding(config.n_vocab, d)
        self.dropout = Dropout(config.dropout)
        self.recurrence = Recurrence("lstm", d, d)
        self.encoder = PictureEncoder(config)
        self.looks = nn.ModuleList(
            MemoryAttention(d, d, score=config.score, max_len=config.max_len)
            for _ in range(config.n_looks)
        )
        self.scale = nn.Parameter(torch.ones(1)) if config.differential == "context" else None
        self.to_labels = nn.Linear(d, config.n_labels)

    def look(self, pixels: Tensor, ids: Tensor) -> Looked:
        """Pixels (B, 3, H, W), question ids (B, S) -> what was found."""
        real = ids != self.config.pad_id
        _, last = self.recurrence(self.dropout(self.tokens(ids)), real)
        u, grid = last.h[:, -1], self.encoder(pixels)  # (B, D), (B, N, D)
        seen = grid.new_ones(len(grid), 1, 1, grid.shape[1], dtype=torch.bool)
        for attention in cast("Iterable[MemoryAttention]", self.looks):
            found = attention.look(u.unsqueeze(1), attention.project(grid), mask=seen).squeeze(1)
            u = u + found
        return Looked(u, found)

    def forward(
        self,
        pixels: Tensor,
        ids: Tensor,
        supporting: Tensor | None = None,
        opposing: Tensor | None = None,
    ) -> Tensor:
        """(B, n_labels); with a context, what examples found (B, D) is heeded too."""
        question, found = self.look(pixels, ids)
        if self.scale is None or supporting is None or opposing is None:
            return self.answer(question)
        context = self.scale * differential_context(found, supporting, opposing)
        joined = found + context if self.config.combine == "add" else found * context
        return self.answer(question - found + joined)

    def answer(self, question: Tensor) -> Tensor:
        """(B, D) -> (B, n_labels)"""
        return self.to_labels(self.dropout(question))


def differential_context(found: Tensor, supporting: Tensor, opposing: Tensor) -> Tensor:
    """What lies along s in the examples, minus what lies across it: r⁺ - r⁻, all (…, D)."""
    along = [_projected(one, found) for one in (supporting, opposing)]
    across = [one - part for one, part in zip((supporting, opposing), along, strict=True)]
    return along[0] + along[1] - across[0] - across[1]


def _projected(x: Tensor, s: Tensor) -> Tensor:
    """The part of x along s."""
    size = s.square().sum(dim=-1, keepdim=True).clamp(min=torch.finfo(s.dtype).tiny)
    return (x * s).sum(dim=-1, keepdim=True) / size * s


def triplet(found: Tensor, supporting: Tensor, opposing: Tensor, margin: float) -> Tensor:
    """max(0, ‖s - s⁺‖² + margin - ‖s - s⁻‖²), summed over the batch (B, D)."""
    near = (found - supporting).square().sum(dim=-1)
    far = (found - opposing).square().sum(dim=-1)
    return (near + margin - far).clamp(min=0).sum()


class JointReader(nn.Module):
    """Words and patches as one sequence; the answer is read from its first token."""

    def __init__(self, config: VisualQuestionsConfig) -> None:
        super().__init__()
        self.config = config
        n = config.n_layers
        tokens = nn.Embedding(config.n_vocab, config.d_model)
        nn.init.normal_(tokens.weight, std=config.d_model**-0.5)
        self.embedding = input_embedding(config, tokens)
        self.encoder = PictureEncoder(config.model_copy(update={"n_layers": 0}))
        self.kinds = nn.Parameter(torch.randn(2, config.d_model) * config.d_model**-0.5)
        self.layers = nn.ModuleList(EncoderBlock(config, layer=i, n_layers=n) for i in range(n))
        self.norm = last_norm(config)
        self.to_labels = nn.Linear(config.d_model, config.n_labels)

    def forward(self, pixels: Tensor, ids: Tensor) -> Tensor:
        """Pixels (B, 3, H, W), question ids (B, S), whose first is no word -> (B, n_labels)."""
        patches = self.encoder(pixels) + self.kinds[1]
        x = torch.cat((self.embedding(ids) + self.kinds[0], patches), dim=1)
        words = masks.padding(ids, pad=self.config.pad_id)  # (B, 1, 1, S)
        seen = words.new_ones(*words.shape[:3], patches.shape[1])
        mask = torch.cat((words, seen), dim=-1)
        for layer in self.layers:
            x = layer(x, mask)
        return self.to_labels(self.norm(x)[:, 0])


def visual_questions(config: VisualQuestionsConfig) -> StackedReader | JointReader:
    """The model of a configuration."""
    return StackedReader(config) if config.reader == "stacked" else JointReader(config)
