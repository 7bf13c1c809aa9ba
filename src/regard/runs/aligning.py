"""Does a run's cross-attention find the words that people aligned?

How alignments are extracted: the model is given both sentences (the target is forced on it), and
each target word is linked to the source word with the most weight. Weights between tokens become
weights between the words of the file, which keep its own tokenisation: a token belongs to the word
in which its first character lies. Sentences are shown to the model as it knows text, punctuation
joined to words again.

A decoder looks twice with regard to a word: in the row that writes it, and one later, in the row
that reads it. Every head, the mean of every layer and the mean of all are candidates in both; one
is chosen on the first sentences and scored on the others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import DataError
from regard.data.alignments import Aligned
from regard.evaluation.attention import Watched, chosen_alignment, words_matrix
from regard.runs.kinds.translator import Run
from regard.text import words
from regard.text.tokenizer import Tokenizer

Matrix = NDArray[np.float64]

CHOOSING = 100
"""Sentences on which a head is chosen, or half of them where there are few."""
CROSS = "decoder.cross"
MOMENTS = {"as it is written": slice(None, -1), "as it is read": slice(1, None)}
"""Rows of a target's tokens: row t has read t tokens and writes one more, the last one the end."""


def alignment_scores(run: Run, sentences: Sequence[Aligned]) -> dict[str, Any]:
    """Alignment error rate (Och & Ney 2003), by which head, and what chance would give."""
    short = [one for one in sentences if run.fits(words.join(one.source), words.join(one.target))]
    n_choosing = min(CHOOSING, len(short) // 2)
    if not n_choosing:
        raise DataError(
            f"{len(short)} aligned sentences that the model can read are too few: a head is chosen "
            "on some and scored on others"
        )
    watched = [watched_aligned(run, one) for one in short]
    possible = [one.possible for one in short]
    choice = chosen_alignment(
        watched[:n_choosing],
        watched[n_choosing:],
        possible=(possible[:n_choosing], possible[n_choosing:]),
    )
    scores = {
        "n": len(short) - n_choosing,
        "aer": choice.test,
        "aer_by": str(choice.label),
        "aer_shuffled": choice.baseline,
        "chosen_on": n_choosing,
        "chosen_on_aer": choice.valid,
    }
    if len(short) < len(sentences):
        scores["too_long"] = len(sentences) - len(short)
    return scores


def watched_aligned(run: Run, one: Aligned) -> Watched:
    """A sentence's weights between the words of the file, by every candidate."""
    source, target = words.join(one.source), words.join(one.target)
    layers = run.explain(source, target).attentions.get(CROSS, ())  # each (H, T, S)
    if not layers:
        raise DataError(f"a {run.recipe.model.preset} has no cross-attention to align words with")
    seen = [*word_ids(run.tokenizers.source, source, one.source), None]  # the end token is no word
    asking = word_ids(run.tokenizers.target, target, one.target)
    weights: dict[Hashable, Matrix] = {}
    for moment, rows in MOMENTS.items():
        matrices = [words_matrix(heads[:, rows], seen, asking) for heads in layers]
        for layer, heads in enumerate(matrices):
            label = f"{CROSS} layer {layer}"
            weights |= {f"{label} head {h}, {moment}": head for h, head in enumerate(heads)}
            weights[f"{label} mean, {moment}"] = heads.mean(axis=0)
        weights[f"{CROSS} mean, {moment}"] = np.mean([m.mean(axis=0) for m in matrices], axis=0)
    return Watched(weights, one.sure)


def word_ids(tokenizer: Tokenizer, text: str, given: Sequence[str]) -> list[int | None]:
    """For each token of a text its word among those given, counted from 0; None for a space.

    The tokenizer may know other words than the given ones, but joined they have the same letters.
    """
    ends = list(accumulate(map(len, given)))  # of the given words, among the letters alone
    spaces = list(accumulate((sign.isspace() for sign in text), initial=0))
    starts = [start - spaces[start] for start, _ in words.spans(text)]
    owners = [bisect_right(ends, start) for start in starts]
    return [None if word is None else owners[word] for word in tokenizer.word_ids(text)]
