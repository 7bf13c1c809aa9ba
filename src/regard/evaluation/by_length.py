"""Scores by the length of the source, to see where a system begins to fail."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu import BLEU

from regard.core.errors import ConfigError
from regard.evaluation.metrics import check_parallel, exact_match
from regard.text.words import split


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
    return [
        _bucket(b, edges, [hypotheses[i] for i in lines], [references[i] for i in lines])
        for b, lines in sorted(members.items())
    ]


def _bucket(
    b: int, edges: Sequence[int], hypotheses: Sequence[str], references: Sequence[str]
) -> Bucket:
    # effective_order: a bucket of very short sentences has no 4-grams, and plain BLEU calls that 0.
    metric = BLEU(force=True, effective_order=True)
    return Bucket(
        low=edges[b - 1] + 1 if b else 0,
        high=edges[b] if b < len(edges) else None,
        n=len(references),
        exact_match=exact_match(hypotheses, references),
        bleu=float(metric.corpus_score(hypotheses, [references]).score),
    )
