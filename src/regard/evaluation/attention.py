"""Does attention find what the data knows: words that translate each other, a pronoun's antecedent?

Weights stand between tokens, gold links between words: ``words_matrix`` goes from one to the other.
A link of an alignment is (source word, target word), one of an antecedent (pronoun, antecedent),
all counted from 0.

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

from regard.core.errors import DataError, ShapeError
from regard.evaluation.label_metrics import Link, alignment_error_rate

Matrix = NDArray[np.floating[Any]]
Links = Sequence[tuple[int, int]]

N_SHUFFLES = 20
"""The baseline is a mean over so many shuffles, to be steady on a few hundred sentences."""


@dataclass(frozen=True, slots=True)
class Watched:
    """One sentence: where each head looked, and where it should have."""

    weights: Mapping[Hashable, Matrix]
    """Label -> weights between words, row = who asks. All sentences carry the same labels."""
    links: Links
    """The gold links; what the two numbers stand for is the scorer's affair."""
    possible: Links = ()
    """Links of an alignment that are forgiven besides."""


@dataclass(frozen=True, slots=True)
class HeadChoice:
    """What was chosen and how good it is."""

    label: Hashable
    valid: float
    """Its score where it was chosen: flattering."""
    test: float
    """Its score on other sentences: the one to report."""
    baseline: float
    """Its score on ``test`` with each row's weights shuffled: chance."""


@dataclass(frozen=True, slots=True)
class AttentionMeasure:
    """How well heads find gold links."""

    score: Callable[[Sequence[Matrix], Sequence[Watched]], float]
    """One label's weights in all sentences, and the sentences -> a number."""
    best: Callable[..., Hashable]
    """``max`` or ``min``."""
    shuffle: Callable[[Matrix, np.random.Generator], Matrix]

    def by_head(self, sentences: Sequence[Watched]) -> dict[Hashable, float]:
        """The score of every label."""
        if not sentences:
            raise DataError("no sentence with gold links to score attention on; give at least one")
        return {label: self._scored(sentences, label) for label in sentences[0].weights}

    def chosen(
        self, valid: Sequence[Watched], test: Sequence[Watched], *, seed: int = 0
    ) -> HeadChoice:
        """The label that is best on ``valid`` (ties go to the first), and its score on ``test``."""
        on_valid = self.by_head(valid)
        label = self.best(on_valid, key=on_valid.__getitem__)
        on_test = self._scored(test, label)
        rng, chance = np.random.default_rng(seed), []
        for _ in range(N_SHUFFLES):
            chance.append(self.score([self.shuffle(one.weights[label], rng) for one in test], test))
        return HeadChoice(label, on_valid[label], on_test, fmean(chance))

    def _scored(self, sentences: Sequence[Watched], label: Hashable) -> float:
        if missing := sum(label not in sentence.weights for sentence in sentences):
            raise DataError(
                f"every sentence must carry the weights of {label!r}, {missing} do not; "
                "watch all of them with one model"
            )
        return self.score([sentence.weights[label] for sentence in sentences], sentences)


def words_matrix(
    weights: Matrix, source_words: Sequence[int | None], target_words: Sequence[int | None]
) -> NDArray[np.float64]:
    """Weights between tokens (…, T, S) -> weights between words (…, target words, source words).

    ``source_words`` (S) and ``target_words`` (T) tell each token's word; None marks a special
    token, which is left out. A source word gets the sum of its tokens' weights, for attention to
    any part is attention to it; a target word looks where its tokens look on average. Rows may sum
    to less than 1 then: the rest went to special tokens.
    """
    if weights.shape[-2:] != (len(target_words), len(source_words)):
        raise ShapeError(
            f"weights {weights.shape} must end in (target tokens, source tokens), "
            f"got words for ({len(target_words)}, {len(source_words)}) tokens"
        )
    by_target, n_tokens = _by_word(np.swapaxes(weights, -1, -2), target_words)
    means = by_target / np.maximum(n_tokens, 1)  # a word without tokens stays 0
    return _by_word(np.swapaxes(means, -1, -2), source_words)[0]


def _by_word(
    weights: Matrix, words: Sequence[int | None]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Weights of tokens (…, tokens) -> of words, their tokens' sum; how many tokens each word has.

    Documents have thousands of words: a matrix of tokens by words would be larger than all else.
    """
    owners = np.array([-1 if word is None else word for word in words], np.int64)
    n_tokens = np.bincount(owners[owners >= 0])
    order = np.argsort(owners, kind="stable")[len(owners) - n_tokens.sum() :]
    present = np.flatnonzero(n_tokens)
    found = np.zeros((*weights.shape[:-1], len(n_tokens)))
    if len(present):
        begins = (np.cumsum(n_tokens) - n_tokens)[present]
        found[..., present] = np.add.reduceat(weights[..., order], begins, axis=-1)
    return found, n_tokens


def links(matrix: Matrix) -> set[Link]:
    """Each target word is linked to the source word that weighs most in its row."""
    if not matrix.size:
        return set()
    best = matrix.argmax(axis=1)
    # A row without any weight, as of a word that has no token, points nowhere.
    return {(int(s), t) for t, s in enumerate(best) if matrix[t, s] > 0}


def _error_rate(matrices: Sequence[Matrix], sentences: Sequence[Watched]) -> float:
    found = [links(matrix) for matrix in matrices]
    return alignment_error_rate(
        found, [one.links for one in sentences], [one.possible for one in sentences]
    )


ALIGNMENT = AttentionMeasure(_error_rate, min, lambda matrix, rng: rng.permuted(matrix, axis=1))
"""Alignment error rate; weights are (target words, source words), from ``words_matrix``."""


def _antecedent_accuracy(matrices: Sequence[Matrix], sentences: Sequence[Watched]) -> float:
    found = [
        (pronoun, _most_attended(matrix, pronoun)) in sentence.links
        for matrix, sentence in zip(matrices, sentences, strict=True)
        # A pronoun with several antecedents (*john and mary … they*) is one question.
        for pronoun in dict.fromkeys(pronoun for pronoun, _ in sentence.links)
    ]
    if not found:
        raise DataError("antecedent accuracy needs pronouns, the sentences have no gold antecedent")
    return sum(found) / len(found)


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


ANTECEDENTS = AttentionMeasure(_antecedent_accuracy, max, _shuffled_candidates)
"""Share of pronouns whose most attended candidate is their antecedent.

Candidates are all words of the sentence but the pronoun itself: most heads look at themselves,
which would tell nothing.
"""
