"""Choose a head on held-out sentences, score it on others, and set chance beside it.

With dozens of heads, the best one on a test set looks good by luck alone. So the head (or the mean
of a layer, or whatever else carries a label) is chosen on ``valid``, and only its score on ``test``
is reported, next to the score of the same weights after shuffling.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import DataError

Matrix = NDArray[np.floating[Any]]
Links = Sequence[tuple[int, int]]
Scorer = Callable[[Sequence[Matrix], Sequence[Links]], float]
"""The matrices and the gold links of all sentences, one each -> a score."""
Shuffle = Callable[[Matrix, np.random.Generator], Matrix]

N_SHUFFLES = 20
"""The baseline is a mean over so many shuffles, to be steady on a few hundred sentences."""


@dataclass(frozen=True, slots=True)
class Watched:
    """One sentence: where each head looked, and where it should have."""

    weights: Mapping[Hashable, Matrix]
    """Label -> weights between words, row = who asks. All sentences carry the same labels."""
    links: Links
    """The gold links; what the two numbers stand for is the scorer's affair."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen and how good it is."""

    label: Hashable
    valid: float
    """Its score where it was chosen: flattering."""
    test: float
    """Its score on other sentences: the one to report."""
    baseline: float
    """Its score on ``test`` with each row's weights shuffled: chance."""


def by_label(sentences: Sequence[Watched], score: Scorer) -> dict[Hashable, float]:
    """The score of every label."""
    if not sentences:
        raise DataError("no sentence with gold links to score attention on; give at least one")
    return {label: _scored(sentences, label, score) for label in sentences[0].weights}


def choose(
    valid: Sequence[Watched],
    test: Sequence[Watched],
    *,
    score: Scorer,
    best: Callable[..., Hashable],
    shuffle: Shuffle,
    seed: int,
    test_score: Scorer | None = None,
) -> Choice:
    """Take the label that is ``best`` (``max`` or ``min``) on ``valid``; ties go to the first.

    ``test_score`` is for a scorer that knows more of its sentences than their links.
    """
    on_test = test_score or score
    on_valid = by_label(valid, score)
    label = best(on_valid, key=on_valid.__getitem__)
    rng = np.random.default_rng(seed)
    chance = [
        _scored(_shuffled(test, label, shuffle, rng), label, on_test) for _ in range(N_SHUFFLES)
    ]
    return Choice(label, on_valid[label], _scored(test, label, on_test), fmean(chance))


def _scored(sentences: Sequence[Watched], label: Hashable, score: Scorer) -> float:
    if missing := sum(label not in sentence.weights for sentence in sentences):
        raise DataError(
            f"every sentence must carry the weights of {label!r}, {missing} do not; "
            "watch all of them with one model"
        )
    return score([s.weights[label] for s in sentences], [s.links for s in sentences])


def _shuffled(
    sentences: Sequence[Watched], label: Hashable, shuffle: Shuffle, rng: np.random.Generator
) -> list[Watched]:
    return [Watched({label: shuffle(s.weights[label], rng)}, s.links) for s in sentences]
