"""Examples that a page begins with: a few held-out records, which training writes beside the model.

A run folder may come from anybody, and its settings may name any file. So whoever serves a run
shows what lies in its folder and reads nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from regard.core.files import write_whole

EXAMPLES = "examples.json"
"""In a run's folder: a list of examples."""
N_EXAMPLES = 5
"""Texts that a page begins with."""
MOST_READ = 1000
"""Records of ``train`` that are looked through for such texts."""
MOST_BYTES = 2**24
"""Of the file; a larger one was not written here."""
PageExample = dict[str, str]
"""A ``text`` (of a picture, its data URL), and an ``other`` one where two go in."""


def distinct(examples: Iterable[PageExample]) -> Iterator[PageExample]:
    """The examples, each once."""
    seen = set()
    for one in examples:
        if (said := tuple(one.items())) not in seen:
            seen.add(said)
            yield one


def save_examples(folder: Path, examples: Iterable[PageExample]) -> None:
    """Write them into a run's folder."""
    write_whole(folder / EXAMPLES, json.dumps(list(examples), ensure_ascii=False, indent=1))


def saved_examples(folder: Path) -> list[PageExample] | None:
    """Those of a run's folder; None where it has none that were written here.

    A link is none: it may lead out of the folder.
    """
    path = folder / EXAMPLES
    if path.is_symlink() or not path.is_file() or path.stat().st_size > MOST_BYTES:
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, list) and all(map(_is_example, found)) else None


def _is_example(one: Any) -> bool:
    fields = one.keys() if isinstance(one, dict) else set()
    return {"text"} <= fields <= {"text", "other"} and all(isinstance(x, str) for x in one.values())
