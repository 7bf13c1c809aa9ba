"""Scores of answers as SQuAD has them (Rajpurkar et al. 2016): exact match, and F1 of words."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

from regard.core.errors import DataError

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_UNMARKED = str.maketrans("", "", string.punctuation)


def normalised(answer: str) -> str:
    """Small letters, without punctuation, articles and superfluous white space.

    >>> normalised(" The  U.S.-led army, an ally")
    'usled army ally'
    """
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_UNMARKED)).split())


def exact_match(given: Sequence[str], right: Sequence[Sequence[str]]) -> float:
    """Share of answers that are one of the right ones, normalised.

    >>> exact_match(["The cat!", "dog"], [["a cat"], ["dogs", "a hound"]])
    0.5
    """
    return _mean(given, right, lambda one, other: float(normalised(one) == normalised(other)))


def f1(given: Sequence[str], right: Sequence[Sequence[str]]) -> float:
    """Mean F1 of the words that an answer shares with that right one with which it shares most.

    >>> round(f1(["the old cat"], [["a dog", "old grey cat"]]), 4)  # 2 of 2 words, 2 of 3
    0.8
    """
    return _mean(given, right, _overlap)


def _overlap(given: str, right: str) -> float:
    """Where one of them has no words, 1 if neither has any."""
    ours, theirs = normalised(given).split(), normalised(right).split()
    if not ours or not theirs:
        return float(ours == theirs)
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs))


def _mean(
    given: Sequence[str], right: Sequence[Sequence[str]], score: Callable[[str, str], float]
) -> float:
    if len(given) != len(right):
        raise DataError(f"{len(given)} answers were given to {len(right)} questions")
    if not right:
        raise DataError("there are no answers to be scored")
    pairs = zip(given, right, strict=True)
    return sum(max(score(one, other) for other in several) for one, several in pairs) / len(right)
