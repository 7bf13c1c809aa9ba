"""A word of two meanings has one vector before attention; after it, one for each meaning.

*harry potter* is a book and a film. Small models learn what goes with titles of either kind; then
their vectors of *harry potter* are compared in sentences whose telling word it met in training, in
every model. Words that only other titles met are a harder test, which is told beside it. Where
words see only themselves, and where no word tells the meaning, as in *i like harry potter*, there
is nothing to go by.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.inspection.capture import watch
from regard.lab.result import Result
from regard.lab.titles import KINDS, WORDS, TitleModel, told_sentences, trained
from regard.lab.wording import percent
from regard.visual.matrix import matrix

_TELLING = tuple(word for kind in KINDS.values() for word in kind)


def context(
    *, attentive: bool = True, steps: int = 400, n_models: int = 5, seed: int = 0
) -> Result:
    """A title's vector in its two meanings; unless ``attentive``, words see only themselves."""
    seeds = range(seed, seed + n_models)
    models = [trained(attentive=attentive, steps=steps, seed=s) for s in seeds]
    met, unmet = (
        [_meanings(model, s, met=known) for model, s in zip(models, seeds, strict=True)]
        for known in (True, False)
    )
    far, near = max(one.after for one in met), min(one.nearer for one in met)
    untold = torch.stack([_untold(model) for model in models])
    return Result(
        name="context",
        verdict=all(map(_told_apart, met)),
        finding=(
            "The vectors of “harry potter” in a book's and in a film's sentence have a cosine of "
            f"{min(one.before for one in met):.2f} before attention and of at most {far:.2f} after "
            f"it in {n_models} models; then at least {percent(near)} lie nearer to the words of "
            "their own meaning (chance is half). With words that only other titles met, "
            f"{sum(map(_told_apart, unmet))} of the {n_models} models tell the two apart; with no "
            "telling word, as in “i like harry potter”, the mean cosines with the words of the two "
            f"are {untold[:, 0].mean().item():.2f} and {untold[:, 1].mean().item():.2f}."
        ),
        numbers={
            "models": n_models,
            "models that tell the meanings apart": sum(map(_told_apart, met)),
            "the same with words it never met": sum(map(_told_apart, unmet)),
            "cosine of the two meanings before": [one.before for one in met],
            "cosine of the two meanings after": [one.after for one in met],
            "share nearer to its own meaning": [one.nearer for one in met],
            "words never met: cosine after": [one.after for one in unmet],
            "words never met: share nearer": [one.nearer for one in unmet],
            "no telling word: cosine with a book's words": untold[:, 0].tolist(),
            "no telling word: cosine with a film's words": untold[:, 1].tolist(),
        },
        pictures=(_cosines(models[0], seed), _weights(models[0])),
    )


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
def _untold(model: TitleModel) -> Tensor:
    return _by_kind(_near(model, model(_ids("harry potter", "i", "like"))[:, 0]))[0]


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


def _weights(model: TitleModel) -> str:
    """Where *harry potter* looks in two sentences that differ in one word."""
    told = [words[0] for words in KINDS.values()]
    rest = ("and", "like", "harry potter", "very", "much")
    rows = []
    for word in told:
        with watch(model) as views, torch.no_grad():
            model(_ids("i", word, *rest))
        rows.append(views["attention", 0].weights()[0, 0, 4].tolist())
    columns = ["i", " or ".join(told), *rest]
    names = [f"i {word} …" for word in told]
    return matrix(rows, names, columns, title="Where “harry potter” looks")
