"""How much there is of something, in a few words."""

from __future__ import annotations

SHOWN = 60
"""Letters of a text that is only mentioned."""


def counted(n: int, thing: str) -> str:
    """A number and what is counted, which gets its s where there is more than one.

    >>> counted(1, "unknown word"), counted(0, "text"), counted(1200, "node")
    ('1 unknown word', '0 texts', '1,200 nodes')
    """
    return f"{n:,} {thing}{'' if n == 1 else 's'}"


def mentioned(text: str) -> str:
    """A text in quotation marks, cut where it is long.

    >>> mentioned("john loves mary"), len(mentioned("very " * 1000))
    ("'john loves mary'", 62)
    """
    return repr(text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…")
