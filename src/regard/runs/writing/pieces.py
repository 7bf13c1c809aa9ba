"""Text as it comes: what can be said already, and where a stop is reached."""

from __future__ import annotations

from collections.abc import Sequence

TORN = "\ufffd"
"""How bytes of a character are shown that is not complete."""


def cut_at(text: str, stops: Sequence[str]) -> tuple[str, bool]:
    """The text before the first of the stops, and whether there is one.

    >>> cut_at("one. two; three", [";", "."])
    ('one', True)
    """
    found = [at for at in (text.find(stop) for stop in stops) if at >= 0]
    return (text[: min(found)], True) if found else (text, False)


def certain(text: str, stops: Sequence[str]) -> str:
    """The beginning of a text that nothing which follows can change.

    A torn character may be completed, and the beginning of a stop may become one.

    >>> certain("so <en", ["<end>"]), certain("caf\ufffd", [])
    ('so ', 'caf')
    """
    text = text.rstrip(TORN)
    held = [n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n])]
    return text[: len(text) - max(held, default=0)]
