"""Masked words: what may stand where a text leaves a word out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from regard.runs.kinds.filler import Filler, load_filler
from regard.runs.own_files import score_masked
from regard.runs.tasks.masked import PreparedMasked, prepare_masked
from regard.tasks.base import TASKS, Evaluation, Form, Unit
from regard.tasks.encoding import EncodingTask, Example
from regard.tasks.verbs import EMBED, FILL, NEAREST
from regard.text.specials import MASK
from regard.text.words import spans


class Masked(EncodingTask):
    """Texts, and an encoder that guesses what is left out of them."""

    name, unit = "masked", Unit("guess", "guesses")
    verbs = (FILL, EMBED, NEAREST)
    heeds = frozenset({"train.label_smoothing"})
    smallest: ClassVar[Mapping[str, Any]] = {"n_vocab": 9, "head": "masked"}
    wanted = "text"
    head_scores = ("loss", "accuracy")
    of_sentences = (
        {"text": f"the animal did not cross the street because {MASK} was too tired"},
        {"text": f"the animal did not cross the {MASK} because it was too wide"},
        {"text": f"jane {MASK} africa in {MASK}"},
    )
    well_known = ({"text": f"The capital of France is {MASK}."},)

    @override
    def prepare(self, *args: Any, **more: Any) -> PreparedMasked:
        return prepare_masked(*args, **more)

    @override
    def load(self, path: str | Path, *, device: str | None = None) -> Filler:
        return load_filler(path, device=device)

    @override
    def score_file(self, run: Filler, path: Path, **options: Any) -> Evaluation:
        self.check_options(options)
        return score_masked(run, path)

    @override
    def form(self, run: Filler) -> Form:
        return Form(
            label="A text with words left out",
            go="Fill in",
            answer="Filled in",
            hint=f"Write {MASK} where a word is left out.",
            about="guesses words",
            stands="The words stand.",
            view="masks",
        )

    @override
    def held_out(self, run: Filler) -> Iterator[Example]:
        """Texts without their longest word."""
        for one in self.examples_of(run, "valid"):
            if found := spans(one.text):
                start, end = max(found, key=lambda span: span[1] - span[0])
                yield {"text": one.text[:start] + MASK + one.text[end:]}


TASKS.add("masked")(Masked())
