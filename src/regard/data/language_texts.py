"""Texts to learn a language from: plain lines, JSONL with a field ``text``, or a world's sentences.

A line of a plain file is a text, and an empty line is an empty one: nothing is stripped and nothing
is left out, for where a line ends is part of what is learned.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from regard.core.errors import ConfigError, DataError
from regard.data.lines import read_lines
from regard.data.readers import TABLES, an_object, ending, read_json_lines, text_value
from regard.data.settings import DataSettings
from regard.data.splits import NAMES, located_splits, read_splits
from regard.data.worlds.prompted import PromptedSplits, everything, prompted, texts_of
from regard.data.worlds.registry import EVERYTHING, world_records

Texts = tuple[str, ...]
HELD_OUT = 20
"""One line in so many is held out where nothing is said."""
OWN = "answers"
"""The task of a user's own files that are written by a prompt."""


def prompted_splits(settings: DataSettings) -> PromptedSplits:
    """The tasks that texts are made of, split by split; empty where texts are just texts."""
    if settings.world == EVERYTHING:
        asked = settings.world_request()
        return everything(asked.direction, **asked.size)
    if settings.prompt is None:
        return {}
    corpora = read_splits(settings, "label")
    rows = {name: one.examples for name, one in corpora.items()}
    return {name: (task,) for name, task in prompted(OWN, settings.prompt, rows).items()}


def text_splits(settings: DataSettings, tasks: PromptedSplits | None = None) -> dict[str, Texts]:
    """The texts of ``train``, ``valid`` and all test sets there are, each in its order.

    ``tasks`` are the ``prompted_splits`` of the settings, where somebody has made them already.
    """
    tasks = prompted_splits(settings) if tasks is None else tasks
    if tasks:
        return {name: texts_of(some, settings.world_seed) for name, some in tasks.items()}
    if settings.world is not None:
        records = world_records(settings.world_request(), "language")
        return {name: tuple(some) for name, some in records.items()}
    _check(settings)
    files = located_splits(settings)
    splits = {name: read_texts(str(one)) for name, one in files.items()}
    if "valid" not in splits:  # the last texts are held out: text is no bag of sentences
        texts = splits["train"]
        n = settings.hold_out or max(1, len(texts) // HELD_OUT)
        if n >= len(texts):
            raise DataError(
                f"{files['train']}: cannot hold out {n:,} of {len(texts):,} lines for validation; "
                "lower data.hold_out, give more text, or name a file in data.valid"
            )
        splits |= {"train": texts[:-n], "valid": texts[-n:]}
    return {name: splits[name] for name in NAMES if name in splits}


def lines_go_on(settings: DataSettings) -> bool:
    """Whether each text goes on where the one before it ended, as the lines of a plain file do.

    Sentences of a world, entries of JSONL and answers to prompts stand alone.
    """
    plain = isinstance(settings.train, str) and settings.prompt is None
    return plain and ending(Path(str(settings.train))) != ".jsonl"


def _check(settings: DataSettings) -> None:
    """Refuse what is said of pairs."""
    for name in NAMES:
        if isinstance(getattr(settings, name), tuple):
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


def read_texts(name: str) -> Texts:
    """All texts of a file; what is wrong is told as ``file:line: finding; remedy``."""
    path = Path(name)
    if ending(path) in TABLES:
        raise DataError(
            f"{name}: a table, but a language is learned from plain text; give a .txt file with a "
            'text a line, or .jsonl with {"text": "…"}, or say in data.prompt how rows are '
            "written as texts"
        )
    texts = tuple(_entries(path) if ending(path) == ".jsonl" else read_lines(path))
    if not texts:
        raise DataError(f"{name}: empty; expected a text a line")
    if not any(text.strip() for text in texts):
        raise DataError(f"{name}: {len(texts):,} lines, and no text in any of them")
    return texts


def _entries(path: Path) -> Iterator[str]:
    for row in read_json_lines(path):
        if row.values is not None:
            entry = an_object(row.values, ("text",), row.where)
            yield text_value(entry["text"], "text", row.where)
