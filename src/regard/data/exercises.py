"""Tasks written as texts to go on from: most of them are language modelling.

``review : the hotel was horrible opinion :`` goes on with ``negative``, and a translation is how
``… french :`` goes on. A model that has learned such texts does all tasks without a head for any.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from regard.core.errors import ConfigError
from regard.data.labelled import Labelled, read_labelled_splits
from regard.data.sentences import labelled_world
from regard.data.sentences import world as sentences
from regard.data.settings import EVERYTHING, DataSettings

LANGUAGES = {"en": "english", "fr": "french"}
OWN = "answers"
"""What the one exercise of a user's own files is called."""
MOST_OPTIONS = 20
"""With more answers than these in training they are no labels but texts."""
_TWO = "two texts: say where {other} stands, or name data.columns without it"
PROMPTS = {"sentiment": "review : {text} opinion :", "topics": "text : {text} topic :"}


class Item(NamedTuple):
    """A text to go on from, and how it should."""

    prompt: str
    answer: str

    @property
    def text(self) -> str:
        """The whole, to learn from."""
        return f"{self.prompt} {self.answer}"


@dataclass(frozen=True, slots=True)
class Exercise:
    """One kind of items."""

    name: str
    items: tuple[Item, ...]
    options: tuple[str, ...]
    """The answers there are, in alphabetical order; empty where any text may be one."""


Exercises = Mapping[str, tuple[Exercise, ...]]
"""By split."""


def exercise_splits(settings: DataSettings) -> Exercises:
    """What the data asks, split by split; empty where texts are just texts."""
    if settings.world == EVERYTHING:
        kinds = [_translation(settings), *(_labelled(name, settings) for name in PROMPTS)]
    elif settings.prompt is not None:
        corpora = read_labelled_splits(settings, "label")
        rows = {name: one.examples for name, one in corpora.items()}
        kinds = [_exercises(OWN, settings.prompt, rows)]
    else:
        return {}
    return {split: tuple(kind[split] for kind in kinds) for split in kinds[0]}


def texts_of(exercises: Sequence[Exercise], seed: int) -> tuple[str, ...]:
    """The whole texts of all exercises, in an order that mixes them."""
    texts = [item.text for exercise in exercises for item in exercise.items]
    random.Random(seed).shuffle(texts)
    return tuple(texts)


def _translation(settings: DataSettings) -> dict[str, Exercise]:
    built = sentences.build(settings.direction, seed=settings.world_seed, **_size(settings))
    target = LANGUAGES[settings.direction.split("-")[1]]
    rows = {
        split: [Labelled(pair.source, label=pair.target) for pair in built.splits[split]]
        for split in ("train", "valid", "test")
    }
    return _exercises("translation", "translate : {text} " + target + " :", rows)


def _labelled(world: str, settings: DataSettings) -> dict[str, Exercise]:
    built = labelled_world.build(world, seed=settings.world_seed, **_size(settings))
    return _exercises(world, PROMPTS[world], built)


def _size(settings: DataSettings) -> dict[str, int]:
    return {} if settings.n_train is None else {"n_train": settings.n_train}


def _exercises(
    name: str, prompt: str, rows: Mapping[str, Sequence[Labelled]]
) -> dict[str, Exercise]:
    items = {split: tuple(_item(prompt, row) for row in some) for split, some in rows.items()}
    options = _options(items["train"])
    return {split: Exercise(name, some, options) for split, some in items.items()}


def _item(prompt: str, row: Labelled) -> Item:
    assert row.label is not None, "it was read with its label"
    if ("{other}" in prompt) != (row.other is not None):
        said = "one text: leave {other} out" if row.other is None else _TWO
        raise ConfigError(f"data.prompt is {prompt!r}, but a row has {said}")
    parts = {"text": row.text, "other": row.other or ""}
    return Item(re.sub(r"\{(text|other)\}", lambda place: parts[place[1]], prompt), row.label)


def _options(items: Iterable[Item]) -> tuple[str, ...]:
    """The answers of training, where they are few enough to be labels."""
    found: set[str] = set()
    for item in items:
        found.add(item.answer)
        if len(found) > MOST_OPTIONS:
            return ()
    return tuple(sorted(found)) if len(found) > 1 else ()
