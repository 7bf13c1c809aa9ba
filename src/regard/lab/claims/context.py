"""A word of two meanings has one vector before attention; after it, one for each meaning.

*harry potter* is a book and a film. Small models learn what goes with titles of either kind; then
their vectors of *harry potter* are compared in sentences whose telling word it met in training, in
every model. Words that only other titles met are a harder test, which is told beside it. Where
words see only themselves, and where no word tells the meaning, as in *i like harry potter*, there
is nothing to go by. One head is enough for one word that tells; several heads at the same width
are tried as well, and whether they share the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.numbers import counted
from regard.inspection.capture import watch
from regard.lab.result import Result, listed, percent
from regard.lab.small_models import fit, seeded
from regard.layers.attention import MultiHeadAttention
from regard.layers.embeddings import token_embedding
from regard.visual.matrix import matrix

TITLES = ("harry potter", "dracula", "dune", "emma")
KINDS = {
    "book": ("read", "page", "author", "library", "chapter", "novel"),
    "film": ("watched", "screen", "actor", "cinema", "scene", "camera"),
}
_TELLING = tuple(word for kind in KINDS.values() for word in kind)
_OTHERS = ("i", "like", "the", "and", "my", "very", "much", "again")
WORDS = (*TITLES, *KINDS["book"], *KINDS["film"], *_OTHERS)
_N = len(KINDS["book"])
_NEW = 3  # so many words of each kind do not stand beside *harry potter* in training
_D = 32


def context(
    *,
    attentive: bool = True,
    heads: Sequence[int] = (1, 2, 4),
    steps: int = 400,
    n_models: int = 5,
    seed: int = 0,
) -> Result:
    """A title's vector in its two meanings; unless ``attentive``, words see only themselves.

    ``heads`` are tried at one width; numbers that are not by heads are those of the first.
    """
    seeds = range(seed, seed + n_models)
    groups = {n: _group(n, attentive, steps, seeds) for n in heads}
    models, met, unmet = groups[heads[0]]
    apart = {n: sum(map(_told_apart, group.met)) for n, group in groups.items()}
    far, near = max(one.after for one in met), min(one.nearer for one in met)
    silent = _ids("harry potter", "i", "like")
    with torch.no_grad():
        untold = torch.stack([_by_kind(_near(model, model(silent)[:, 0]))[0] for model in models])
    book, film = untold.mT.tolist()
    return Result(
        name="context",
        verdict=all(count == n_models for count in apart.values()),
        finding=(
            "The vectors of “harry potter” in a book's and in a film's sentence have a cosine of "
            f"{min(one.before for one in met):.2f} before attention and of at most {far:.2f} after "
            f"it in {n_models} models; then at least {percent(near)} lie nearer to the words of "
            "their own meaning (chance is half). With words that only other titles met, "
            f"{sum(map(_told_apart, unmet))} of the {n_models} models tell the two apart; with no "
            "telling word, as in “i like harry potter”, the mean cosines with the words of the two "
            f"are {fmean(book):.2f} and {fmean(film):.2f}. With {listed(heads)} heads, "
            f"{listed(apart.values())} of {n_models} models tell the meanings apart."
        ),
        numbers={
            "models": n_models,
            "models that tell the meanings apart": apart[heads[0]],
            "the same with words it never met": sum(map(_told_apart, unmet)),
            "cosine of the two meanings before": [one.before for one in met],
            "cosine of the two meanings after": [one.after for one in met],
            "share nearer to its own meaning": [one.nearer for one in met],
            "words never met: cosine after": [one.after for one in unmet],
            "words never met: share nearer": [one.nearer for one in unmet],
            "no telling word: cosine with a book's words": book,
            "no telling word: cosine with a film's words": film,
            "heads": list(heads),
            "by heads: models that tell the meanings apart": list(apart.values()),
            "by heads: mean cosine after": [
                fmean(one.after for one in group.met) for group in groups.values()
            ],
            "by heads: the same with words it never met": [
                sum(map(_told_apart, group.unmet)) for group in groups.values()
            ],
        },
        pictures=(
            _cosines(models[0], seed),
            *(_weights(group.models[0], n) for n, group in groups.items()),
        ),
    )


class _Group(NamedTuple):
    """Models of one number of heads, and what each makes of the two meanings."""

    models: list[TitleModel]
    met: list[_Meanings]
    """With words that the title met in training."""
    unmet: list[_Meanings]


def _group(n_heads: int, attentive: bool, steps: int, seeds: Sequence[int]) -> _Group:
    models = [trained(attentive=attentive, steps=steps, seed=s, n_heads=n_heads) for s in seeds]
    met, unmet = (
        [_meanings(model, s, met=known) for model, s in zip(models, seeds, strict=True)]
        for known in (True, False)
    )
    return _Group(models, met, unmet)


class _Meanings(NamedTuple):
    before: float
    """Cosine of the title's vectors in the two meanings, before attention."""
    after: float
    nearer: float
    """The share of vectors after attention that lie nearer to the words of their own meaning."""


def _told_apart(found: _Meanings) -> bool:
    return found.before > 0.999 and found.after < 0.5 and found.nearer > 0.95


@torch.no_grad()
def _meanings(model: TitleModel, seed: int, *, met: bool) -> _Meanings:
    ids = [told_sentences(kind, 200, seed, met=met) for kind in KINDS]
    before, after = ([vectors(x)[:, 0] for x in ids] for vectors in (model.before, model))
    same, apart = (
        F.cosine_similarity(book, film, dim=-1).mean().item() for book, film in (before, after)
    )
    book, film = (_by_kind(_near(model, vectors)) for vectors in after)
    nearer = torch.cat((book[:, 0] > book[:, 1], film[:, 1] > film[:, 0]))
    return _Meanings(same, apart, nearer.double().mean().item())


def _ids(*words: str) -> Tensor:
    return torch.tensor([[WORDS.index(word) for word in words]])  # (1, T)


def _near(model: TitleModel, vectors: Tensor) -> Tensor:
    """Vectors (B, D) -> cosines (B, N) with the words that tell a meaning."""
    return F.cosine_similarity(vectors[:, None], model.words(_ids(*_TELLING)), dim=-1)


def _by_kind(cosines: Tensor) -> Tensor:
    return cosines.unflatten(-1, (len(KINDS), -1)).mean(dim=-1)  # (B, N) -> (B, 2)


@torch.no_grad()
def _cosines(model: TitleModel, seed: int) -> str:
    book, film = (told_sentences(kind, 200, seed, met=True) for kind in KINDS)
    rows = {
        "before": model.before(book),
        "after, book": model(book),
        "after, film": model(film),
        "after, neither": model(_ids("harry potter", "i", "like")),
    }
    cells = [_near(model, vectors[:, 0]).mean(dim=0).tolist() for vectors in rows.values()]
    return matrix(cells, list(rows), _TELLING, title="Cosine of “harry potter” with each word")


def _weights(model: TitleModel, n_heads: int) -> str:
    """Where each head of *harry potter* looks in two sentences that differ in one word."""
    told = [words[0] for words in KINDS.values()]
    rest = ("and", "like", "harry potter", "very", "much")
    rows = {}
    for word in told:
        with watch(model) as views, torch.no_grad():
            model(_ids("i", word, *rest))
        for h, row in enumerate(views["attention", 0].weights()[0, :, 4].tolist()):
            rows[f"i {word} …" if n_heads == 1 else f"i {word} …, head {h}"] = row
    columns = ["i", " or ".join(told), *rest]
    title = f"Where “harry potter” looks, {counted(n_heads, 'head')}"
    return matrix(list(rows.values()), list(rows), columns, title=title)


class TitleModel(nn.Module):
    """An embedding and one attention; words see all words, or only themselves."""

    def __init__(self, *, attentive: bool, n_heads: int = 1) -> None:
        super().__init__()
        self.words = token_embedding(len(WORDS), _D)
        self.attention = MultiHeadAttention(_D, n_heads)
        self.attentive = attentive

    def before(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> vectors (B, T, D) that know nothing of each other."""
        return self.words(ids) * _D**0.5

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> vectors (B, T, D) after attention."""
        x = self.before(ids)
        mask = None if self.attentive else torch.eye(ids.shape[1], dtype=torch.bool)
        return x + self.attention(x, mask=mask)


def trained(*, attentive: bool, steps: int, seed: int, n_heads: int = 1) -> TitleModel:
    """A model that has seen many sentences, a quarter of them without a word that tells."""
    rng = torch.Generator().manual_seed(seed)
    with seeded(seed):
        model = TitleModel(attentive=attentive, n_heads=n_heads)

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
