"""What the tasks of encoders have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, ClassVar

from typing_extensions import override

from regard.core.errors import ConfigError, RegardError
from regard.data.labelled import Labelled, Wanted
from regard.models.encoder import EncoderConfig
from regard.runs.heads.subjects import Subject, given_subject, own_subject
from regard.runs.labelled import LabelledData, load_labelled
from regard.runs.looking.look import Look
from regard.runs.own_data import check_data, has_data
from regard.tasks.base import Evaluation, Task
from regard.tasks.verbs import check_length
from regard.text.tokenizer import Tokenizer

Example = dict[str, str]
"""A ``text``, and an ``other`` one where two go in."""

N_EXAMPLES = 5
MOST = {"text": 160, "other": 600}
"""Characters of an example."""


class TextTask(Task):
    """A task of runs that read a text, or two."""

    of_sentences: ClassVar[tuple[Example, ...]] = ()
    """Examples of the built-in sentences, whose splits take a while to build."""
    well_known: ClassVar[tuple[Example, ...]] = ()
    """Examples where a run has no data of its own: weights that came from elsewhere."""
    evaluation_options: ClassVar[frozenset[str]] = frozenset()

    def check_options(self, options: dict[str, Any]) -> None:
        """Refuse options of an evaluation that are for other tasks."""
        for name, value in options.items():
            if value is not None and name not in self.evaluation_options:
                raise ConfigError(f"--{name} has no use for a run of the task {self.name}")

    def held_out(self, run: Any) -> Iterator[Example]:
        """Examples that nothing was learned from."""
        return iter(())

    @override
    def examples(self, run: Any) -> list[Any]:
        data = run.recipe.data
        if data.world == "sentences" and self.of_sentences:
            return list(self.of_sentences)
        if not has_data(run.folder, data):
            return list(self.well_known)
        try:
            return list(islice(filter(_is_short, self.held_out(run)), N_EXAMPLES))
        except RegardError:  # the files have gone
            return list(self.well_known)

    @override
    def subject(self, run: Any, split: str, n: int) -> Subject:
        return own_subject(run, split, n)

    @override
    def given_subject(self, run: Any, texts: Sequence[str], name: str, n: int) -> Subject:
        return given_subject(run, texts, name, n)


def _is_short(example: Example) -> bool:
    return all(0 < len(text) <= MOST[side] for side, text in example.items())


class EncodingTask(TextTask):
    """A task of an encoder."""

    attends = "bert"
    wanted: ClassVar[Wanted] = "text"
    """What a line of the data has besides a text."""
    head_scores: ClassVar[tuple[str, ...]]
    """What is told of a run without one of its heads."""

    @property
    @override
    def config(self) -> type[EncoderConfig]:
        return EncoderConfig

    def data(self, run: Any) -> LabelledData:
        """What the run was trained with."""
        return load_labelled(run.recipe.data, self.wanted)

    def examples_of(self, run: Any, split: str) -> Sequence[Labelled]:
        """The examples of a split."""
        return self.data(run).split(split)

    @override
    def held_out(self, run: Any) -> Iterator[Example]:
        for one in self.examples_of(run, "valid"):
            second = {} if one.other is None else {"other": one.other}
            yield {"text": one.text, **second}

    @override
    def evaluate(self, run: Any, split: str | None = None, **options: Any) -> Evaluation:
        self.check_options(options)
        found: Evaluation = run.evaluate(split or "test")
        return found

    @override
    def explain(
        self,
        run: Any,
        source: str,
        *,
        other: str | None = None,
        target: str | None = None,
        max_tokens: int | None = None,
        edit: Any = (),
    ) -> Look:
        if target is not None or max_tokens is not None:
            super().explain(run, source, target=target, max_tokens=max_tokens)
        found: Look = run.explain(source, other, edit=edit)
        return found

    @override
    def check_look(
        self,
        run: Any,
        at_most: int,
        source: str,
        *,
        other: str | None = None,
        target: str | None = None,
    ) -> None:
        check_length(run, at_most, source, other, able="can be looked at")

    @override
    def tokenizers(self, run: Any) -> tuple[Tokenizer, None]:
        return run.tokenizer, None

    @override
    def info(self, run: Any) -> dict[str, Any]:
        return {"pairs": bool(run.takes_pairs)}


__all__ = ["EncodingTask", "Example", "TextTask", "check_data"]
