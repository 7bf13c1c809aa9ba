"""Texts with a label or a score, one an example: TSV, JSONL, two parallel files, or a pattern.

What a line holds depends on what is learned. With ``label``: a text, perhaps another text, and its
label. With ``score``: two texts, and perhaps a number that says how alike they are. With ``text``:
a text and nothing else.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from regard.core.errors import DataError
from regard.data.corpora import located
from regard.data.holding_out import hold_out, hold_out_linked
from regard.data.labelled_rows import Row, rows_of
from regard.data.settings import DataSettings, Files

Wanted = Literal["label", "score", "text"]


@dataclass(frozen=True, slots=True)
class Labelled:
    """One example. What a data set does not know stays ``None``."""

    text: str
    other: str | None = None
    label: str | None = None
    """As it is written."""
    score: float | None = None
    where: str = field(default="", compare=False)
    """``file:line``, for messages."""

    @property
    def source(self) -> str:
        """A text that must not be both learned from and scored."""
        return self.text

    @property
    def target(self) -> str:
        """Another such text."""
        return self.text if self.other is None else self.other


@dataclass(frozen=True, slots=True)
class LabelledCorpus:
    """Examples that were read, and lines that were passed over."""

    examples: tuple[Labelled, ...]
    n_empty: int = 0
    n_headers: int = 0
    doubtful: str | None = field(default=None, compare=False, kw_only=True)
    """What the first line has for a label, where it looks like the name of the column."""

    def notes(self, name: str) -> list[str]:
        """What a user should know about a split."""
        found = {"lines skipped, being empty in some part": self.n_empty}
        found["header line passed over"] = self.n_headers
        told = [f"{name}: {n} {what}" for what, n in found.items() if n]
        if self.doubtful is not None:
            told.append(
                f"{name}: {self.doubtful!r} is the label of the first line alone; if that line "
                "names the columns, take it out"
            )
        return told


C = TypeVar("C", bound=LabelledCorpus)


def read_labelled_splits(settings: DataSettings, wanted: Wanted) -> dict[str, LabelledCorpus]:
    """The files of ``train``, ``valid`` and, if there is one, ``test``."""
    return split_files(settings, lambda files: read_labelled(files, wanted, settings))


def split_files(settings: DataSettings, read: Callable[[Files], C]) -> dict[str, C]:
    """What is read from the files of ``train``, ``valid`` and, if there is one, ``test``.

    What has no file is held out of ``train`` as ``regard.data.corpora.read_splits`` does it; of
    pairs, no text of either side is in both parts.
    """
    assert settings.train is not None, "a world has no files"
    named = {"train": settings.train, "valid": settings.valid, "test": settings.test}
    found = located({name: files for name, files in named.items() if files}, settings.folder)
    splits = {name: read(files) for name, files in found.items()}
    _check_alike(split.examples[0] for split in splits.values())
    missing = [name for name in ("test", "valid") if name not in splits]
    if settings.hold_out is None:
        missing = [name for name in missing if name == "valid"]
    for name in missing:
        train = splits["train"]
        kept, held = _held_out(train.examples, settings)
        splits |= {"train": replace(train, examples=kept), name: type(train)(held)}
    return {name: splits[name] for name in named if name in splits}


def _held_out(
    examples: tuple[Labelled, ...], settings: DataSettings
) -> tuple[tuple[Labelled, ...], tuple[Labelled, ...]]:
    if settings.hold_out is not None:
        return hold_out_linked(examples, settings.hold_out, settings.world_seed)
    linked = any(one.source != one.target for one in examples)
    n = min(1000, len(examples) // 20)
    return hold_out(examples, n, settings.world_seed, linked=linked)


def read_labelled(
    files: Files, wanted: Wanted, settings: DataSettings | None = None
) -> LabelledCorpus:
    """All examples of a file, or of two parallel files. Texts lose white space at their ends."""
    columns, pattern = (None, None) if settings is None else (settings.columns, settings.pattern)
    read = rows_of(files, wanted, columns, pattern)
    examples = [example for row in read if (example := _example(row)) is not None]
    name = files if isinstance(files, str) else " and ".join(files)
    if not examples:
        raise DataError(f"{name}: no example in it; expected one a line ({read.n_rows} empty)")
    _check_alike(examples)
    doubtful = _doubtful(examples) if read.headed and not read.n_headers else None
    n_empty = read.n_rows - len(examples)
    return LabelledCorpus(tuple(examples), n_empty, read.n_headers, doubtful=doubtful)


def _doubtful(examples: Sequence[Labelled]) -> str | None:
    """The label of the first line, if it is the only one that never comes again."""
    counts = Counter(one.label for one in examples)
    once = [label for label, n in counts.items() if n == 1]
    return examples[0].label if once == [examples[0].label] else None


def _example(row: Row) -> Labelled | None:
    """None where a part of it is empty."""
    parts = {name: part.strip() for name, part in row.parts.items()}
    if not all(parts.values()):
        return None
    score = None if "score" not in parts else _number(parts["score"], row.where)
    return Labelled(parts["text"], parts.get("other"), parts.get("label"), score, row.where)


def _number(text: str, where: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise DataError(f"{where}: expected a number as the score, but found {text!r}")
    return score


def _check_alike(examples: Iterable[Labelled]) -> None:
    """All have the same parts as the first; what can be learned from one is asked of another."""
    first, *others = examples
    for name in ("other", "score"):
        for one in others:
            if (getattr(first, name) is None) != (getattr(one, name) is None):
                has, lacks = (one, first) if getattr(first, name) is None else (first, one)
                raise DataError(
                    f"{lacks.where}: no {name!r}, but {has.where} has one; give it in all lines or "
                    "in none"
                )


def numbered(examples: Iterable[Labelled], labels: Mapping[str, int]) -> list[int]:
    """The number of each example's label."""
    numbers = []
    for one in examples:
        assert one.label is not None, "these examples were read without labels"
        if one.label not in labels:
            at = f"{one.where}: " if one.where else ""
            raise DataError(
                f"{at}label {one.label!r} was not seen in training, which knows "
                f"{', '.join(labels)}; correct it, or train with examples of it"
            )
        numbers.append(labels[one.label])
    return numbers
