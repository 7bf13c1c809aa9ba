"""A language model of one self-attention, and the sentences that it learns from.

Nothing but an embedding with sinusoids, one attention, and an output layer that shares the
embedding's rows: small enough that what it does can only be the attention's doing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.worlds.sentences import build_sentences
from regard.lab.small_models import fit, seeded
from regard.layers.attention import MultiHeadAttention
from regard.layers.embeddings import InputEmbedding, token_embedding
from regard.layers.positions import make_positions

PAD, START, END = "<pad>", "<s>", "</s>"
_D, _BATCH = 64, 32


class Language(NamedTuple):
    """English sentences of the world ``sentences`` and their words."""

    words: tuple[str, ...]
    """The vocabulary; padding, start and end come first."""
    train: Tensor
    """(N, T) ids, each row from start to end, then padding."""
    test: Tensor

    def ids(self, words: Sequence[str]) -> Tensor:
        """(T,)"""
        return torch.tensor([self.words.index(word) for word in words])

    def text(self, ids: Sequence[int]) -> str:
        """Words up to the end; the start is not told."""
        words = [self.words[i] for i in ids if self.words[i] != START]
        return " ".join(words[: words.index(END)] if END in words else words)


def language(n_train: int = 2000) -> Language:
    """The same sentences every time."""
    splits = build_sentences(n_train=n_train)
    texts = {name: [pair.source.split() for pair in splits[name]] for name in ("train", "test")}
    known = sorted({word for text in texts["train"] for word in text})
    words = (PAD, START, END, *known)
    number = {word: i for i, word in enumerate(words)}
    longest = max(len(text) for some in texts.values() for text in some) + 2

    def rows(some: list[list[str]]) -> Tensor:
        framed = [[START, *text, END] for text in some]
        return torch.tensor(
            [[number[w] for w in one] + [0] * (longest - len(one)) for one in framed]
        )

    return Language(words, rows(texts["train"]), rows(texts["test"]))


class OneAttention(nn.Module):
    """ids (B, T) -> logits (B, T, V) of the next word at each place."""

    def __init__(self, n_words: int, longest: int) -> None:
        super().__init__()
        tokens = token_embedding(n_words, _D)
        positions = make_positions("sinusoidal", _D, join="add", max_len=longest)
        self.embedding = InputEmbedding(tokens, positions, scale=_D**0.5)
        self.attention = MultiHeadAttention(_D, 4)
        self.to_logits = nn.Linear(_D, n_words)
        self.to_logits.weight = tokens.weight

    def states(self, ids: Tensor, *, masked: bool) -> Tensor:
        """(B, T, D): what the output layer reads; ``masked``, each sees what is behind it."""
        x = self.embedding(ids)
        return x + self.attention(x, causal=masked)

    def forward(self, ids: Tensor, *, masked: bool = True) -> Tensor:
        """Padding comes last, so a causal mask hides it; without one it is seen as a word is."""
        return self.to_logits(self.states(ids, masked=masked))

    def loss(self, ids: Tensor, *, masked: bool) -> Tensor:
        """Mean of −log p of each next word (nats)."""
        logits = self(ids[:, :-1], masked=masked)
        return F.cross_entropy(logits.transpose(1, 2), ids[:, 1:], ignore_index=0)


def language_model(
    learned: Language, *, masked: bool, steps: int, seed: int
) -> tuple[OneAttention, list[float]]:
    """A model after training with or without the mask, and the loss of each step."""
    rng = torch.Generator().manual_seed(seed)
    with seeded(seed):
        model = OneAttention(len(learned.words), learned.train.shape[1])

    def loss() -> Tensor:
        chosen = torch.randint(len(learned.train), (_BATCH,), generator=rng)
        return model.loss(learned.train[chosen], masked=masked)

    return model, fit(model.parameters(), loss, steps=steps, lr=1e-2) if steps else []


@torch.no_grad()
def written(
    model: OneAttention, learned: Language, n: int, *, masked: bool, seed: int
) -> list[list[int]]:
    """n sentences of ids, drawn word by word from the start on, as the model was trained to see."""
    rng = torch.Generator().manual_seed(seed)
    ids = learned.ids([START]).expand(n, 1)
    for _ in range(learned.train.shape[1] - 2):
        chances = model(ids, masked=masked)[:, -1].softmax(dim=-1)
        ids = torch.cat((ids, torch.multinomial(chances, 1, generator=rng)), dim=1)
    rows: list[list[int]] = ids.tolist()
    return rows
