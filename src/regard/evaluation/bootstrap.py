"""Is one system really better, or was it lucky with these sentences?

Paired bootstrap (Koehn 2004): draw as many sentences as there are, with replacement, score both
systems on the same draw, and repeat. Corpus scores are functions of sums of counts a sentence
(n-grams found, n-grams written, lengths), so each draw only adds up rows of numbers; no text is
read twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric as SacreMetric

from regard.core.errors import ConfigError
from regard.evaluation.metrics import check_parallel, sacre_metric

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Two systems on the same references; scores are on the whole set, 0 … 100."""

    a: float
    b: float
    difference: float
    """a - b; above 0 when a is better."""
    p_value: float
    """Two-sided: how often draws deny that the leader leads, doubled."""
    interval: tuple[float, float]
    """The middle 95 % of the difference over the draws."""


def paired_bootstrap(
    a: Sequence[str],
    b: Sequence[str],
    references: Sequence[str],
    *,
    metric: str = "bleu",
    n: int = 1000,
    seed: int = 0,
) -> Bootstrap:
    """Compare two systems' outputs by ``metric`` (``bleu`` or ``chrf``) over ``n`` draws.

    Koehn counts the draws in which the leader does not win. We double that share, since who leads
    was read off the same sentences; then p < 0.05 and an interval without 0 say the same. The one
    added to both counts keeps p above 0, which no finite number of draws could show.
    """
    check_parallel(a=a, b=b, references=references)
    if n < 1:
        raise ConfigError(f"a bootstrap needs at least one draw, got n={n}; 1000 is usual")
    scorer = sacre_metric(metric)
    counts = [_counts(scorer, texts, references) for texts in (a, b)]
    score_a, score_b = (_score(scorer, rows.sum(axis=0)) for rows in counts)
    draws = _differences(scorer, counts[0], counts[1], n, seed)
    lead = score_a - score_b
    denied = int(np.sum(draws <= 0 if lead >= 0 else draws >= 0))
    low, high = np.quantile(draws, (0.025, 0.975)).tolist()
    return Bootstrap(score_a, score_b, lead, min(1.0, 2 * (denied + 1) / (n + 1)), (low, high))


def _counts(scorer: SacreMetric, texts: Sequence[str], references: Sequence[str]) -> Counts:
    """(N, K): what the score is made of, a row a sentence.

    sacreBLEU's own significance tests use this method and the next; it has no public door to them.
    """
    return np.array(scorer._extract_corpus_statistics(texts, [references]), dtype=np.int64)


def _score(scorer: SacreMetric, totals: Counts) -> float:
    return float(scorer._compute_score_from_stats(totals.tolist()).score)


def _differences(
    scorer: SacreMetric, a: Counts, b: Counts, n: int, seed: int
) -> NDArray[np.float64]:
    """(n,): score of a minus score of b on each draw."""
    rng = np.random.default_rng(seed)
    n_lines = len(a)
    differences = np.empty(n)
    for i in range(n):
        times = np.bincount(rng.integers(n_lines, size=n_lines), minlength=n_lines)
        differences[i] = _score(scorer, times @ a) - _score(scorer, times @ b)
    return differences
