"""Scores of captions, each of which has several references (Chen et al. 2015).

CIDEr-D (Vedantam et al. 2015) compares n-grams weighted by how rare they are among the pictures;
ROUGE-L (Lin 2004) the longest common subsequence; METEOR (Banerjee & Lavie 2005) aligned words,
here by exact and by stem matches, without synonyms. Words are lower-cased, punctuation is dropped.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from regard.evaluation.metrics import check_parallel, metric
from regard.evaluation.text_metrics import Several

Words = tuple[str, ...]
NGrams = Counter[Words]

LONGEST_NGRAM = 4
SIGMA = 6.0
"""Deviation of CIDEr-D's penalty for captions that are longer or shorter than their reference."""
BETA = 1.2
"""How much more recall counts than precision in ROUGE-L."""
ALPHA, POWER, GAMMA = 0.9, 3.0, 0.5
"""METEOR's weight of recall, and the form and the size of its penalty for scattered matches."""


def words_of(text: str) -> Words:
    """What is compared.

    >>> words_of("A red circle, left of it: a star.")
    ('a', 'red', 'circle', 'left', 'of', 'it', 'a', 'star')
    """
    return tuple(re.findall(r"\w+(?:['’-]\w+)*", text.lower()))


def _split(predictions: Sequence[str], references: Several) -> list[tuple[Words, list[Words]]]:
    """Each caption with its references, as words."""
    check_parallel(predictions=predictions, references=references)
    several = [[one] if isinstance(one, str) else one for one in references]
    return [
        (words_of(said), [words_of(one) for one in some])
        for said, some in zip(predictions, several, strict=True)
    ]


@metric(
    "cider",
    title="CIDEr-D",
    unit="points",
    better="higher",
    judges_one=False,
    signature="CIDEr-D, n ≤ 4, σ 6",
)
def cider(predictions: Sequence[str], references: Several) -> float:
    """Mean similarity of TF-IDF n-grams, clipped, times 10; not bounded by 1.

    The rarity of an n-gram is counted over the references that are given: a score depends on them.
    """
    return float(np.mean(cider_each(predictions, references)))


def cider_each(predictions: Sequence[str], references: Several) -> list[float]:
    """The CIDEr-D of each caption, all of them given."""
    pairs = [
        (n_grams(said), [n_grams(one) for one in some])
        for said, some in _split(predictions, references)
    ]
    seen_in = Counter(ngram for _, some in pairs for ngram in set().union(*some))
    log_n = math.log(len(pairs))

    def weighted(counts: NGrams) -> list[dict[Words, float]]:
        """By length of n-gram: its count times its rarity."""
        found: list[dict[Words, float]] = [{} for _ in range(LONGEST_NGRAM)]
        for ngram, count in counts.items():
            rarity = log_n - math.log(max(1.0, seen_in[ngram]))
            found[len(ngram) - 1][ngram] = count * rarity
        return found

    return [
        10 * float(np.mean([_similarity(weighted(said), weighted(x), said, x) for x in some]))
        for said, some in pairs
    ]


def n_grams(words: Words) -> NGrams:
    """How often each run of one to four words occurs."""
    return Counter(
        words[i : i + n] for n in range(1, LONGEST_NGRAM + 1) for i in range(len(words) - n + 1)
    )


def _similarity(
    a: Sequence[dict[Words, float]], b: Sequence[dict[Words, float]], said: NGrams, one: NGrams
) -> float:
    """Mean over n of the clipped cosine of two captions, less where their lengths differ."""
    apart = sum(n for g, n in said.items() if len(g) == 2) - sum(
        n for g, n in one.items() if len(g) == 2
    )
    found = []
    for left, right in zip(a, b, strict=True):
        norms = math.hypot(*left.values()) * math.hypot(*right.values())
        dot = sum(min(value, right[g]) * right[g] for g, value in left.items() if g in right)
        found.append(dot / norms if norms else 0.0)
    return float(np.mean(found)) * math.exp(-(apart**2) / (2 * SIGMA**2))


@metric(
    "rouge_l_coco",
    title="ROUGE-L (COCO)",
    unit="points",
    better="higher",
    signature="β 1.2",
)
def rouge_l_coco(predictions: Sequence[str], references: Several) -> float:
    """Mean F of the longest common subsequence: best precision and best recall, each by itself."""
    found = []
    for said, some in _split(predictions, references):
        common = [_common(said, one) for one in some]
        precision = max(n / len(said) if said else 0.0 for n in common)
        recall = max(n / len(one) if one else 0.0 for n, one in zip(common, some, strict=True))
        below = recall + BETA**2 * precision
        found.append((1 + BETA**2) * precision * recall / below if below else 0.0)
    return 100 * float(np.mean(found))


def _common(a: Words, b: Words) -> int:
    """Length of the longest common subsequence.

    >>> _common(("a", "b", "c", "d"), ("a", "c", "x", "d"))
    3
    """
    row = [0] * (len(b) + 1)
    for word in a:
        before = row
        row = [0]
        for j, other in enumerate(b):
            row.append(before[j] + 1 if word == other else max(row[j], before[j + 1]))
    return row[-1]


@metric(
    "meteor_stem",
    title="METEOR (exact, stem)",
    unit="points",
    better="higher",
    signature="exact and stem matches, α 0.9, β 3, γ 0.5",
)
def meteor_stem(predictions: Sequence[str], references: Several) -> float:
    """Mean over captions of the best F over their references, less where matches are scattered."""
    return 100 * float(
        np.mean(
            [
                max(_meteor(said, one) for one in some)
                for said, some in _split(predictions, references)
            ]
        )
    )


def _meteor(said: Words, one: Words) -> float:
    matches = _aligned(said, one)
    if not matches:
        return 0.0
    precision, recall = len(matches) / len(said), len(matches) / len(one)
    f = precision * recall / (ALPHA * precision + (1 - ALPHA) * recall)
    chunks = 1 + sum((i + 1, j + 1) != after for (i, j), after in pairwise(matches))
    return f * (1 - GAMMA * (chunks / len(matches)) ** POWER)


def _aligned(said: Words, one: Words) -> list[tuple[int, int]]:
    """Positions of words that match, each once: equal ones first, then those of one stem.

    Where a word occurs more than once, the last ones match first, as NLTK has it.
    """
    left, right = {*range(len(said))}, {*range(len(one))}
    found = []
    for same in (lambda words: words, _stems):
        these, those = same(said), same(one)
        for i in sorted(left, reverse=True):
            at = max((j for j in right if those[j] == these[i]), default=None)
            if at is not None:
                found.append((i, at))
                left.remove(i)
                right.remove(at)
    return sorted(found)


@lru_cache(maxsize=4096)
def _stems(words: Words) -> Words:
    import snowballstemmer

    return tuple(snowballstemmer.stemmer("english").stemWords(words))
