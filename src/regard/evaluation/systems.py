"""Systems side by side: is one really better, and at which lengths does it begin to fail?

Paired bootstrap (Koehn 2004): draw as many sentences as there are, with replacement, score both
systems on the same draw, and repeat. Corpus scores are functions of sums of counts a sentence
(n-grams found, n-grams written, lengths), so each draw only adds up rows of numbers; no text is
read twice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sacrebleu import BLEU
from sacrebleu.metrics.base import Metric as SacreMetric

from regard.core.errors import ConfigError
from regard.evaluation.metrics import check_parallel
from regard.evaluation.text_metrics import exact_match, sacre_metric
from regard.text.words import split

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
    # (N, K): what the score is made of, a row a sentence. sacreBLEU's own significance tests use
    # this method and that of ``_score``; it has no public door to them.
    counts_a, counts_b = (
        np.array(scorer._extract_corpus_statistics(texts, [references]), dtype=np.int64)
        for texts in (a, b)
    )
    score_a, score_b = (_score(scorer, counts.sum(axis=0)) for counts in (counts_a, counts_b))
    rng, n_lines, draws = np.random.default_rng(seed), len(references), np.empty(n)
    for i in range(n):
        times = np.bincount(rng.integers(n_lines, size=n_lines), minlength=n_lines)
        draws[i] = _score(scorer, times @ counts_a) - _score(scorer, times @ counts_b)
    lead = score_a - score_b
    denied = int(np.sum(draws <= 0 if lead >= 0 else draws >= 0))
    low, high = np.quantile(draws, (0.025, 0.975)).tolist()
    return Bootstrap(score_a, score_b, lead, min(1.0, 2 * (denied + 1) / (n + 1)), (low, high))


def _score(scorer: SacreMetric, totals: Counts) -> float:
    return float(scorer._compute_score_from_stats(totals.tolist()).score)


@dataclass(frozen=True, slots=True)
class Bucket:
    """The scores of all sources of ``low`` to ``high`` words, both included."""

    low: int
    high: int | None
    """None: no upper limit."""
    n: int
    exact_match: float
    bleu: float


def by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    edges: Sequence[int] = (5, 10, 15, 20, 30, 40),
) -> list[Bucket]:
    """One bucket up to each edge (included) and one beyond the last; empty ones are left out.

    Lengths are counted in the words of ``regard.text.words``, so that systems with different
    tokenizers can be laid side by side.
    """
    check_parallel(sources=sources, hypotheses=hypotheses, references=references)
    if list(edges) != sorted(set(edges)):
        raise ConfigError(f"edges must rise, got {tuple(edges)}; sort them and drop repeats")
    members: dict[int, list[int]] = {}
    for i, source in enumerate(sources):
        members.setdefault(bisect_left(edges, len(split(source))), []).append(i)
    # effective_order: a bucket of very short sentences has no 4-grams, and plain BLEU calls that 0.
    metric, buckets = BLEU(force=True, effective_order=True), []
    for b, lines in sorted(members.items()):
        written, right = [hypotheses[i] for i in lines], [references[i] for i in lines]
        low, high = edges[b - 1] + 1 if b else 0, edges[b] if b < len(edges) else None
        bleu = float(metric.corpus_score(written, [right]).score)
        buckets.append(Bucket(low, high, len(lines), exact_match(written, right), bleu))
    return buckets
