"""Words of texts that a model has never seen."""

from __future__ import annotations

from typing import Any

from regard.text.specials import MASK


def unknown_words(run: Any, *texts: str | None) -> list[str]:
    """The words in which something is that the run reads as unknown; no masks."""
    parts = [part for text in texts if text for part in text.split(MASK)]
    return [word for part in parts for word in run.unknown_words(part)]
