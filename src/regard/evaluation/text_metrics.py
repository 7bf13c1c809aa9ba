"""Scores of texts: BLEU and chrF, ROUGE, GLEU, and how SQuAD compares answers.

BLEU and chrF are sacreBLEU's, over the whole corpus: their counts are summed over the sentences
before any ratio is taken, so they differ from a mean of sentence scores. A value without its
signature (tokenisation, case, smoothing, version) cannot be compared with anybody else's.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from regard.core.errors import ConfigError
from regard.evaluation.metrics import METRICS, Function, check_parallel, metric

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacreMetric

Several = Sequence[str | Sequence[str]]
"""References of texts: one string each, or all the strings that are right."""


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
