"""Sentences to begin with: the lectures' own, where the model can read them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from regard.core.errors import RegardError
from regard.data.corpora import located, read_pairs
from regard.data.pairs import Pair
from regard.data.settings import DataSettings
from regard.runs.data import load_data
from regard.runs.kinds.translator import Run
from regard.runs.own_data import has_data

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
N_EXAMPLES = 5


def examples(run: Run, at_most: int) -> list[str]:
    """A few sentences in the source's language; held-out ones where the world is another.

    Those have no more than so many tokens, and no more than the model can read.
    """
    data = run.recipe.data
    if data.world == "sentences":
        return list(LECTURES[data.direction.split("-")[0]])
    if not has_data(run.folder, data):
        return []
    try:
        sources = (pair.source for pair in _held_out(data))
        fitting = (text for text in sources if _can_be_read(run, text, at_most))
        return list(islice(fitting, N_EXAMPLES))
    except RegardError:  # the files have gone; the run is none the worse
        return []


def _held_out(data: DataSettings) -> Sequence[Pair]:
    """Pairs that nothing was learned from, where there are some; and no larger file than needed."""
    if data.world is not None:
        return load_data(data).splits["valid"]
    files = data.valid or data.test or data.train
    if not files:
        return ()
    return read_pairs(located({"one": files}, data.folder)["one"], data.columns).pairs


def _can_be_read(run: Run, text: str, at_most: int) -> bool:
    return 0 < len(run.tokenizers.source.encode(text)) <= at_most and run.fits(text)
