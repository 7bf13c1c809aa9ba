"""Small Transformers on toy tasks, and scores by the length of what they read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from regard.data.pairs import Pair
from regard.lab.translating import Translator, translator
from regard.runs.kinds.translator import Run

ByLength = dict[int, float]
"""Words of the source -> mean score of the sources that have so many."""


def toy_translator(task: str, *overrides: str, steps: int, seed: int) -> Translator:
    """The smallest Transformer that learns a toy task in seconds, with ``key=value`` overrides."""
    small = ("d_model=64", "d_ff=128", "n_layers=1", "n_heads=4", "n_train=4000")
    quick = ("lr=5e-3", "warmup_steps=30", "batch_tokens=256", "label_smoothing=0.0")
    return translator(task, *small, *quick, f"max_steps={steps}", f"seed={seed}", *overrides)


def exact_by_length(pairs: Sequence[Pair], translations: Sequence[str]) -> ByLength:
    """Share of translations that equal their target word by word."""
    right = [
        float(text.split() == pair.target.split())
        for pair, text in zip(pairs, translations, strict=True)
    ]
    return _means(pairs, right)


def accuracy_by_length(run: Run, pairs: Sequence[Pair]) -> ByLength:
    """Share of right tokens where the right ones before are given: long texts risk no more.

    An exact match falls with length even where each token is as easy as any other; this does not.
    """
    judged = run.token_scores([pair.source for pair in pairs], [pair.target for pair in pairs])
    return _means(pairs, [float(one.right.float().mean()) for one in judged])


def _means(pairs: Sequence[Pair], scores: Sequence[float]) -> ByLength:
    groups = defaultdict(list)
    for pair, score in zip(pairs, scores, strict=True):
        groups[len(pair.source.split())].append(score)
    return {length: fmean(groups[length]) for length in sorted(groups)}
