"""A run that gives a vector to a text, near to those of texts that say the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.data.labelled import Labelled
from regard.evaluation.metrics import pearson, spearman
from regard.runs.evaluation import Evaluation
from regard.runs.kinds.encoder_run import EncoderRun, Vectors, open_encoder
from regard.runs.labelled import load_labelled

ROWS = 1024
"""Texts that are compared with all others at once."""


@dataclass(frozen=True, slots=True, repr=False)
class Embedder(EncoderRun):
    """An encoder whose vectors tell how alike texts are."""

    def evaluate(self, split: str = "test") -> Evaluation:
        """Scores on a split of the data the run was trained with.

        Of pairs with scores: how well cosines agree with them. Of others: how often a text's
        nearest among all second texts is its own. Where all pairs have the same score, there is
        nothing to tell.
        """
        return self.scored(load_labelled(self.recipe.data, "score").split(split), split)

    def scored(self, examples: Sequence[Labelled], split: str) -> Evaluation:
        """Scores on any pairs; the texts of the evaluation are the cosines."""
        first = self.embed([one.text for one in examples])
        others = [one.other or "" for one in examples]
        second = self.embed(others)
        cosines = (first * second).sum(axis=1)
        wanted = [one.score for one in examples if one.score is not None]
        return Evaluation(
            {
                "task": self.task,
                "split": split,
                "n": len(examples),
                **agreement(first, second, others, wanted),
            },
            [f"{cosine:.4f}" for cosine in cosines],
        )


def agreement(
    first: Vectors, second: Vectors, others: Sequence[str], scores: Sequence[float]
) -> dict[str, float]:
    """How well vectors of pairs (n, d) tell which texts belong together, and how much.

    With ``scores``, their correlations with the cosines: 0 where the cosines are all alike, and
    none where the scores are, for there is nothing to agree with. Without, how often a text is
    nearest to its partner, or to another text that says the same; ``others`` are the second texts.
    """
    if not scores:
        return {"accuracy": _found_partners(first, second, others) / len(first)}
    if len({*scores}) < 2:
        return {}
    cosines = (first * second).sum(axis=1).tolist()
    found = {"spearman": spearman(cosines, scores), "pearson": pearson(cosines, scores)}
    return {name: 0.0 if np.isnan(value) else value for name, value in found.items()}


def _found_partners(first: Vectors, second: Vectors, others: Sequence[str]) -> int:
    """How many are nearest to their partner's text; some rows at a time, for all would be n²."""
    n_right = 0
    for i in range(0, len(first), ROWS):
        best = (first[i : i + ROWS] @ second.T).argmax(axis=1)
        n_right += sum(others[j] == others[i + row] for row, j in enumerate(best.tolist()))
    return n_right


def load_embedder(path: str | Path, *, device: str | None = None) -> Embedder:
    """Open the folder of a run that compares. Nothing in it is executed."""
    return Embedder(*open_encoder(path, "similarity", device).parts())
