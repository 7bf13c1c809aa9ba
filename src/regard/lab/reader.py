"""A task for heads: tell the subject and the object of a sentence, which stand anywhere in it.

Roles say where to look (keys), words are what is found there (values).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.lab.learning import fit
from regard.layers.attention import MultiHeadAttention
from regard.layers.feed_forward import FeedForward
from regard.layers.key_values import KeyValues

ROLES = ("other", "subject", "object")
WIDTH = 32
_WORDS, _LENGTH = 16, 8


class Reader(nn.Module):
    """Asks one question of a sentence and tells two words, or the set of them, by linear steps.

    ``network`` puts a feed-forward network behind the heads, and then not all is linear.
    """

    def __init__(self, n_heads: int, *, ordered: bool, network: bool) -> None:
        super().__init__()
        self.roles = nn.Embedding(len(ROLES), WIDTH)
        self.words = nn.Embedding(_WORDS, WIDTH)
        # At first it looks at all words alike: no head is stuck with one role from the start.
        self.question = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.attention = MultiHeadAttention(WIDTH, n_heads)
        self.network = FeedForward(WIDTH, 4 * WIDTH) if network else None
        self.to_logits = nn.Linear(WIDTH, (2 if ordered else 1) * _WORDS)

    def forward(self, words: Tensor, roles: Tensor) -> Tensor:
        """words and roles (B, S) -> logits of each word (B, 2, V), or (B, 1, V) of both."""
        keys, values = (self.attention.project(x) for x in (self.roles(roles), self.words(words)))
        asked = self.question.expand(len(words), -1, -1)
        found = self.attention.look(asked, KeyValues(keys.k, values.v))[:, 0]
        if self.network:
            found = found + self.network(found)
        return self.to_logits(found).unflatten(-1, (-1, _WORDS))


class Trained(NamedTuple):
    """A reader, and the share of new sentences in which it is right."""

    accuracy: float
    model: Reader


def best_reader(
    n_heads: int, *, ordered: bool, steps: int, seeds: Sequence[int], network: bool = False
) -> Trained:
    """The best of the readers trained from each seed: it shows what can be done."""
    trained = []
    for seed in seeds:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            trained.append(_train(Reader(n_heads, ordered=ordered, network=network), steps, seed))
    return max(trained, key=lambda one: one.accuracy)


def _train(model: Reader, steps: int, seed: int) -> Trained:
    rng = torch.Generator().manual_seed(seed)

    def loss() -> Tensor:
        words, roles, answer = sentences(64, rng)
        logits = model(words, roles)
        if logits.shape[1] == 2:
            return F.cross_entropy(logits.transpose(1, 2), answer)
        return F.binary_cross_entropy_with_logits(logits, _set(answer))

    fit(model.parameters(), loss, steps=steps, lr=1e-2)
    words, roles, answer = sentences(2000, rng)
    with torch.no_grad():
        return Trained(right(model(words, roles), answer).double().mean().item(), model)


def right(logits: Tensor, answer: Tensor) -> Tensor:
    """(B,): both words in their order, or the set of them and nothing else."""
    if logits.shape[1] == 2:
        return (logits.argmax(dim=-1) == answer).all(dim=-1)
    return ((logits > 0) == (_set(answer) > 0)).flatten(1).all(dim=-1)


def _set(answer: Tensor) -> Tensor:
    return F.one_hot(answer, _WORDS).amax(dim=1, keepdim=True).float()  # (B, 2) -> (B, 1, V)


def sentences(n: int, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Words and roles (B, S); the subject and the object (B, 2)."""
    words = torch.randint(_WORDS, (n, _LENGTH), generator=rng)
    places = torch.rand(n, _LENGTH, generator=rng).argsort(dim=1)[:, :2]
    roles = torch.zeros_like(words).scatter(1, places, torch.tensor([[1, 2]]).expand(n, -1))
    return words, roles, words.gather(1, places)
