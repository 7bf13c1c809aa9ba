"""Every score that a model is judged by, in one registry: what it is, its unit and which way is up.

A metric is called with predictions and references of equal number, and returns one number for all
of them. The task supplies what the metric ``takes``: texts (a reference may be one string, or the
several strings that are right), labels, numbers, or links between words. A metric without a
function, such as a model's loss, is measured by the task itself; here are its unit and direction.

To add one::

    @metric("length_ratio", unit="ratio", better="higher")
    def length_ratio(predictions, references):
        return sum(map(len, predictions)) / sum(map(len, references))

BLEU and chrF are sacreBLEU's, over the whole corpus: their counts are summed over the sentences
before any ratio is taken, so they differ from a mean of sentence scores. A value without its
signature (tokenisation, case, smoothing, version) cannot be compared with anybody else's.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import ConfigError, DataError
from regard.core.registry import Registry

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacreMetric

Takes = Literal["texts", "labels", "ranked labels", "numbers", "links", "boxes"]
Several = Sequence[str | Sequence[str]]
"""References of texts: one string each, or all the strings that are right."""
Link = tuple[int, int]
Function = TypeVar("Function", bound=Callable[..., float])
_DIGITS = {"points": ".2f", "perplexity": ".3f"}  # by unit; other scores have four digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A score: how it is computed, counted and read."""

    name: str
    """Its key in every JSON."""
    title: str
    """Its name in tables and curves."""
    unit: str
    """``share`` 0 … 1, ``points`` 0 … 100, ``correlation`` −1 … 1, ``nats``, ``perplexity``, …"""
    better: Literal["higher", "lower"]
    takes: Takes = "texts"
    """What predictions and references are."""
    function: Callable[[Any, Any], float] | None = None
    signed: str | Callable[[Sequence[Any]], str] | None = None

    def __call__(self, predictions: Sequence[Any], references: Sequence[Any]) -> float:
        """The score of all predictions together."""
        if self.function is None:
            raise ConfigError(
                f"{self.name} is measured on the model, not computed from predictions; "
                "leave it to the task"
            )
        return float(self.function(predictions, references))

    def signature(self, references: Sequence[Any] = ("",)) -> str | None:
        """How the number was computed, for metrics that have variants."""
        return self.signed(references) if callable(self.signed) else self.signed

    def cost(self, value: float) -> float:
        """The value with the sign that makes lower better, for choosing the best of several."""
        return value if self.better == "lower" else -value


METRICS: Registry[Metric] = Registry("metric")


def metric(
    name: str,
    *,
    title: str | None = None,
    signature: str | Callable[[Sequence[Any]], str] | None = None,
    **about: Any,
) -> Callable[[Function], Function]:
    """Decorator that enters a function ``(predictions, references) -> float`` into ``METRICS``.

    ``about`` are its ``unit``, what is ``better`` and what it ``takes``, as ``Metric`` has them.
    """

    def enter(function: Function) -> Function:
        said = title or name.replace("_", " ")
        one = Metric(name=name, title=said, function=function, signed=signature, **about)
        METRICS.add(name, module=function.__module__)(one)
        return function

    return enter


def values(
    names: Iterable[str], predictions: Sequence[Any], references: Sequence[Any]
) -> dict[str, float]:
    """Each metric's value under its name, as a validation has it."""
    return {name: METRICS[name](predictions, references) for name in names}


def computed(
    names: Iterable[str], predictions: Sequence[Any], references: Sequence[Any]
) -> dict[str, Any]:
    """Each metric's value under its name and, where it has one, ``NAME_signature`` after it."""
    scores: dict[str, Any] = {}
    for name, value in values(names, predictions, references).items():
        scores[name] = value
        if (signature := METRICS[name].signature(references)) is not None:
            scores[f"{name}_signature"] = signature
    return scores


def check_metrics(names: Iterable[str], takes: Takes) -> None:
    """Refuse metrics that are unknown, or that cannot be computed from what a task supplies."""
    for name in names:
        one = METRICS[name]
        if one.function is None or one.takes != takes:
            able = [n for n, m in METRICS.items() if m.function is not None and m.takes == takes]
            raise ConfigError(
                f"{name} cannot be computed from {takes}; of {takes} there are {', '.join(able)}"
            )


def parts_of(scores: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Parts of a test set with scores of their own, as under ``accuracy_by_kind``, by name."""
    groups = [one for key, one in scores.items() if "_by_" in key]
    return {name: part for group in groups for name, part in group.items()}


def titles(scores: Mapping[str, Any]) -> dict[str, str]:
    """The metrics among the keys of an evaluation, with the names that tables give them."""
    return {name: METRICS[name].title for name in METRICS if name in scores}


def score_title(name: str) -> str:
    """What people call a score, a metric or not."""
    return METRICS[name].title if name in METRICS else name.replace("_", " ")


def score_text(name: str, value: float | None) -> str:
    """A score as people write it, a share in percent; numbers of things have no unit."""
    if value is None:
        return "–"
    unit = METRICS[name].unit if name in METRICS else ""
    if unit == "share":
        return f"{100 * value:.1f} %"
    counted_things = isinstance(value, int) and not unit
    return f"{value:,}" if counted_things else f"{value:{_DIGITS.get(unit, '.4g')}}"


def check_parallel(**texts: Sized) -> None:
    """Refuse lists that do not go together line by line, or that are empty."""
    counts = {name: len(lines) for name, lines in texts.items()}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{n} {name}" for name, n in counts.items())
        raise DataError(f"{' and '.join(counts)} must be equally many, got {found}; pair them up")
    if not any(counts.values()):
        raise DataError(f"nothing to score: no {' and no '.join(counts)}; give at least one line")


# Of texts


def sacre_metric(name: str) -> SacreMetric:
    """sacreBLEU's scorer of that name; imported late, for settings read this module too."""
    from sacrebleu import BLEU, CHRF

    if name in ("bleu", "bleu_lc"):
        # force: no warning when many lines end in " ."; whether a corpus is tokenised is the
        # user's choice, and a report in the middle of a training is no place to argue about it.
        return BLEU(lowercase=name == "bleu_lc", force=True)
    if name == "chrf":
        return CHRF()
    raise ConfigError(f"{METRICS[name].name} is none of sacreBLEU's: bleu, chrf")


def _corpus_score(scorer: SacreMetric, hypotheses: Sequence[str], references: Several) -> float:
    check_parallel(hypotheses=hypotheses, references=references)
    rows = ([one] if isinstance(one, str) else one for one in references)
    # Where a line has fewer references than others, None; sacreBLEU's types do not know of that.
    columns: list[Any] = list(map(list, zip_longest(*rows)))
    return float(scorer.corpus_score(hypotheses, columns).score)


def _signature(name: str, references: Several) -> str:
    scorer = sacre_metric(name)
    counts = {1 if isinstance(one, str) else len(one) for one in references}
    _corpus_score(scorer, [""] * len(counts), [[""] * n for n in counts])  # only these tell
    return str(scorer.get_signature())


def _sacre(name: str, title: str) -> Callable[[Function], Function]:
    signature = partial(_signature, name)
    return metric(name, title=title, unit="points", better="higher", signature=signature)


@_sacre("bleu", "BLEU")
def bleu(hypotheses: Sequence[str], references: Several) -> float:
    """Corpus BLEU (Papineni et al. 2002) with sacreBLEU's defaults: 13a tokens, up to 4-grams."""
    return _corpus_score(sacre_metric("bleu"), hypotheses, references)


@_sacre("bleu_lc", "lower-cased BLEU")
def bleu_lc(hypotheses: Sequence[str], references: Several) -> float:
    """Corpus BLEU where the case of letters does not count."""
    return _corpus_score(sacre_metric("bleu_lc"), hypotheses, references)


@_sacre("chrf", "chrF")
def chrf(hypotheses: Sequence[str], references: Several) -> float:
    """Corpus chrF (Popović 2015): F2 of character n-grams up to 6."""
    return _corpus_score(sacre_metric("chrf"), hypotheses, references)


ROUGE_KINDS = {"rouge1": "rouge1", "rouge2": "rouge2", "rouge_l": "rougeL"}
"""Our names of what the package rouge-score computes."""


def rouge_each(name: str, predictions: Sequence[str], references: Several) -> list[float]:
    """F1 of each prediction, 0 … 100, with the reference that it is nearest to."""
    from rouge_score.rouge_scorer import RougeScorer

    check_parallel(predictions=predictions, references=references)
    kind = ROUGE_KINDS[name]
    scorer = RougeScorer([kind], use_stemmer=True)
    rows = ([one] if isinstance(one, str) else one for one in references)
    found = (scorer.score_multi(row, said) for said, row in zip(predictions, rows, strict=True))
    return [100 * one[kind].fmeasure for one in found]


def _rouge_signature(references: Several) -> str:
    from importlib.metadata import version

    counts = {1 if isinstance(one, str) else len(one) for one in references}
    refs = "var" if len(counts) > 1 else str(*counts)
    how = "F1|stemmer:porter|best of references|mean of texts"
    return f"nrefs:{refs}|{how}|rouge-score:{version('rouge-score')}"


def _rouge(name: str, title: str) -> Callable[[Function], Function]:
    return metric(name, title=title, unit="points", better="higher", signature=_rouge_signature)


@_rouge("rouge1", "ROUGE-1")
def rouge1(predictions: Sequence[str], references: Several) -> float:
    """Mean F1 of the words that summaries share with their references (Lin 2004)."""
    return sum(rouge_each("rouge1", predictions, references)) / len(references)


@_rouge("rouge2", "ROUGE-2")
def rouge2(predictions: Sequence[str], references: Several) -> float:
    """The same of pairs of words that follow each other."""
    return sum(rouge_each("rouge2", predictions, references)) / len(references)


@_rouge("rouge_l", "ROUGE-L")
def rouge_l(predictions: Sequence[str], references: Several) -> float:
    """The same of the longest common subsequence of words, the whole text being one sentence."""
    return sum(rouge_each("rouge_l", predictions, references)) / len(references)


@metric(
    "gleu",
    title="GLEU",
    unit="share",
    better="higher",
    signature="mean of sentences|n:1-4|min(precision, recall)|tok:13a|case:mixed",
)
def gleu(hypotheses: Sequence[str], references: Several) -> float:
    """Mean GLEU of the sentences (Wu et al. 2016): the smaller of precision and recall of all their
    1- to 4-grams together, of the reference that is nearest where there are several.

    >>> round(gleu(["the cat sat"], ["the cat sat down"]), 4)  # 6 n-grams, all of them of the 10
    0.6
    """
    check_parallel(hypotheses=hypotheses, references=references)
    rows = ([one] if isinstance(one, str) else one for one in references)
    best = (max(_gleu(h, r) for r in row) for h, row in zip(hypotheses, rows, strict=True))
    return sum(best) / len(references)


def _gleu(hypothesis: str, reference: str) -> float:
    ours, theirs = _ngrams(hypothesis), _ngrams(reference)
    shared = sum((ours & theirs).values())
    most = max(ours.total(), theirs.total())
    return shared / most if most else 1.0


@lru_cache(maxsize=2**12)
def _ngrams(text: str, longest: int = 4) -> Counter[tuple[str, ...]]:
    """How often each sequence of up to so many words occurs."""
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    words = Tokenizer13a()(text).split()
    starts = (words[i:] for i in range(len(words)))
    return Counter(
        tuple(rest[:n]) for rest in starts for n in range(1, min(longest, len(rest)) + 1)
    )


@metric("top5", title="top-5", unit="share", better="higher", takes="ranked labels")
def top5(predicted: Sequence[Sequence[Any]], right: Sequence[Any]) -> float:
    """Share of examples whose right label is one of the first five.

    >>> top5([["a", "b"], ["b", "c"]], ["b", "a"])
    0.5
    """
    hits = sum(one in ranked[:5] for ranked, one in zip(predicted, right, strict=True))
    return hits / len(right)


@metric("exact_match", unit="share", better="higher")
def exact_match(predictions: Sequence[str], references: Several) -> float:
    """Share of predictions that equal their reference, however the words are spaced.

    Of questions with several right answers, the share that is one of them as SQuAD compares:
    without case, punctuation and articles (Rajpurkar et al. 2016).

    >>> exact_match(["je  suis étudiant ", "john aime"], ["je suis étudiant", "john aime mary"])
    0.5
    >>> exact_match(["The cat!", "dog"], [["a cat"], ["dogs", "a hound"]])
    0.5
    """
    check_parallel(predictions=predictions, references=references)
    return sum(map(_equal, predictions, references)) / len(references)


@metric("f1", title="F1", unit="share", better="higher")
def f1(predictions: Sequence[str], references: Several) -> float:
    """Mean F1 of the words that an answer shares with the right one that it is nearest to (SQuAD).

    >>> round(f1(["the old cat"], [["a dog", "old grey cat"]]), 4)  # 2 of 2 words, 2 of 3
    0.8
    """
    check_parallel(predictions=predictions, references=references)
    rows = ([one] if isinstance(one, str) else one for one in references)
    best = (max(_overlap(p, r) for r in row) for p, row in zip(predictions, rows, strict=True))
    return sum(best) / len(references)


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised_answer(answer: str) -> str:
    """Small letters, without punctuation, articles and superfluous white space.

    >>> normalised_answer(" The  U.S.-led army, an ally")
    'usled army ally'
    """
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_NO_PUNCTUATION)).split())


def _equal(prediction: str, reference: str | Sequence[str]) -> bool:
    if isinstance(reference, str):
        return prediction.split() == reference.split()
    return normalised_answer(prediction) in map(normalised_answer, reference)


def _overlap(given: str, right: str) -> float:
    """F1 of the words of two answers; where one of them has no words, 1 if neither has any."""
    ours, theirs = normalised_answer(given).split(), normalised_answer(right).split()
    if not ours or not theirs:
        return float(ours == theirs)
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs))


# Of labels and numbers


@metric("accuracy", unit="share", better="higher", takes="labels")
def accuracy(predicted: Sequence[Hashable], right: Sequence[Hashable]) -> float:
    """Share of labels that agree.

    >>> accuracy(["a", "b", "a", "a"], ["a", "b", "b", "b"])
    0.5
    """
    check_parallel(predicted=predicted, right=right)
    return sum(p == r for p, r in zip(predicted, right, strict=True)) / len(right)


@metric("macro_f1", title="macro F1", unit="share", better="higher", takes="labels")
def macro_f1(predicted: Sequence[Hashable], right: Sequence[Hashable]) -> float:
    """The mean F1 of the labels that were given or should have been, each counting alike.

    >>> round(macro_f1(["a", "b", "a", "a"], ["a", "b", "b", "b"]), 4)  # a: 0.5, b: 0.5
    0.5
    """
    check_parallel(predicted=predicted, right=right)
    hits = Counter(p for p, r in zip(predicted, right, strict=True) if p == r)
    given, wanted = Counter(predicted), Counter(right)
    labels = dict.fromkeys([*right, *predicted])
    return sum(2 * hits[one] / (given[one] + wanted[one]) for one in labels) / len(labels)


@metric("spearman", title="Spearman", unit="correlation", better="higher", takes="numbers")
def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Correlation of the ranks, equals sharing theirs.

    >>> spearman([1, 2, 3], [10, 100, 1000])
    1.0
    """
    x, y = _numbers(first, second)
    return pearson(_ranks(x).tolist(), _ranks(y).tolist())


@metric("pearson", title="Pearson", unit="correlation", better="higher", takes="numbers")
def pearson(first: Sequence[float], second: Sequence[float]) -> float:
    """Correlation, −1 to 1; nan where all numbers of a list are the same.

    >>> round(pearson([1, 2, 3], [2, 4, 7]), 4)
    0.9934
    """
    x, y = _numbers(first, second)
    x, y = x - x.mean(), y - y.mean()
    norm = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / norm if norm else float("nan")


def _ranks(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """From 1; equals get the mean of the ranks that they take together."""
    _, which, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[which]


def _numbers(
    first: Sequence[float], second: Sequence[float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if len(first) != len(second):
        raise DataError(f"{len(first)} numbers cannot be compared with {len(second)}")
    if len(first) < 2:
        raise DataError("a correlation needs at least two examples")
    return np.asarray(first, np.float64), np.asarray(second, np.float64)


# Of links between words, and of the model itself


@metric("aer", title="AER", unit="share", better="lower", takes="links")
def alignment_error_rate(
    predicted: Sequence[Collection[Link]],
    sure: Sequence[Collection[Link]],
    possible: Sequence[Collection[Link]] | None = None,
) -> float:
    """1 - (|A∩S| + |A∩P|) / (|A| + |S|), over the whole corpus (Och & Ney 2003); 0 is perfect.

    One collection of links (source word, target word) a sentence. Whatever is sure is possible
    too; without ``possible``, nothing else is, and the rate is 1 - F1.
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


def perplexity(total_log_prob: float, n_tokens: int) -> float:
    """exp of minus the mean natural log-probability: among how many tokens a model hesitates.

    >>> round(perplexity(4 * math.log(1 / 8), 4), 9)
    8.0
    """
    if n_tokens < 1:
        raise DataError(f"perplexity needs at least one token, got {n_tokens}; score some text")
    try:
        return math.exp(-total_log_prob / n_tokens)
    except OverflowError:
        return math.inf


_MEASURED: tuple[tuple[str, str, str, Literal["higher", "lower"]], ...] = (
    ("loss", "loss", "nats", "lower"),
    ("perplexity", "perplexity", "perplexity", "lower"),
    ("log_perplexity", "log-perplexity", "nats", "lower"),
    ("fact_attention", "attention on facts", "share", "higher"),
    ("word_perplexity", "perplexity a word", "perplexity", "lower"),
    ("antecedent_accuracy", "antecedent accuracy", "share", "higher"),
    ("true_captions", "true of the picture", "share", "higher"),
    ("pointing_accuracy", "pointing accuracy", "share", "higher"),
    ("mass_inside", "mass inside", "share", "higher"),
    ("rank_correlation", "rank correlation", "correlation", "higher"),
)
for _name, _title, _unit, _better in _MEASURED:
    METRICS.add(_name)(Metric(name=_name, title=_title, unit=_unit, better=_better))
