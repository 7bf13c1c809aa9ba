"""Similarity: a vector for a text, near to those of texts that say the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from regard.runs.kinds.embedder import Embedder, load_embedder
from regard.runs.own_files import score_pairs
from regard.runs.tasks.similarity import PreparedSimilarity, prepare_similarity
from regard.tasks.base import TASKS, Evaluation, Form, Unit
from regard.tasks.encoding import EncodingTask, Example
from regard.tasks.verbs import EMBED, NEAREST


class Similarity(EncodingTask):
    """Pairs of texts, and an encoder whose vectors compare them."""

    name, unit = "similarity", Unit("pair", "pairs")
    verbs = (EMBED, NEAREST)
    heeds = frozenset({"data.columns"})
    smallest: ClassVar[Mapping[str, Any]] = {"n_vocab": 9}
    wanted = "score"
    head_scores = ("spearman", "accuracy")
    of_sentences = (
        {
            "text": "the animal was tired",
            "other": "l'animal était fatigué\nla rue était large\njohn aime mary",
        },
    )
    well_known = (
        {
            "text": "A man is playing a guitar.",
            "other": "Somebody makes music.\nA woman is cooking rice.\nThe stock market fell.",
        },
    )

    @override
    def prepare(self, *args: Any, **more: Any) -> PreparedSimilarity:
        return prepare_similarity(*args, **more)

    @override
    def load(self, path: str | Path, *, device: str | None = None) -> Embedder:
        return load_embedder(path, device=device)

    @override
    def score_file(self, run: Embedder, path: Path, **options: Any) -> Evaluation:
        self.check_options(options)
        return score_pairs(run, path)

    @override
    def form(self, run: Embedder) -> Form:
        return Form(
            label="A text",
            other="Texts to compare it with, one a line",
            optional=True,
            go="Compare",
            answer="Nearest",
            hint="Numbers are cosines: 1 means the same direction. Choose a text to look into it.",
            about="compares texts",
            stands="The numbers stand.",
            verb="nearest",
            view="nearest",
        )

    @override
    def held_out(self, run: Embedder) -> Iterator[Example]:
        """Each text beside three others, its own among them."""
        held = self.examples_of(run, "valid")
        others = [one.other or "" for one in held]
        for i, one in enumerate(held[:-2]):
            yield {"text": one.text, "other": "\n".join(others[i : i + 3])}


TASKS.add("similarity")(Similarity())
