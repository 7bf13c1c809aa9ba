"""From the trainings of every system to the rows of the lecture's table."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from regard.evaluation.bootstrap import paired_bootstrap
from regard.evaluation.by_length import by_length
from regard.runs.comparison.entrants import Entry
from regard.runs.comparison.trainings import Finished, Pairs

SPLIT = "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A system: means over the seeds, deviations between them. Of a failed one, only why."""

    system: str
    error: str | None = None
    parameters: int | None = None
    steps: float | None = None
    tokens: float | None = None
    training_flops: float | None = None
    """Of one training; those of the grid come on top, once."""
    grid_flops: float | None = None
    seconds: float | None = None
    grid_seconds: float | None = None
    lr: float | None = None
    lr_grid: list[dict[str, float | None]] = field(default_factory=list)
    bleu: float | None = None
    bleu_deviation: float | None = None
    chrf: float | None = None
    chrf_deviation: float | None = None
    exact_match: float | None = None
    exact_match_deviation: float | None = None
    p_value: float | None = None
    """Against the best; None for the best itself. See ``p_value``."""
    aer: float | None = None
    """Of the attention that was chosen on ``valid``; None where there is nothing to align."""
    aer_deviation: float | None = None
    by_length: list[dict[str, float | None]] = field(default_factory=list)
    curve: list[dict[str, float]] = field(default_factory=list)
    """BLEU at each validation, against the FLOPs so far."""
    seeds: list[dict[str, float]] = field(default_factory=list)
    """Each seed by itself."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The table, and what it rests on."""

    data: str
    budget: str
    seeds: tuple[int, ...]
    n_sentences: int
    bleu_signature: str
    chrf_signature: str
    best: str
    """The system with the highest BLEU."""
    rows: tuple[Row, ...]

    def as_json(self) -> dict[str, Any]:
        """What ``regard compare --json`` prints."""
        return {
            "data": self.data,
            "split": SPLIT,
            "n": self.n_sentences,
            "budget": self.budget,
            "seeds": list(self.seeds),
            "best": self.best,
            "bleu_signature": self.bleu_signature,
            "chrf_signature": self.chrf_signature,
            "systems": [asdict(row) for row in self.rows],
        }


def row(name: str, entry: Entry, seeds: Sequence[int], pairs: Pairs) -> Row:
    """One finished system; its significance needs the others."""
    runs = entry.runs
    measured = [run.facts["measured"] for run in runs]
    scores = [run.facts["scores"][SPLIT] for run in runs]

    def of(facts: Sequence[Mapping[str, float]], key: str) -> float:
        return statistics.fmean(one[key] for one in facts)

    return Row(
        system=name,
        parameters=measured[0]["parameters"],
        steps=of(measured, "steps"),
        tokens=of(measured, "tokens"),
        training_flops=of(measured, "flops"),
        grid_flops=sum(trial.flops for trial in entry.trials),
        seconds=of(measured, "seconds"),
        grid_seconds=sum(trial.seconds for trial in entry.trials),
        lr=entry.lr,
        lr_grid=[{"lr": trial.lr, "loss": trial.loss} for trial in entry.trials],
        **_spread("bleu", scores),
        **_spread("chrf", scores),
        **_spread("exact_match", scores),
        **_spread("aer", scores),
        by_length=_by_length(runs, pairs),
        curve=_curve(runs),
        seeds=[_seed(*one) for one in zip(seeds, scores, measured, strict=True)],
    )


def compared(rows: Sequence[Row], entries: Mapping[str, Entry], pairs: Pairs) -> list[Row]:
    """The rows with their significance against the best of them."""
    first = best(rows)
    references = [pair.target for pair in pairs[SPLIT]]
    return [
        one
        if one.error is not None or one.system == first
        else replace(
            one, p_value=p_value(entries[first].runs, entries[one.system].runs, references)
        )
        for one in rows
    ]


def best(rows: Sequence[Row]) -> str:
    """The system with the highest BLEU; of equals, the one named first."""
    return max((one for one in rows if one.bleu is not None), key=lambda one: one.bleu or 0).system


def p_value(
    better: Sequence[Finished], other: Sequence[Finished], references: Sequence[str]
) -> float:
    """Paired bootstrap of BLEU, seed by seed; the largest p of all seeds.

    With a seed for which the better system does not lead, p is 1. So a small one says: better with
    every seed, and not by the luck of these sentences. One seed's outputs alone could not say the
    first; all seeds' outputs in one heap would count each sentence several times, and pretend to
    more evidence than there is.
    """
    found = [
        paired_bootstrap(a.translations[SPLIT], b.translations[SPLIT], references)
        for a, b in zip(better, other, strict=True)
    ]
    return max(one.p_value if one.difference > 0 else 1.0 for one in found)


def _spread(key: str, scores: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Mean and deviation over the seeds; nothing where no seed has the score."""
    values = [one[key] for one in scores if key in one]
    return {
        key: statistics.fmean(values) if values else None,
        f"{key}_deviation": statistics.stdev(values) if len(values) > 1 else None,
    }


def _by_length(runs: Sequence[Finished], pairs: Pairs) -> list[dict[str, float | None]]:
    """BLEU by source length, the mean over the seeds; every split that was translated counts."""
    everything = [pair for some in pairs.values() for pair in some]
    sources, references = zip(*((pair.source, pair.target) for pair in everything), strict=True)
    found = [
        by_length(sources, [text for name in pairs for text in run.translations[name]], references)
        for run in runs
    ]
    return [
        {
            "low": buckets[0].low,
            "high": buckets[0].high,
            "n": buckets[0].n,
            "bleu": statistics.fmean(bucket.bleu for bucket in buckets),
            "exact_match": statistics.fmean(bucket.exact_match for bucket in buckets),
        }
        for buckets in zip(*found, strict=True)
    ]


def _curve(runs: Sequence[Finished]) -> list[dict[str, float]]:
    """The mean over the seeds at each validation that all of them had."""
    return [
        {key: statistics.fmean(line[key] for line in lines) for key in ("flops", "bleu")}
        for lines in zip(*(run.metrics for run in runs), strict=False)
    ]


def _seed(
    seed: int, scores: Mapping[str, float], measured: Mapping[str, float]
) -> dict[str, float]:
    kept = {key: scores[key] for key in ("bleu", "chrf", "exact_match", "aer") if key in scores}
    return {"seed": seed, **kept, "flops": measured["flops"], "seconds": measured["seconds"]}
