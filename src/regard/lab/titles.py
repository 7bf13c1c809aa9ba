"""Titles that are books and films, in small sentences, and a model that learns what goes with them.

A sentence is a title, a word that tells which of the two is meant, and words that tell nothing.
Another word of the same kind was taken out; the title's vector after attention has to guess it, by
coming near its embedding. Order does not matter: the model has no positions.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.lab.learning import fit
from regard.layers.attention import MultiHeadAttention
from regard.layers.embeddings import token_embedding

TITLES = ("harry potter", "dracula", "dune", "emma")
KINDS = {
    "book": ("read", "page", "author", "library", "chapter", "novel"),
    "film": ("watched", "screen", "actor", "cinema", "scene", "camera"),
}
_OTHERS = ("i", "like", "the", "and", "my", "very", "much", "again")
WORDS = (*TITLES, *KINDS["book"], *KINDS["film"], *_OTHERS)
_N = len(KINDS["book"])
_NEW = 3  # so many words of each kind do not stand beside *harry potter* in training
_D = 32


class TitleModel(nn.Module):
    """An embedding and one attention of one head; words see all words, or only themselves."""

    def __init__(self, *, attentive: bool) -> None:
        super().__init__()
        self.words = token_embedding(len(WORDS), _D)
        self.attention = MultiHeadAttention(_D, 1)
        self.attentive = attentive

    def before(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> vectors (B, T, D) that know nothing of each other."""
        return self.words(ids) * _D**0.5

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> vectors (B, T, D) after attention."""
        x = self.before(ids)
        mask = None if self.attentive else torch.eye(ids.shape[1], dtype=torch.bool)
        return x + self.attention(x, mask=mask)


def trained(*, attentive: bool, steps: int, seed: int) -> TitleModel:
    """A model that has seen many sentences, a quarter of them without a word that tells."""
    rng = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = TitleModel(attentive=attentive)

    def loss() -> Tensor:
        ids, taken = sentences(64, rng)
        return F.cross_entropy(model(ids)[:, 0] @ model.words.weight.mT, taken)

    fit(model.parameters(), loss, steps=steps, lr=3e-3)
    return model


def sentences(n: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """ids (B, T), the title first, then the word that tells; and the word taken out (B,)."""
    titles = torch.randint(len(TITLES), (n, 1), generator=rng)
    kinds = torch.randint(len(KINDS), (n, 1), generator=rng)
    two, known = (torch.rand(n, m, generator=rng).argsort(dim=1)[:, :2] for m in (_N, _N - _NEW))
    two = len(TITLES) + _N * kinds + torch.where(titles == 0, known, two)
    others = _others(n, 4, rng)
    silent = torch.rand(n, 1, generator=rng) < 0.25
    told = torch.where(silent, others[:, :1], two[:, :1])
    return torch.cat((titles, told, others[:, 1:]), dim=1), two[:, 1]


def told_sentences(kind: str, n: int, seed: int, *, met: bool) -> Tensor:
    """ids (B, T): *harry potter* first, then a word of the kind, and words that tell nothing.

    The word is one that the title ``met`` in training, or one that only other titles met.
    """
    rng = torch.Generator().manual_seed(seed)
    words = KINDS[kind][:-_NEW] if met else KINDS[kind][-_NEW:]
    first = WORDS.index(words[0])
    told = torch.randint(first, first + len(words), (n, 1), generator=rng)
    return torch.cat((torch.zeros_like(told), told, _others(n, 3, rng)), dim=1)


def _others(n: int, length: int, rng: torch.Generator) -> Tensor:
    first = WORDS.index(_OTHERS[0])
    return torch.randint(first, len(WORDS), (n, length), generator=rng)
