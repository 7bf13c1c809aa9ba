"""Does self-attention look from a pronoun to the word it stands for?

Weights are (words, words) of one sentence, from ``regard.evaluation.alignment.words_matrix`` with
the same words on both sides; links are (pronoun, antecedent). Candidates are all words of the
sentence but the pronoun itself: most heads look at themselves, which would tell nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from regard.core.errors import DataError
from regard.evaluation.choosing import Choice, Links, Matrix, Watched, by_label, choose


def accuracy_by_head(sentences: Sequence[Watched]) -> dict[Hashable, float]:
    """Label -> share of pronouns whose most attended candidate is their antecedent."""
    return by_label(sentences, _accuracy)


def chosen(valid: Sequence[Watched], test: Sequence[Watched], *, seed: int = 0) -> Choice:
    """Accuracy on ``test`` of the label that is most accurate on ``valid``."""
    return choose(valid, test, score=_accuracy, best=max, shuffle=_shuffled_candidates, seed=seed)


def _accuracy(matrices: Sequence[Matrix], gold: Sequence[Links]) -> float:
    found = [
        _most_attended(matrix, pronoun) in antecedents
        for matrix, links in zip(matrices, gold, strict=True)
        for pronoun, antecedents in _by_pronoun(links).items()
    ]
    if not found:
        raise DataError("antecedent accuracy needs pronouns, the sentences have no gold antecedent")
    return sum(found) / len(found)


def _by_pronoun(links: Links) -> dict[int, set[int]]:
    """A pronoun with several antecedents (*john and mary … they*) is one question."""
    antecedents: dict[int, set[int]] = {}
    for pronoun, antecedent in links:
        antecedents.setdefault(pronoun, set()).add(antecedent)
    return antecedents


def _most_attended(matrix: Matrix, pronoun: int) -> int | None:
    """The candidate with the largest weight; None if all its weight went elsewhere.

    A pronoun beyond the matrix was cut off with the end of a long sentence: nothing was attended.
    """
    if pronoun >= len(matrix):
        return None
    row = matrix[pronoun].copy()
    row[pronoun] = 0
    best = int(row.argmax())
    return best if row[best] > 0 else None


def _shuffled_candidates(matrix: Matrix, rng: np.random.Generator) -> Matrix:
    """Each row's weights permuted among its candidates; the diagonal stays."""
    n_words = len(matrix)
    candidates = ~np.eye(n_words, dtype=bool)
    shuffled = matrix.copy()
    rows = matrix[candidates].reshape(n_words, max(n_words - 1, 0))
    shuffled[candidates] = rng.permuted(rows, axis=1).ravel()
    return shuffled
