"""Facts of the world ``documents``: are they stated, and does attention look where they stand?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from regard.core.errors import DataError
from regard.data.worlds.document_language import TWO_HOP, Statement, stated_facts
from regard.evaluation.attention import AttentionMeasure, Matrix, Watched
from regard.evaluation.metrics import check_parallel, metric

FACT_METRICS = ("facts", "one_hop_facts", "two_hop_facts")


def _share(
    predictions: Sequence[str], references: Sequence[str], counts: Callable[[Statement], bool]
) -> float:
    """Of the facts that references state and that count, how many are stated."""
    check_parallel(predictions=predictions, references=references)
    n_right = n_facts = 0
    for said, right in zip(predictions, references, strict=True):
        wanted = {fact for fact in stated_facts(right) if counts(fact)}
        n_right += len(wanted & stated_facts(said))
        n_facts += len(wanted)
    if not n_facts:
        raise DataError("the references state no fact of the world documents; leave out facts")
    return n_right / n_facts


@metric("facts", title="exact facts", unit="share", better="higher", world="documents")
def facts(predictions: Sequence[str], references: Sequence[str]) -> float:
    """Share of a summary's facts that are stated, and not contradicted.

    >>> right = "mira is a cook. mira lives in lomham in velmark."
    >>> facts(["mira is a cook. mira lives in lomham in velland.", right], [right, right])
    0.8333333333333334
    """
    return _share(predictions, references, lambda fact: True)


@metric("one_hop_facts", title="one-hop facts", unit="share", better="higher", world="documents")
def one_hop_facts(predictions: Sequence[str], references: Sequence[str]) -> float:
    """The same of facts that one sentence of the document says."""
    return _share(predictions, references, lambda fact: fact[1] not in TWO_HOP)


@metric("two_hop_facts", title="two-hop facts", unit="share", better="higher", world="documents")
def two_hop_facts(predictions: Sequence[str], references: Sequence[str]) -> float:
    """The same of facts that take two sentences."""
    return _share(predictions, references, lambda fact: fact[1] in TWO_HOP)


def _mass(matrices: Sequence[Matrix], documents: Sequence[Watched]) -> float:
    """The mean weight that a word which states a fact gives to all words that it is linked with."""
    found: list[float] = []
    for matrix, one in zip(matrices, documents, strict=True):
        positions: dict[int, list[int]] = {}
        for source, target in one.links:
            positions.setdefault(target, []).append(source)
        found += [float(matrix[target, sources].sum()) for target, sources in positions.items()]
    if not found:
        raise DataError("attention on facts needs facts, and the documents have none")
    return float(np.mean(found))


FACT_ATTENTION = AttentionMeasure(_mass, max, lambda matrix, rng: rng.permuted(matrix, axis=1))
"""Mass on the gold positions of a fact while it is written.

Weights are (stating words, words of the document), links (word of the document, row).
"""
