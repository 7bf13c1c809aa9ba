"""The questions that a run learns from, whatever they are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regard.core.errors import ConfigError
from regard.data.questions import Question, read_question_splits
from regard.data.sentences import question_world
from regard.data.sentences.question_world import QUESTION_WORLD
from regard.data.settings import DataSettings
from regard.runs.labelled import LabelledData
from regard.runs.splits import split_of


@dataclass(frozen=True, slots=True)
class QuestionData(LabelledData):
    """Splits by name, and what a user should know about how they came about."""

    splits: Mapping[str, Sequence[Question]]

    def split(self, name: str) -> Sequence[Question]:
        """One of them; a wrong name is told."""
        return split_of(self.splits, name)


def load_questions(settings: DataSettings) -> QuestionData:
    """A built-in world, or files."""
    if settings.world is None:
        corpora = read_question_splits(settings)
        notes = [note for name, corpus in corpora.items() for note in corpus.notes(name)]
        return QuestionData({name: one.examples for name, one in corpora.items()}, tuple(notes))
    if settings.world != QUESTION_WORLD:
        raise ConfigError(
            f"world {settings.world!r} has no questions; choose {QUESTION_WORLD}, or name files in "
            "data.train"
        )
    size = {} if settings.n_train is None else {"n_train": settings.n_train}
    return QuestionData(question_world.build(seed=settings.world_seed, **size))
