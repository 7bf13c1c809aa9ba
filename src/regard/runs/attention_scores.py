"""Does a model's attention find what the data knows: alignments, and what a pronoun stands for?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.core.errors import DataError
from regard.data.batch import Batch
from regard.data.examples import encode_pairs
from regard.data.pair_batches import ordered_batches
from regard.data.pairs import Pair
from regard.evaluation.attention import (
    HeadChoice,
    Watched,
    chosen_alignment,
    chosen_antecedents,
    words_matrix,
)
from regard.inspection.capture import watch
from regard.runs.kinds.translator import Run

Words = list[int | None]
BATCH_TOKENS = 4096
MOST = 500
"""Sentences of a set that are watched: enough to tell heads apart, and quick."""


def attention_scores(
    run: Run, valid: Sequence[Pair], test: Sequence[Pair]
) -> dict[str, float | str]:
    """Alignment error rate and antecedent accuracy, each with its head and its baseline.

    The head, or the mean of a layer, is chosen on ``valid`` and scored on ``test``; what the data
    or the model has nothing of is left out.
    """
    scores: dict[str, float | str] = {}
    if (choice := _alignment(run, valid, test)) is not None:
        scores |= _described("aer", choice)
    if (choice := _antecedents(run, valid, test)) is not None:
        scores |= _described("antecedent_accuracy", choice)
    return scores


def _described(name: str, choice: HeadChoice) -> dict[str, float | str]:
    return {name: choice.test, f"{name}_by": str(choice.label), f"{name}_shuffled": choice.baseline}


def _alignment(run: Run, valid: Sequence[Pair], test: Sequence[Pair]) -> HeadChoice | None:
    parts = [[pair for pair in pairs if pair.alignment][:MOST] for pairs in (valid, test)]
    if not all(parts):
        return None
    watched = [
        watched_words(run, pairs, "decoder.cross", [pair.alignment or () for pair in pairs])
        for pairs in parts
    ]
    return chosen_alignment(*watched) if watched[0] and watched[0][0].weights else None


def _antecedents(run: Run, valid: Sequence[Pair], test: Sequence[Pair]) -> HeadChoice | None:
    parts = [[pair for pair in pairs if pair.antecedents][:MOST] for pairs in (valid, test)]
    if not all(parts):
        return None
    watched = [
        watched_words(run, pairs, "encoder.self", [pair.antecedents or () for pair in pairs])
        for pairs in parts
    ]
    return chosen_antecedents(*watched) if watched[0] and watched[0][0].weights else None


def watched_words(
    run: Run, pairs: Sequence[Pair], name: str, links: Sequence[Sequence[tuple[int, int]]]
) -> list[Watched]:
    """Each pair's word-by-word weights of every head and of every layer's mean."""
    tokenizers = run.tokenizers
    examples = encode_pairs(pairs, tokenizers.source, tokenizers.target)
    results: dict[int, Watched] = {}
    for batch in ordered_batches(examples, BATCH_TOKENS):
        layers = _layers(run, batch, name)
        for row, number in enumerate(batch.numbers):
            asks, seen = _words(run, pairs[number], name)
            weights: dict[Any, NDArray[np.float64]] = {}
            for layer, heads in layers.items():
                inside = heads[row, :, : len(asks), : len(seen)]  # (H, T, S)
                matrix = words_matrix(inside, seen, asks)
                label = f"{name} layer {layer}"
                weights |= {f"{label} head {h}": one for h, one in enumerate(matrix)}
                weights[f"{label} mean"] = matrix.mean(axis=0)
            results[number] = Watched(weights, tuple(links[number]))
    return [results[number] for number in range(len(pairs))]


def _layers(run: Run, batch: Batch, name: str) -> dict[int, NDArray[np.float32]]:
    """Layer -> weights (B, H, T, S) of one teacher-forced pass."""
    batch = batch.to(run.device)
    with torch.no_grad(), watch(run.model) as views:
        run.model(batch.source, batch.target_in)
        return {
            layer: view.weights().float().cpu().numpy()
            for (place, layer), view in views.items()
            if place == name
        }


def _words(run: Run, pair: Pair, name: str) -> tuple[Words, Words]:
    """Whose word each row and each column is. A decoder's row t *writes* token t of the target."""
    source: Words = [*run.tokenizers.source.word_ids(pair.source), None]  # the end token is none
    if name == "encoder.self":
        return source, source
    if name == "decoder.cross":
        return [*run.tokenizers.target.word_ids(pair.target), None], source
    raise DataError(f"no words are known for the attention {name!r}")
