"""Texts to begin with, one click away: held-out ones of a run's own data, or well-known ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from regard.core.errors import RegardError
from regard.data.labelled import Labelled
from regard.data.plain_texts import text_splits
from regard.runs.labelled import load_labelled
from regard.runs.own_data import has_data
from regard.runs.questions import load_questions
from regard.text.specials import MASK
from regard.text.words import spans

Example = dict[str, str]
"""A ``text``, and an ``other`` one where two go in."""

N_EXAMPLES = 5
MOST = {"text": 160, "other": 600}
"""Characters of an example."""

_WORLD: dict[str, tuple[Example, ...]] = {
    "language": (
        {"text": "the animal did not cross the street because"},
        {"text": "jane visits"},
        {"text": "john loves"},
    ),
    "masked": (
        {"text": f"the animal did not cross the street because {MASK} was too tired"},
        {"text": f"the animal did not cross the {MASK} because it was too wide"},
        {"text": f"jane {MASK} africa in {MASK}"},
    ),
    "similarity": (
        {
            "text": "the animal was tired",
            "other": "l'animal était fatigué\nla rue était large\njohn aime mary",
        },
    ),
}
"""Of the built-in sentences, whose splits take a while to build."""

_ENGLISH: dict[str, tuple[Example, ...]] = {
    "language": ({"text": "The capital of France is"}, {"text": "Once upon a time"}),
    "masked": ({"text": f"The capital of France is {MASK}."},),
    "similarity": (
        {
            "text": "A man is playing a guitar.",
            "other": "Somebody makes music.\nA woman is cooking rice.\nThe stock market fell.",
        },
    ),
    "classification": ({"text": "A film that stays with you."},),
    "answers": (
        {
            "text": "Who wrote the letter?",
            "other": "In the morning Mary wrote a letter to her brother in Paris.",
        },
    ),
}
"""Where a run has no data of its own: weights that came from elsewhere."""


def examples(run: Any) -> list[Example]:
    """A few examples that the run can read."""
    data, task = run.recipe.data, run.task
    if data.world == "sentences" and task in _WORLD:
        return list(_WORLD[task])
    if not has_data(run.folder, data):
        return list(_ENGLISH.get(task, ()))
    try:
        return list(islice(filter(_is_short, _held_out(run)), N_EXAMPLES))
    except RegardError:  # the files have gone
        return list(_ENGLISH.get(task, ()))


def _is_short(example: Example) -> bool:
    return all(0 < len(text) <= MOST[side] for side, text in example.items())


def _held_out(run: Any) -> Iterator[Example]:
    """Examples that nothing was learned from."""
    task, data = run.task, run.recipe.data
    if task == "language":
        return ({"text": _begun(text)} for text in text_splits(data)["valid"])
    if task == "answers":
        return map(_pair, load_questions(data).split("valid"))
    wanted: Any = {"classification": "label", "similarity": "score"}.get(task, "text")
    held = load_labelled(data, wanted).split("valid")
    if task == "masked":
        return ({"text": _masked(one.text)} for one in held)
    if task == "similarity":
        return _compared(held)
    return map(_pair, held)


def _pair(one: Labelled) -> Example:
    return {"text": one.text} if one.other is None else {"text": one.text, "other": one.other}


def _compared(held: Sequence[Labelled]) -> Iterator[Example]:
    """Each text beside three others, its own among them."""
    others = [one.other or "" for one in held]
    for i, one in enumerate(held[:-2]):
        yield {"text": one.text, "other": "\n".join(others[i : i + 3])}


def _begun(text: str) -> str:
    """The first half of a text, by words."""
    found = spans(text)
    return text[: found[(len(found) - 1) // 2][1]] if found else ""


def _masked(text: str) -> str:
    """A text without its longest word."""
    found = spans(text)
    if not found:
        return ""
    start, end = max(found, key=lambda span: span[1] - span[0])
    return text[:start] + MASK + text[end:]
