"""Patterns that stand for many files: ``corpus/*.jsonl.gz``, or two, matched side by side.

A name with ``*``, ``?`` or ``[`` in it is a pattern, unless there is a file of that very name;
``**`` stands for any number of folders. Files come in the order of their names, so that the same
files give the same data everywhere.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from regard.core.errors import DataError
from regard.data.lines import not_found, present
from regard.data.settings import Files


def is_pattern(name: str) -> bool:
    """Whether a name stands for files of other names."""
    return glob.has_magic(name) and present(Path(name)) is None


def expanded(files: Files) -> list[Files]:
    """The files, or pairs of files, that are meant: one where nothing is a pattern."""
    if isinstance(files, str):
        return [*_matches(files)]
    sources, targets = map(_matches, files)
    if len(sources) != len(targets):
        raise DataError(
            f"{files[0]} matches {len(sources):,} files and {files[1]} {len(targets):,}: each file "
            f"needs its partner; {_surplus(sources, targets)} is the first that may have none"
        )
    return [*zip(sources, targets, strict=True)]


def check_there(files: Files) -> None:
    """Refuse a pattern that matches nothing, and a file that is not there."""
    for part in expanded(files):
        for name in (part,) if isinstance(part, str) else part:
            if not Path(name).is_file():
                raise DataError(not_found(Path(name)))


def _matches(name: str) -> list[str]:
    """What a pattern matches, in the order of names; any other name stands for itself."""
    if not is_pattern(name):
        return [name]
    every = glob.glob(name, recursive=True)  # noqa: PTH207 - Path.glob refuses a** and the like
    found = sorted(one for one in every if Path(one).is_file())
    if not found:
        raise DataError(f"no file matches the pattern {Path(name).absolute()}; correct it")
    return found


def _surplus(sources: Sequence[str], targets: Sequence[str]) -> str:
    """The first file whose name, up to its first dot, is only on one side."""
    stems = [{Path(one).name.split(".")[0] for one in side} for side in (sources, targets)]
    longer, other = (sources, stems[1]) if len(sources) > len(targets) else (targets, stems[0])
    alone = (one for one in longer if Path(one).name.split(".")[0] not in other)
    return next(alone, longer[min(len(sources), len(targets))])
