"""A run that gives a vector to a text, near to those of texts that say the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.data.labelled import Labelled
from regard.evaluation.correlation import pearson, spearman
from regard.runs.encoder_run import EncoderRun, Vectors, one_or_many, open_encoder
from regard.runs.evaluation import Evaluation
from regard.runs.labelled import load_labelled


class Near(NamedTuple):
    """A text, and the cosine of its vector with that of the query."""

    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Embedder(EncoderRun):
    """An encoder whose vectors tell how alike texts are."""

    def nearest(self, query: Any, texts: Sequence[str], n: int = 5) -> Any:
        """The ``n`` texts nearest to a query, or to each of a list: ``Near(text, score)``."""
        return nearest(self, query, texts, n)

    def evaluate(self, split: str = "test") -> Evaluation:
        """Scores on a split of the data the run was trained with.

        Of pairs with scores: how well cosines agree with them. Of others: how often a text's
        nearest among all second texts is its own.
        """
        return self.scored(load_labelled(self.recipe.data, "score").split(split), split)

    def scored(self, examples: Sequence[Labelled], split: str) -> Evaluation:
        """Scores on any pairs; the texts of the evaluation are the cosines."""
        first = self.embed([one.text for one in examples])
        second = self.embed([one.other or "" for one in examples])
        cosines = (first * second).sum(axis=1)
        wanted = [one.score for one in examples if one.score is not None]
        return Evaluation(
            {
                "task": self.task,
                "split": split,
                "n": len(examples),
                **agreement(first, second, wanted),
            },
            [f"{cosine:.4f}" for cosine in cosines],
        )


def nearest(run: EncoderRun, queries: Any, texts: Sequence[str], n: int = 5) -> Any:
    """The ``n`` texts nearest to a query, or to each of a list, nearest first."""
    among = run.embed(one_or_many(texts))
    found = [
        [Near(texts[i], float(cosines[i])) for i in closest(cosines, n)]
        for cosines in run.embed(one_or_many(queries)) @ among.T
    ]
    return found[0] if isinstance(queries, str) else found


def closest(cosines: Vectors, n: int) -> list[int]:
    """The places of the largest, largest first; equals in their order."""
    return np.argsort(-cosines, kind="stable")[:n].tolist()


def agreement(first: Vectors, second: Vectors, scores: Sequence[float]) -> dict[str, float]:
    """How well vectors of pairs (n, d) tell which texts belong together, and how much."""
    if len(scores) > 1:
        cosines = (first * second).sum(axis=1).tolist()
        found = {"spearman": spearman(cosines, scores), "pearson": pearson(cosines, scores)}
        return {name: 0.0 if np.isnan(value) else value for name, value in found.items()}
    own = (first @ second.T).argmax(axis=1) == np.arange(len(first))
    return {"accuracy": float(own.mean())}


def load_embedder(path: str | Path, *, device: str | None = None) -> Embedder:
    """Open the folder of a run that compares. Nothing in it is executed."""
    return Embedder(*open_encoder(path, "similarity", device).parts())
