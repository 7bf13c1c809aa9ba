"""Texts to learn a language from: plain lines, JSONL with a field ``text``, or a world's sentences.

A line of a plain file is a text, and an empty line is an empty one: nothing is stripped and nothing
is left out, for where a line ends is part of what is learned.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.core.errors import ConfigError, DataError
from regard.core.registry import did_you_mean
from regard.data.corpora import located
from regard.data.exercises import Exercises, exercise_splits, texts_of
from regard.data.labelled_rows import TABLES, json_line, text_field
from regard.data.lines import excerpt, read_lines
from regard.data.sentences import world as sentences
from regard.data.settings import EVERYTHING, DataSettings, Files
from regard.data.table_lines import ending

Texts = tuple[str, ...]

HELD_OUT = 20
"""One line in so many is held out where nothing is said."""


def text_splits(settings: DataSettings, exercises: Exercises | None = None) -> dict[str, Texts]:
    """The texts of ``train``, ``valid`` and all test sets there are, each in its order.

    ``exercises`` are those of the settings, where somebody has made them already.
    """
    exercises = exercise_splits(settings) if exercises is None else exercises
    if exercises:
        return {name: texts_of(some, settings.world_seed) for name, some in exercises.items()}
    if settings.world is None:
        return _from_files(settings)
    if settings.world != "sentences":
        raise ConfigError(
            f"data.world={settings.world!r} has pairs and no texts to write on; choose sentences "
            f"or {EVERYTHING}, or name files in data.train"
        )
    size = {} if settings.n_train is None else {"n_train": settings.n_train}
    built = sentences.build(settings.direction, seed=settings.world_seed, **size)
    return {name: tuple(pair.source for pair in pairs) for name, pairs in built.splits.items()}


def lines_go_on(settings: DataSettings) -> bool:
    """Whether each text goes on where the one before it ended, as the lines of a plain file do.

    Sentences of a world, entries of JSONL and answers to prompts stand alone.
    """
    plain = isinstance(settings.train, str) and settings.prompt is None
    return plain and ending(Path(str(settings.train))) != ".jsonl"


def _from_files(settings: DataSettings) -> dict[str, Texts]:
    """Without a file for ``valid``, the last lines of ``train``: text is no bag of sentences."""
    named = {"train": settings.train, "valid": settings.valid, "test": settings.test}
    _check(settings)
    found = located({name: files for name, files in named.items() if files}, settings.folder)
    splits = {name: read_texts(str(files)) for name, files in found.items()}
    if "valid" not in splits:
        kept, held = _parted(splits["train"], settings.hold_out, str(found["train"]))
        splits |= {"train": kept, "valid": held}
    return {name: splits[name] for name in named if name in splits}


def _check(settings: DataSettings) -> None:
    """Refuse what is said of pairs."""
    for name in ("train", "valid", "test"):
        files: Files | None = getattr(settings, name)
        if files is not None and not isinstance(files, str):
            raise ConfigError(
                f"data.{name} names two files, but a language is learned from one text; name one"
            )
    if settings.columns is not None:
        raise ConfigError("data.columns is for pairs, and plain texts have none; leave it out")
    if settings.pattern is not None:
        raise ConfigError("data.pattern is for labels, and plain texts have none; leave it out")
    if settings.hold_out is not None and settings.valid is not None:
        raise ConfigError(
            "data.hold_out takes lines of train for valid, but data.valid names a file; keep one"
        )


def _parted(texts: Texts, n: int | None, name: str) -> tuple[Texts, Texts]:
    """What is kept, and the last ``n`` texts, at least one."""
    n = max(1, len(texts) // HELD_OUT) if n is None else n
    if n >= len(texts):
        raise DataError(
            f"{name}: cannot hold out {n:,} of {len(texts):,} lines for validation; lower "
            "data.hold_out, give more text, or name a file in data.valid"
        )
    return texts[:-n], texts[-n:]


def read_texts(name: str) -> Texts:
    """All texts of a file; what is wrong is told as ``file:line: finding; remedy``."""
    path = Path(name)
    if ending(path) in TABLES:
        raise DataError(
            f"{name}: a table, but a language is learned from plain text; give a .txt file with a "
            'text a line, or .jsonl with {"text": "…"}, or say in data.prompt how rows are '
            "written as texts"
        )
    texts = tuple(_jsonl(path) if ending(path) == ".jsonl" else read_lines(path))
    if not texts:
        raise DataError(f"{name}: empty; expected a text a line")
    if not any(text.strip() for text in texts):
        raise DataError(f"{name}: {len(texts):,} lines, and no text in any of them")
    return texts


def _jsonl(path: Path) -> Iterator[str]:
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            where = f"{path}:{number}"
            yield _text(json_line(line, where), where)


def _text(entry: Any, where: str) -> str:
    expected = '{"text": "…"}'
    if not isinstance(entry, dict):
        raise DataError(f"{where}: expected {expected}, but found {excerpt(json.dumps(entry))}")
    if "text" not in entry:
        keys: Sequence[str] = list(entry)
        found = ", ".join(map(repr, keys)) or "none"
        hint = did_you_mean("text", keys)
        raise DataError(f"{where}: no key 'text'{hint}; expected {expected}, found keys {found}")
    return text_field(entry["text"], "text", where)
