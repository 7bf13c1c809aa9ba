"""Scores of a run on a split or on files."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from regard.data.pairs import Pair
from regard.evaluation.by_length import by_length
from regard.evaluation.metrics import computed, exact_match, perplexity
from regard.runs.attention_scores import attention_scores
from regard.runs.data import Data
from regard.runs.evaluation import Evaluation
from regard.runs.kinds.translator import Run
from regard.runs.splits import split_of


def evaluate_split(run: Run, data: Data, split: str, *, beam: int | None = None) -> Evaluation:
    """Scores on a split of the data the run was trained with."""
    remedy = "; files of your own are scored with --source and --reference"
    pairs = split_of(data.splits, split, remedy=remedy)
    evaluation = evaluate_pairs(run, pairs, split=split, beam=beam)
    valid, test = (
        [pair for pair in some if run.fits(pair.source, pair.target)]
        for some in (data.splits["valid"], pairs)
    )
    evaluation.scores.update(attention_scores(run, valid, test))
    return evaluation


def evaluate_pairs(
    run: Run, pairs: Sequence[Pair], *, split: str, beam: int | None = None
) -> Evaluation:
    """Scores of the translations of any pairs, and of the model's probabilities for them.

    What is too long for the model counts as not translated; probabilities are those of the rest.
    """
    sources = [pair.source for pair in pairs]
    references = [pair.target for pair in pairs]
    short = [pair for pair in pairs if run.fits(pair.source, pair.target)]
    readable = [source if run.fits(source) else "" for source in sources]
    translations = run.translate(readable, beam=beam)
    scores = {
        "task": run.task,
        "split": split,
        "n": len(pairs),
        **computed(("exact_match", "bleu", "bleu_lc", "chrf"), translations, references),
        **_multi(pairs, translations),
        **(_likelihood(run, short) if short else {}),
        "by_length": [
            dataclasses.asdict(bucket) for bucket in by_length(sources, translations, references)
        ],
    }
    if len(short) < len(pairs):
        scores["too_long"] = len(pairs) - len(short)
    if tags := _by_tag(pairs, translations):
        scores["exact_match_by_tag"] = tags
    return Evaluation(scores, translations)


def _multi(pairs: Sequence[Pair], translations: Sequence[str]) -> dict[str, Any]:
    """BLEU with all the references of a source, each source once; nothing where all have one."""
    known: dict[str, list[str]] = {}
    written: dict[str, str] = {}
    for pair, translation in zip(pairs, translations, strict=True):
        references = known.setdefault(pair.source, [])
        if pair.target not in references:
            references.append(pair.target)
        written[pair.source] = translation
    if all(len(references) == 1 for references in known.values()):
        return {}
    scores = computed(("bleu",), list(written.values()), list(known.values()))
    return {
        "n_sources": len(known),
        "bleu_multi": scores["bleu"],
        "bleu_multi_signature": scores["bleu_signature"],
    }


def _by_tag(pairs: Sequence[Pair], translations: Sequence[str]) -> dict[str, dict[str, float]]:
    """Exact match of the pairs with each tag, and of those without any."""
    groups: dict[str, list[int]] = {}
    for i, pair in enumerate(pairs):
        for tag in pair.tags or {"untagged"}:
            groups.setdefault(tag, []).append(i)
    if set(groups) <= {"untagged"}:
        return {}
    return {
        tag: {
            "n": len(rows),
            "exact_match": exact_match(
                [translations[i] for i in rows], [pairs[i].target for i in rows]
            ),
        }
        for tag, rows in sorted(groups.items())
    }


def _likelihood(run: Run, pairs: Sequence[Pair]) -> dict[str, float]:
    """Perplexity and accuracy a token, the right words before it being given."""
    judged = run.token_scores([pair.source for pair in pairs], [pair.target for pair in pairs])
    n_tokens = sum(len(one.right) for one in judged)
    total = sum(float(one.log_probs.double().sum()) for one in judged)
    right = sum(int(one.right.sum()) for one in judged)
    return {"perplexity": perplexity(total, n_tokens), "accuracy": right / n_tokens}
