"""Systems side by side: is one really better, and at which lengths does it begin to fail?

Paired bootstrap (Koehn 2004): draw as many sentences as there are, with replacement, score both
systems on the same draw, and repeat. Corpus scores are functions of sums of counts a sentence
(n-grams found, n-grams written, lengths), and the others are means of sentences, so each draw only
adds up rows of numbers; no text is read twice.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sacrebleu import BLEU
from sacrebleu.metrics.base import Metric as SacreMetric

from regard.core.errors import ConfigError
from regard.evaluation.metrics import METRICS, check_parallel
from regard.evaluation.text_metrics import exact_match, sacre_metric
from regard.text.words import split

SACRE = ("bleu", "bleu_lc", "chrf")
"""Of the whole corpus; other metrics are means of texts."""
Counts = NDArray[np.number]
"""(N, K): what a score is made of, a row a sentence."""


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Two systems on the same references; scores are on the whole set, in the metric's unit."""

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
    """Compare two systems' outputs by a ``metric`` of texts over ``n`` draws.

    Koehn counts the draws in which the leader does not win. We double that share, since who leads
    was read off the same sentences; then p < 0.05 and an interval without 0 say the same. The one
    added to both counts keeps p above 0, which no finite number of draws could show.
    """
    check_parallel(a=a, b=b, references=references)
    if n < 1:
        raise ConfigError(f"a bootstrap needs at least one draw, got n={n}; 1000 is usual")
    count, score = _corpus_counts(metric) if metric in SACRE else _mean_counts(metric)
    counts_a, counts_b = (count(texts, references) for texts in (a, b))
    score_a, score_b = (score(counts.sum(axis=0)) for counts in (counts_a, counts_b))
    rng, n_lines, draws = np.random.default_rng(seed), len(references), np.empty(n)
    for i in range(n):
        times = np.bincount(rng.integers(n_lines, size=n_lines), minlength=n_lines)
        draws[i] = score(times @ counts_a) - score(times @ counts_b)
    lead = score_a - score_b
    denied = int(np.sum(draws <= 0 if lead >= 0 else draws >= 0))
    low, high = np.quantile(draws, (0.025, 0.975)).tolist()
    return Bootstrap(score_a, score_b, lead, min(1.0, 2 * (denied + 1) / (n + 1)), (low, high))


Count = Callable[[Sequence[str], Sequence[str]], Counts]
Score = Callable[[Counts], float]
"""Of the sums (K,) of counts."""


def _corpus_counts(metric: str) -> tuple[Count, Score]:
    """sacreBLEU's own significance tests use these methods; it has no public door to them."""
    scorer: SacreMetric = sacre_metric(metric)

    def count(texts: Sequence[str], references: Sequence[str]) -> Counts:
        return np.array(scorer._extract_corpus_statistics(texts, [references]), dtype=np.int64)

    return count, lambda sums: float(scorer._compute_score_from_stats(sums.tolist()).score)


def _mean_counts(name: str) -> tuple[Count, Score]:
    """The sum of what single texts score, and their number."""
    metric = METRICS[name]

    def count(texts: Sequence[str], references: Sequence[str]) -> Counts:
        each = [metric([said], [right]) for said, right in zip(texts, references, strict=True)]
        if not math.isclose(float(np.mean(each)), metric(texts, references), abs_tol=1e-9):
            raise ConfigError(f"{name} is not a mean of texts: draws of them cannot be scored")
        return np.stack([np.array(each), np.ones(len(each))], axis=1)

    return count, lambda sums: float(sums[0] / sums[1])


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
