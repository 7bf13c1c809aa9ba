"""What users hand to runs: texts, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from regard.core.errors import DataError


def one_or_many(texts: Any) -> list[str]:
    """One text or several, as a list."""
    if isinstance(texts, str):
        return [texts]
    return [one_text(one, "a text or a list of texts") for one in listed(texts)]


def listed(given: Any) -> list[Any]:
    """What was given as a list, whatever it is; what is none is a list of itself."""
    return list(given) if isinstance(given, Iterable) else [given]


def several(texts: Any) -> list[str]:
    """A list of texts; a text alone would be taken for a list of letters."""
    if isinstance(texts, str):
        raise DataError(
            f"expected a list of texts, found one text: {texts!r:.60}; put it in a list"
        )
    return one_or_many(texts)


def one_text(text: Any, expected: str = "a text") -> str:
    """The text itself; what is none is refused."""
    if not isinstance(text, str):
        found = "nothing" if text is None else f"{type(text).__name__}: {text!r:.60}"
        raise DataError(f"expected {expected}, found {found}")
    return text
