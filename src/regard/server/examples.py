"""Sentences to begin with: the lectures' own, where the model can read them."""

from __future__ import annotations

from collections.abc import Sequence

from regard.core.errors import RegardError
from regard.data.corpora import read_pairs
from regard.data.pairs import Pair
from regard.data.settings import DataSettings
from regard.runs.data import load_data
from regard.runs.run import Run

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


def examples(run: Run) -> list[str]:
    """A few sentences in the source's language; held-out ones where the world is another."""
    data = run.recipe.data
    if data.world == "sentences":
        return list(LECTURES[data.direction.split("-")[0]])
    try:
        return [pair.source for pair in _held_out(data)[:N_EXAMPLES]]
    except RegardError:  # the files have gone; the run is none the worse
        return []


def _held_out(data: DataSettings) -> Sequence[Pair]:
    """Pairs that nothing was learned from, where there are some; and no larger file than needed."""
    if data.world is not None:
        return load_data(data).splits["valid"]
    files = data.valid or data.test or data.train
    return read_pairs(files).pairs if files else ()
