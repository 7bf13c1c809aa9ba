"""How near a system's texts come to the references: BLEU, chrF and exact match.

BLEU and chrF are sacreBLEU's, over the whole corpus: their counts are summed over the sentences
before any ratio is taken, so they differ from a mean of sentence scores. A value without its
signature (tokenisation, case, smoothing, version) cannot be compared with anybody else's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sacrebleu import BLEU, CHRF
from sacrebleu.metrics.base import Metric

from regard.core.errors import DataError
from regard.core.registry import Registry

METRICS: Registry[Callable[[bool], Metric]] = Registry("metric")
"""Name -> function from ``lowercase`` to a sacreBLEU metric."""


@dataclass(frozen=True, slots=True)
class Score:
    """A corpus score, 0 … 100, and the signature that says how it was computed."""

    value: float
    signature: str


@METRICS.add("bleu")
def _bleu(lowercase: bool) -> Metric:
    # force: no warning when many lines end in " ."; whether a corpus is tokenised is the user's
    # choice, and a report in the middle of a training is no place to argue about it.
    return BLEU(lowercase=lowercase, force=True)


@METRICS.add("chrf")
def _chrf(lowercase: bool) -> Metric:
    return CHRF(lowercase=lowercase)


def bleu(hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> Score:
    """Corpus BLEU (Papineni et al. 2002) with sacreBLEU's defaults: 13a tokens, up to 4-grams."""
    return _scored("bleu", hypotheses, references, lowercase)


def chrf(hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> Score:
    """Corpus chrF (Popović 2015): F2 of character n-grams up to 6."""
    return _scored("chrf", hypotheses, references, lowercase)


def bleu_multi(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
    """Corpus BLEU where every hypothesis may have several references, at least one."""
    check_parallel(hypotheses=hypotheses, references=references)
    most = max(map(len, references))
    columns = [[some[i] if i < len(some) else None for some in references] for i in range(most)]
    metric = METRICS["bleu"](False)
    # None says that there is no such reference; sacreBLEU's types do not know that it may.
    value = metric.corpus_score(hypotheses, columns).score  # type: ignore[arg-type]
    return Score(float(value), str(metric.get_signature()))


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Share (0 … 1) of hypotheses that equal their reference, however the words are spaced.

    >>> exact_match(["je  suis étudiant ", "john aime"], ["je suis étudiant", "john aime mary"])
    0.5
    """
    check_parallel(hypotheses=hypotheses, references=references)
    pairs = zip(hypotheses, references, strict=True)
    return sum(h.split() == r.split() for h, r in pairs) / len(references)


def check_parallel(**texts: Sequence[object]) -> None:
    """Refuse lists that do not go together line by line, or that are empty."""
    counts = {name: len(lines) for name, lines in texts.items()}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{n} {name}" for name, n in counts.items())
        raise DataError(f"{' and '.join(counts)} must be equally many, got {found}; pair them up")
    if not any(counts.values()):
        raise DataError(f"nothing to score: no {' and no '.join(counts)}; give at least one line")


def _scored(
    name: str, hypotheses: Sequence[str], references: Sequence[str], lowercase: bool
) -> Score:
    check_parallel(hypotheses=hypotheses, references=references)
    metric = METRICS[name](lowercase)
    value = metric.corpus_score(hypotheses, [references]).score
    return Score(float(value), str(metric.get_signature()))
