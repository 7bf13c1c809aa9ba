"""What a user should know, on standard error, where it disturbs no output."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from regard.core.counting import counted


def note(text: str) -> None:
    """One line."""
    print(f"regard: {text}", file=sys.stderr)


def note_unknown(words: Iterable[str]) -> None:
    """Name the first of the words that a model has never seen, if there are any."""
    unknown = list(dict.fromkeys(words))
    if unknown:
        shown = ", ".join(unknown[:10]) + (", …" if len(unknown) > 10 else "")
        note(f"{counted(len(unknown), 'unknown word')} read as <unk>: {shown}")
