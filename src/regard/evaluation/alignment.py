"""Does cross-attention find the words that translate each other?

Weights stand between tokens, gold alignments between words: ``words_matrix`` goes from one to the
other. A link is (source word, target word), both counted from 0.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import DataError, ShapeError
from regard.evaluation.choosing import Choice, Links, Matrix, Watched, choose
from regard.evaluation.text_scores import check_parallel

Link = tuple[int, int]


def alignment_error_rate(
    predicted: Sequence[Collection[Link]],
    sure: Sequence[Collection[Link]],
    possible: Sequence[Collection[Link]] | None = None,
) -> float:
    """1 - (|A∩S| + |A∩P|) / (|A| + |S|), over the whole corpus (Och & Ney 2003); 0 is perfect.

    One collection of links a sentence. Whatever is sure is possible too; without ``possible``,
    nothing else is, and the rate is 1 - F1.
    """
    maybe = sure if possible is None else possible
    check_parallel(predicted=predicted, sure=sure, possible=maybe)
    hits = links = 0
    for a, s, p in zip(map(set, predicted), map(set, sure), map(set, maybe), strict=True):
        hits += len(a & s) + len(a & (p | s))
        links += len(a) + len(s)
    if not links:
        raise DataError("alignment error rate needs links, predicted and gold have none at all")
    return 1 - hits / links


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
    sums = _membership(source_words)  # (S, source words)
    means = _membership(target_words)  # (T, target words)
    means /= np.maximum(means.sum(axis=0), 1)  # a word without tokens stays 0
    return means.T @ weights @ sums


def links_from_weights(
    weights: Matrix, source_words: Sequence[int | None], target_words: Sequence[int | None]
) -> set[Link]:
    """Each target word is linked to the source word that weighs most in its row.

    In a decoder the row that *writes* a token is the one before it is read: ``target_words`` has
    the word that each row writes.
    """
    return _links(words_matrix(weights, source_words, target_words))


def chosen_alignment(
    valid: Sequence[Watched],
    test: Sequence[Watched],
    *,
    possible: tuple[Sequence[Links], Sequence[Links]] | None = None,
    seed: int = 0,
) -> Choice:
    """Alignment error rate on ``test`` of the label whose rate is lowest on ``valid``.

    Weights are (target words, source words), from ``words_matrix``; links (source, target). The
    links of a sentence are sure ones; ``possible`` has those of ``valid`` and of ``test`` that are
    forgiven besides.
    """
    on_valid, on_test = (None, None) if possible is None else possible
    return choose(
        valid,
        test,
        score=partial(_error_rate, possible=on_valid),
        test_score=partial(_error_rate, possible=on_test),
        best=min,
        shuffle=_shuffled_rows,
        seed=seed,
    )


def _membership(words: Sequence[int | None]) -> NDArray[np.float64]:
    """(tokens, words): 1 where the token is part of the word."""
    n_words = 1 + max((word for word in words if word is not None), default=-1)
    members = np.zeros((len(words), n_words))
    for token, word in enumerate(words):
        if word is not None:
            members[token, word] = 1
    return members


def _links(matrix: Matrix) -> set[Link]:
    if not matrix.size:
        return set()
    best = matrix.argmax(axis=1)
    # A row without any weight, as of a word that has no token, points nowhere.
    return {(int(s), t) for t, s in enumerate(best) if matrix[t, s] > 0}


def _error_rate(
    matrices: Sequence[Matrix], sure: Sequence[Links], possible: Sequence[Links] | None
) -> float:
    return alignment_error_rate([_links(matrix) for matrix in matrices], sure, possible)


def _shuffled_rows(matrix: Matrix, rng: np.random.Generator) -> Matrix:
    return rng.permuted(matrix, axis=1)
