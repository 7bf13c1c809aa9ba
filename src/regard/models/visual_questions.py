"""Models that answer a question about a picture by choosing one of the answers they know.

``san2016``, stacked attention (Yang et al. 2016): an LSTM reads the question to a vector u; u looks
at the grid of the picture, and what it finds is added to it, twice. ``dan2018`` is the same model,
taught to look where similar examples look and not where others do; ``dcn2018`` besides adds to what
it found what these examples have in common with it (Patro & Namboodiri 2018). ``joint-vqa``: a
Transformer that reads the words and the patches as one sequence.

Examples are those that were learned from last: the model keeps what they asked for and found, and
looks its nearest neighbours up there, in training and afterwards alike.
"""

from __future__ import annotations

import math
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
N_EXAMPLES = 2048
"""Questions that are remembered."""
N_NEIGHBOURS = 4
"""Examples of which the mean supports, or opposes."""
OPPOSING = 0.4
"""Where opposing examples begin in the order of distance: 20 of the paper's 50 clusters away."""


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
    score: str = Field(
        "additive",
        description="How a question is matched with the picture; of a joint reader, words and "
        "patches with each other.",
    )
    n_layers: int = Field(0, ge=0, description="Blocks of attention over the picture, or over all.")
    differential: Literal["none", "loss", "context"] = Field(
        "none",
        description="What is learned from examples that are similar and ones that are not: nothing "
        "more, where to look (loss), or also what they have in common (context).",
    )
    margin: float = Field(
        0.2, ge=0, description="α of the triplet loss, between vectors of length 1."
    )
    triplet_weight: float = Field(
        1.0, ge=0, description="ν of the triplet loss beside the cross-entropy."
    )
    combine: Combine = Field("multiply", description="How what they have in common joins the rest.")

    def problems(self) -> Iterator[str]:
        """What only one of the two readers can do."""
        yield from super().problems()
        if self.reader == "joint" and self.differential != "none":
            yield "differential attention is of the stacked reader"
        if self.reader == "joint" and self.n_layers == 0:
            yield "a joint reader needs n_layers of at least 1"

    @property
    def idle(self) -> tuple[str, ...]:
        """What is of the other reader, or of another kind of differential attention."""
        looks = () if self.reader == "stacked" else ("n_looks",)
        loss = () if self.differential == "loss" else ("margin", "triplet_weight")
        context = () if self.differential == "context" else ("combine",)
        return (*looks, *loss, *context, *super().idle)


class Looked(NamedTuple):
    """What a question found in a picture."""

    question: Tensor
    """(B, D): what the question asks for after its last look."""
    found: Tensor
    """(B, D): what the last look found, weighted by attention."""


class Exemplars(NamedTuple):
    """What examples found, the mean of a few each."""

    supporting: Tensor
    """(B, D): those nearest to a question."""
    opposing: Tensor
    """(B, D): those some way off."""


class Answered(NamedTuple):
    """An answer to each question, and how it came about."""

    logits: Tensor
    """(B, n_labels)"""
    looked: Looked
    exemplars: Exemplars | None


class ExampleMemory(nn.Module):
    """What the last questions asked for and what they found: a ring, saved with the weights.

    It begins with random vectors; the first batches that are learned from replace them.
    """

    questions: Tensor
    found: Tensor
    numbers: Tensor
    next: Tensor

    def __init__(self, d_model: int, size: int = N_EXAMPLES) -> None:
        super().__init__()
        self.register_buffer("questions", torch.randn(size, d_model))
        self.register_buffer("found", torch.randn(size, d_model))
        self.register_buffer("numbers", torch.full((size,), -1))
        self.register_buffer("next", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def neighbours(self, questions: Tensor, numbers: Tensor | None = None) -> Exemplars:
        """Examples for questions (B, D); one with a question's own number is none (B,)."""
        distances = torch.cdist(questions.to(self.questions.dtype), self.questions)
        if numbers is not None:
            distances.masked_fill_(numbers[:, None] == self.numbers, torch.inf)
        order = distances.argsort(dim=1)  # (B, size)
        first = int(OPPOSING * order.shape[1])
        near, far = order[:, :N_NEIGHBOURS], order[:, first : first + N_NEIGHBOURS]
        return Exemplars(self.found[near].mean(dim=1), self.found[far].mean(dim=1))

    @torch.no_grad()
    def add(self, looked: Looked, numbers: Tensor) -> None:
        """Remember a batch (B, D) of examples that have these numbers (B,)."""
        size = len(self.numbers)
        rows = (self.next + torch.arange(len(numbers), device=numbers.device)[-size:]) % size
        self.questions[rows] = looked.question[-size:].to(self.questions.dtype)
        self.found[rows] = looked.found[-size:].to(self.found.dtype)
        self.numbers[rows] = numbers[-size:]
        self.next += len(numbers)


class StackedReader(nn.Module):
    """A question that looks at a picture several times."""

    def __init__(self, config: VisualQuestionsConfig) -> None:
        super().__init__()
        d = config.d_model
        self.config = config
        self.tokens = nn.Embedding(config.n_vocab, d)
        self.dropout = Dropout(config.dropout)
        self.recurrence = Recurrence("lstm", d, d)
        self.encoder = PictureEncoder(config.model_copy(update={"score": "scaled_dot"}))
        self.looks = nn.ModuleList(
            MemoryAttention(d, d, score=config.score, max_len=config.max_len)
            for _ in range(config.n_looks)
        )
        self.examples = None if config.differential == "none" else ExampleMemory(d)
        self.scale = nn.Parameter(torch.ones(1)) if config.differential == "context" else None
        self.to_labels = nn.Linear(d, config.n_labels)

    def look(self, pixels: Tensor, ids: Tensor, pictures: Tensor | None = None) -> Looked:
        """Pixels (P, 3, H, W), question ids (B, S), and which picture each is about (B,)."""
        real = ids != self.config.pad_id
        _, last = self.recurrence(self.dropout(self.tokens(ids)), real)
        u, grid = last.h[:, -1], self.encoder(pixels)  # (B, D), (P, N, D)
        grid = grid if pictures is None else grid[pictures]
        seen = grid.new_ones(len(grid), 1, 1, grid.shape[1], dtype=torch.bool)
        for attention in cast("Iterable[MemoryAttention]", self.looks):
            found = attention.look(u.unsqueeze(1), attention.project(grid), mask=seen).squeeze(1)
            u = u + found
        return Looked(u, found)

    def forward(self, pixels: Tensor, ids: Tensor, pictures: Tensor | None = None) -> Tensor:
        """Pixels (P, 3, H, W), question ids (B, S) -> (B, n_labels); P is B without pictures."""
        return self.answered(pixels, ids, pictures).logits

    def answered(
        self,
        pixels: Tensor,
        ids: Tensor,
        pictures: Tensor | None = None,
        numbers: Tensor | None = None,
    ) -> Answered:
        """The same with what led to it; ``numbers`` (B,) are those of questions being learned."""
        looked = self.look(pixels, ids, pictures)
        if self.examples is None:
            return Answered(self.answer(looked), looked, None)
        exemplars = self.examples.neighbours(looked.question, numbers)
        return Answered(self.answer(looked, exemplars), looked, exemplars)

    def answer(self, looked: Looked, exemplars: Exemplars | None = None) -> Tensor:
        """(B, n_labels); with a context, what examples found is heeded too."""
        question, found = looked
        if self.scale is not None and exemplars is not None:
            context = self.scale * differential_context(found, *exemplars)
            joined = found + context if self.config.combine == "add" else found * context
            question = question - found + joined
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
        scale = math.sqrt(config.d_model) if config.positions == "sinusoidal" else 1.0
        self.embedding = input_embedding(config, tokens, scale=scale)
        self.encoder = PictureEncoder(config.model_copy(update={"n_layers": 0}))
        self.kinds = nn.Parameter(torch.randn(2, config.d_model) * config.d_model**-0.5)
        self.joint = nn.ModuleList(EncoderBlock(config, layer=i, n_layers=n) for i in range(n))
        self.norm = last_norm(config)
        self.to_labels = nn.Linear(config.d_model, config.n_labels)

    def forward(self, pixels: Tensor, ids: Tensor, pictures: Tensor | None = None) -> Tensor:
        """Pixels (P, 3, H, W), question ids (B, S), whose first is no word -> (B, n_labels).

        ``pictures`` (B,) says which picture each question is about; without it P is B.
        """
        patches = self.encoder(pixels) + self.kinds[1]
        patches = patches if pictures is None else patches[pictures]
        x = torch.cat((self.embedding(ids) + self.kinds[0], patches), dim=1)
        words = masks.padding(ids, pad=self.config.pad_id)  # (B, 1, 1, S)
        seen = words.new_ones(*words.shape[:3], patches.shape[1])
        mask = torch.cat((words, seen), dim=-1)
        for block in self.joint:
            x = block(x, mask)
        return self.to_labels(self.norm(x)[:, 0])


def visual_questions(config: VisualQuestionsConfig) -> StackedReader | JointReader:
    """The model of a configuration."""
    return StackedReader(config) if config.reader == "stacked" else JointReader(config)
