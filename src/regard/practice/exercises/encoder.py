"""The whole encoder from scratch: from ids to a vector for each word.

Write the three classes, constructors included. The check copies weights into them, so their parts
must have these names:

    MultiHeadAttention(d_model, n_heads)    to_q, to_k, to_v, to_o: nn.Linear(d_model, d_model)
    EncoderLayer(d_model, n_heads, d_ff)    attention, norm_1, feed_forward, norm_2; feed_forward is
                                            nn.Sequential(nn.Linear, nn.ReLU, nn.Linear)
    Encoder(n_vocab, d_model, n_heads, d_ff, n_layers)
                                            embedding: nn.Embedding, layers: nn.ModuleList

Embeddings are multiplied by √d_model before positions are added, as in the paper; a layer adds
first and normalises the sum (norm_1 behind attention, norm_2 behind the feed-forward network). The
mask (B, T) is True at words and False at padding. Positions are given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from typing_extensions import override

from regard.practice.modules import at_words, randomised, with_parameters_of
from regard.practice.sheet import Arguments, Sheet

sheet = Sheet()


def sinusoids(n: int, d: int) -> Tensor:
    """(n, d): the codes of the positions 0 … n-1."""
    angles = torch.arange(n).unsqueeze(1) / 10000.0 ** (torch.arange(0, d, 2) / d)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)


@sheet.blank(
    "In __init__: super().__init__(), keep n_heads, and make the four nn.Linear.",
    "q, k, v are (B, H, T, Dh): view the width as (H, Dh), then transpose axes 1 and 2.",
    "The mask (B, T) hides keys: as mask[:, None, None, :] it broadcasts to (B, H, T, T).",
)
class MultiHeadAttention(nn.Module):
    """Self-attention with n_heads heads."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.to_q = nn.Linear(d_model, d_model)
        self.to_k = nn.Linear(d_model, d_model)
        self.to_v = nn.Linear(d_model, d_model)
        self.to_o = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, T, D), mask (B, T) of bool -> (B, T, D)."""
        B, T, D = x.shape
        q, k, v = (
            project(x).view(B, T, self.n_heads, D // self.n_heads).transpose(1, 2)
            for project in (self.to_q, self.to_k, self.to_v)
        )
        scores = q @ k.mT / math.sqrt(D // self.n_heads)
        weights = scores.masked_fill(~mask[:, None, None, :], float("-inf")).softmax(dim=-1)
        return self.to_o((weights @ v).transpose(1, 2).flatten(2))


@sheet.blank(
    "In __init__: MultiHeadAttention, nn.LayerNorm, nn.Sequential of three, nn.LayerNorm.",
    "x = norm_1(x + attention(x, mask)), then the same with the feed-forward network and norm_2.",
)
class EncoderLayer(nn.Module):
    """Attention and a feed-forward network, each added to its input and normalised."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.norm_1 = nn.LayerNorm(d_model)
        self.feed_forward = nn.Sequential(
            nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model)
        )
        self.norm_2 = nn.LayerNorm(d_model)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, T, D), mask (B, T) of bool -> (B, T, D)."""
        x = self.norm_1(x + self.attention(x, mask))
        return self.norm_2(x + self.feed_forward(x))


@sheet.blank(
    "A list of layers is nn.ModuleList([EncoderLayer(…) for _ in range(n_layers)]).",
    "x = embedding(ids) · √d_model + sinusoids(T, d_model); then each layer reads the one before.",
)
class Encoder(nn.Module):
    """Embeddings, positions, and n_layers layers."""

    def __init__(self, n_vocab: int, d_model: int, n_heads: int, d_ff: int, n_layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_vocab, d_model)
        self.layers = nn.ModuleList([EncoderLayer(d_model, n_heads, d_ff) for _ in range(n_layers)])

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """ids (B, T), mask (B, T) of bool -> (B, T, D)."""
        x = self.embedding(ids)
        x = x * math.sqrt(x.shape[-1]) + sinusoids(*x.shape[1:])
        for layer in self.layers:
            x = layer(x, mask)
        return x


# ------------------------------------------------------------------ examples


def _vectors(d_model: int, lengths: list[int]) -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(d_model)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    return {"x": torch.randn(*mask.shape, d_model, generator=rng), "mask": mask}


@sheet.cases(MultiHeadAttention)
@sheet.cases(EncoderLayer)
def _batches() -> Iterator[Arguments]:
    yield {**_vectors(2, [1]), "n_heads": 1}
    yield {**_vectors(4, [2]), "n_heads": 2}
    yield {**_vectors(6, [4, 2]), "n_heads": 3}


@sheet.use(MultiHeadAttention)
def _attended(kind: type[nn.Module], x: Tensor, mask: Tensor, n_heads: int) -> Tensor:
    reference = randomised(MultiHeadAttention(x.shape[-1], n_heads))
    built = with_parameters_of(reference, kind(x.shape[-1], n_heads))
    return at_words(built(x, mask), mask, x.shape[-1])


@sheet.use(EncoderLayer)
def _through_a_layer(kind: type[nn.Module], x: Tensor, mask: Tensor, n_heads: int) -> Tensor:
    sizes = (x.shape[-1], n_heads, 5)
    built = with_parameters_of(randomised(EncoderLayer(*sizes)), kind(*sizes))
    return at_words(built(x, mask), mask, x.shape[-1])


@sheet.cases(Encoder)
def _sentences() -> Iterator[Arguments]:
    yield {"ids": torch.tensor([[1]]), "lengths": [1], "n_layers": 1}
    yield {"ids": torch.tensor([[1, 2], [3, 0]]), "lengths": [2, 1], "n_layers": 2}
    yield {"ids": torch.tensor([[4, 2, 1, 3], [1, 5, 0, 0]]), "lengths": [4, 2], "n_layers": 3}


@sheet.use(Encoder)
def _encoded(kind: type[nn.Module], ids: Tensor, lengths: list[int], n_layers: int) -> Tensor:
    sizes = (6, 4, 2, 5, n_layers)
    mask = torch.arange(ids.shape[1]) < torch.tensor(lengths).unsqueeze(1)
    built = with_parameters_of(randomised(Encoder(*sizes)), kind(*sizes))
    return at_words(built(ids, mask), mask, d_model=4)


# ------------------------------------------------------------------ mistakes


@sheet.mistake(MultiHeadAttention, "padding is attended: hide the keys where the mask is False")
class _PaddingAttended(MultiHeadAttention):
    @override
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return super().forward(x, torch.ones_like(mask))


@sheet.mistake(MultiHeadAttention, "W_o is missing: the joined heads go through to_o")
class _NoOutput(MultiHeadAttention):
    @override
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        self.register_module("to_o", nn.Identity())
        return super().forward(x, mask)


class _Scaled(MultiHeadAttention):
    """With scores that are this many times too large."""

    def factor(self, d_model: int) -> float:
        """How many times."""
        raise NotImplementedError

    @override
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        factor = self.factor(x.shape[-1])
        with torch.no_grad():
            for parameter in self.to_q.parameters():
                parameter.mul_(factor)
        return super().forward(x, mask)


@sheet.mistake(MultiHeadAttention, "your scores are not scaled: divide them by √Dh")
class _Unscaled(_Scaled):
    @override
    def factor(self, d_model: int) -> float:
        return math.sqrt(d_model / self.n_heads)


@sheet.mistake(
    MultiHeadAttention, "you scale by √D: a head is Dh = D / n_heads wide, so divide by √Dh"
)
class _ScaledByAll(_Scaled):
    @override
    def factor(self, d_model: int) -> float:
        return 1 / math.sqrt(self.n_heads)


@sheet.mistake(
    MultiHeadAttention,
    "your heads mix positions: view the width as (H, Dh) first, then transpose axes 1 and 2",
)
class _WrongReshape(MultiHeadAttention):
    @override
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        B, T, D = x.shape
        shape = (B, self.n_heads, T, D // self.n_heads)
        q, k, v = (project(x).view(shape) for project in (self.to_q, self.to_k, self.to_v))
        scores = q @ k.mT / math.sqrt(shape[-1])
        weights = scores.masked_fill(~mask[:, None, None, :], float("-inf")).softmax(dim=-1)
        return self.to_o((weights @ v).view(B, T, D))


@sheet.mistake(EncoderLayer, "both residuals are missing: add x before each norm")
class _NoResiduals(EncoderLayer):
    @override
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.norm_2(self.feed_forward(self.norm_1(self.attention(x, mask))))


@sheet.mistake(
    EncoderLayer, "you normalise before attending: the paper's layer normalises the sum behind it"
)
class _NormFirst(EncoderLayer):
    @override
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x), mask)
        return x + self.feed_forward(self.norm_2(x))


@sheet.mistake(
    EncoderLayer, "the residual around the feed-forward network is missing: norm_2(x + …)"
)
class _NoSecondResidual(EncoderLayer):
    @override
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.norm_1(x + self.attention(x, mask))
        return self.norm_2(self.feed_forward(x))


@sheet.mistake(EncoderLayer, "the mask does not reach the attention: padding is attended")
class _MaskLost(EncoderLayer):
    @override
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return super().forward(x, torch.ones_like(mask))


@sheet.mistake(Encoder, "the positions are missing: add sinusoids(T, d_model) to the embeddings")
class _NoPositions(Encoder):
    @override
    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        for layer in self.layers:
            x = layer(x, mask)
        return x


@sheet.mistake(Encoder, "the embeddings are not scaled: multiply them by √d_model")
class _SmallEmbeddings(Encoder):
    @override
    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.embedding(ids)
        x = x + sinusoids(*x.shape[1:])
        for layer in self.layers:
            x = layer(x, mask)
        return x


@sheet.mistake(
    Encoder, "you scale the positions, too: multiply the embeddings by √d_model, then add"
)
class _ScaledPositions(Encoder):
    @override
    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.embedding(ids)
        x = (x + sinusoids(*x.shape[1:])) * math.sqrt(x.shape[-1])
        for layer in self.layers:
            x = layer(x, mask)
        return x


@sheet.mistake(Encoder, "the mask does not reach the layers: padding is attended")
class _PaddingSeen(Encoder):
    @override
    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return super().forward(ids, torch.ones_like(mask))


@sheet.mistake(
    Encoder, "every layer reads the embeddings: each must read what the one before made (x = …)"
)
class _NotStacked(Encoder):
    @override
    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.embedding(ids)
        x = x * math.sqrt(x.shape[-1]) + sinusoids(*x.shape[1:])
        made: Tensor = self.layers[-1](x, mask)
        return made


@sheet.mistake(Encoder, "the layers run in reverse: the first of the list comes first")
class _Reversed(Encoder):
    @override
    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.embedding(ids)
        x = x * math.sqrt(x.shape[-1]) + sinusoids(*x.shape[1:])
        for layer in reversed(self.layers):
            x = layer(x, mask)
        return x
