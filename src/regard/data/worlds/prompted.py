"""Tasks written as texts to go on from: most of them are language modelling.

``review : the hotel was horrible opinion :`` goes on with ``negative``, and a translation is how
``… french :`` goes on. A model that has learned such texts does all tasks without a head for any.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from regard.core.errors import ConfigError
from regard.data.records import Labelled
from regard.data.worlds.labelled_sentences import build_labelled
from regard.data.worlds.sentences import build_sentences

LANGUAGES = {"en": "english", "fr": "french"}
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
class PromptedTask:
    """A task whose items are all written by one prompt."""

    name: str
    items: tuple[Item, ...]
    options: tuple[str, ...]
    """The answers there are, in alphabetical order; empty where any text may be one."""


PromptedSplits = Mapping[str, tuple[PromptedTask, ...]]
"""By split."""


def texts_of(tasks: Sequence[PromptedTask], seed: int) -> tuple[str, ...]:
    """The whole texts of all tasks, in an order that mixes them."""
    texts = [item.text for task in tasks for item in task.items]
    random.Random(seed).shuffle(texts)
    return tuple(texts)


def everything(direction: str, **size: int) -> PromptedSplits:
    """The world ``everything``: translation, sentiment and topics, each with its prompt."""
    pairs = build_sentences(direction, **size)
    rows = {
        split: [Labelled(pair.source, label=pair.target) for pair in pairs[split]]
        for split in ("train", "valid", "test")
    }
    target = LANGUAGES[direction.split("-")[1]]
    kinds = [prompted("translation", "translate : {text} " + target + " :", rows)]
    for world, prompt in PROMPTS.items():
        kinds.append(prompted(world, prompt, build_labelled(world, **size)))
    return {split: tuple(kind[split] for kind in kinds) for split in kinds[0]}


def prompted(
    name: str, prompt: str, rows: Mapping[str, Sequence[Labelled]]
) -> dict[str, PromptedTask]:
    """Rows of each split, written by a prompt; their labels are the answers."""
    items = {split: tuple(_item(prompt, row) for row in some) for split, some in rows.items()}
    answers = {item.answer for item in items["train"]}
    options = tuple(sorted(answers)) if 1 < len(answers) <= MOST_OPTIONS else ()
    return {split: PromptedTask(name, some, options) for split, some in items.items()}


def _item(prompt: str, row: Labelled) -> Item:
    assert row.label is not None, "it was read with its label"
    if ("{other}" in prompt) != (row.other is not None):
        said = "one text: leave {other} out" if row.other is None else _TWO
        raise ConfigError(f"data.prompt is {prompt!r}, but a row has {said}")
    parts = {"text": row.text, "other": row.other or ""}
    return Item(re.sub(r"\{(text|other)\}", lambda place: parts[place[1]], prompt), row.label)
