"""Texts to begin with, one click away: the lectures' own, held-out ones, or well-known ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from regard.core.errors import RegardError
from regard.data.corpora import located, read_pairs
from regard.data.labelled import Labelled
from regard.data.pairs import Pair
from regard.data.plain_texts import text_splits
from regard.data.settings import DataSettings
from regard.runs.data import load_data
from regard.runs.kinds.translator import Run
from regard.runs.labelled import load_labelled
from regard.runs.own_data import has_data
from regard.runs.questions import load_questions
from regard.text.specials import MASK
from regard.text.words import spans

LECTURES = {
    "en": (
        "the animal did not cross the street because it was too tired",
        "the animal did not cross the street because it was too wide",
        "john loves mary",
        "jane visits africa in september",
        "i am a student",
    ),
    "fr": (
        "l'animal n'a pas traversé la rue parce qu'il était trop fatigué",
        "l'animal n'a pas traversé la rue parce qu'elle était trop large",
        "john aime mary",
        "jane visite l'afrique en septembre",
        "je suis étudiant",
    ),
}


def sentences(run: Run, at_most: int) -> list[str]:
    """A few sentences in the source's language; held-out ones where the world is another.

    Those have no more than so many tokens, and no more than the model can read.
    """
    data = run.recipe.data
    if data.world == "sentences":
        return list(LECTURES[data.direction.split("-")[0]])
    if not has_data(run.folder, data):
        return []
    try:
        sources = (pair.source for pair in _held_out_pairs(data))
        fitting = (text for text in sources if _can_be_read(run, text, at_most))
        return list(islice(fitting, N_EXAMPLES))
    except RegardError:  # the files have gone; the run is none the worse
        return []


def _held_out_pairs(data: DataSettings) -> Sequence[Pair]:
    """Pairs that nothing was learned from, where there are some; and no larger file than needed."""
    if data.world is not None:
        return load_data(data).splits["valid"]
    files = data.valid or data.test or data.train
    if not files:
        return ()
    return read_pairs(located({"one": files}, data.folder)["one"], data.columns).pairs


def _can_be_read(run: Run, text: str, at_most: int) -> bool:
    return 0 < len(run.tokenizers.source.encode(text)) <= at_most and run.fits(text)


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


def texts(run: Any) -> list[Example]:
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
