"""What a training counts and its loss is averaged over, by task, in words for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Unit(NamedTuple):
    """One of what is learned from, and several."""

    one: str
    many: str


TOKEN = Unit("token", "tokens")
TEXT = Unit("text", "texts")
_UNITS: Mapping[str, Unit] = {
    "classification": TEXT,
    "answers": TEXT,
    "similarity": Unit("pair", "pairs"),
    "masked": Unit("guess", "guesses"),
}


def unit_of(task: str) -> Unit:
    """A text, a pair or a guess for encoders, a token for all that write.

    >>> unit_of("masked").many, unit_of("translation").many
    ('guesses', 'tokens')
    """
    return _UNITS.get(task, TOKEN)
