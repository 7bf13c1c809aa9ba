"""A user's own text: parallel files, TSV or JSONL, plain or packed with gzip or xz."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.core.errors import DataError
from regard.core.registry import did_you_mean
from regard.data.holding_out import hold_out, hold_out_linked
from regard.data.labelled_rows import json_line, text_field
from regard.data.lines import excerpt, present, read_lines, read_parallel
from regard.data.pairs import Pair
from regard.data.settings import DataSettings, Files
from regard.data.table_lines import ending

Rows = Iterator[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Pairs that were read, and how many lines had an empty side and were passed over."""

    pairs: tuple[Pair, ...]
    n_empty: int = 0


def read_splits(settings: DataSettings) -> dict[str, Corpus]:
    """The files of ``train``, ``valid`` and, if there is one, ``test``.

    Without a file for ``valid``, min(1000, 5 %) of ``train`` are held out; where ``hold_out`` is
    given, so many for each of ``valid`` and ``test`` that has none.
    """
    assert settings.train is not None, "a world has no files"
    if settings.pattern is not None:
        raise DataError("data.pattern is for texts with labels; of pairs, name data.columns")
    named = {"train": settings.train, "valid": settings.valid, "test": settings.test}
    found = located({name: files for name, files in named.items() if files}, settings.folder)
    splits = {name: read_pairs(files, settings.columns) for name, files in found.items()}
    if settings.hold_out is not None:
        for name in [name for name in ("test", "valid") if name not in splits]:
            kept, held = hold_out_linked(
                splits["train"].pairs, settings.hold_out, settings.world_seed
            )
            splits |= {"train": replace(splits["train"], pairs=kept), name: Corpus(held)}
    elif "valid" not in splits:
        pairs = splits["train"].pairs
        kept, held = hold_out(pairs, min(1000, len(pairs) // 20), settings.world_seed)
        splits |= {"train": replace(splits["train"], pairs=kept), "valid": Corpus(held)}
    return {name: splits[name] for name in named if name in splits}


def located(named: Mapping[str, Files], folder: str | None) -> dict[str, Files]:
    """The files by split with their folder, packed ones where only those are there.

    With a folder, all that it lacks is told at once: it is likely to be the wrong one.
    """
    home = Path(folder or "")
    missing = [
        name
        for files in named.values()
        for name in ([files] if isinstance(files, str) else files)
        if present(home / name) is None
    ]
    if folder is not None and missing:
        finding = "lacks" if home.is_dir() else "does not exist and should hold"
        raise DataError(
            f"the folder {home.absolute()} {finding} {', '.join(missing)} (.gz and .xz were looked "
            "for too); say where the files lie with data.folder"
        )
    found: dict[str, Files] = {}
    for split, files in named.items():
        if isinstance(files, str):
            found[split] = _located(home, files)
        else:
            found[split] = (_located(home, files[0]), _located(home, files[1]))
    return found


def _located(home: Path, name: str) -> str:
    return str(present(home / name) or home / name)


def read_pairs(files: Files, columns: tuple[int, ...] | None = None) -> Corpus:
    """All pairs of a TSV or JSONL file, or of two parallel files.

    Sentences lose white space at their ends. A line with nothing on either side is skipped and
    counted. ``columns`` of a TSV file are counted from 1; without them it must have just two.
    """
    name = files if isinstance(files, str) else " and ".join(files)
    pairs: list[Pair] = []
    n_empty = 0
    for source, target in map(_stripped, _rows(files, columns)):
        if source and target:
            pairs.append(Pair(source, target))
        else:
            n_empty += 1
    if not pairs and n_empty:
        raise DataError(f"{name}: no line has text on both sides ({n_empty} empty)")
    if not pairs:
        raise DataError(f"{name}: empty; expected one sentence pair a line")
    return Corpus(tuple(pairs), n_empty)


def _stripped(row: tuple[str, str]) -> tuple[str, str]:
    return row[0].strip(), row[1].strip()


def _rows(files: Files, columns: tuple[int, ...] | None) -> Rows:
    if columns is not None and len(columns) != 2:
        raise DataError(
            f"data.columns: expected those of source and target, but found {list(columns)}"
        )
    if not isinstance(files, str):
        return read_parallel(Path(files[0]), Path(files[1]))
    path = Path(files)
    if ending(path) == ".jsonl":
        return _jsonl(path)
    if ending(path) in (".tsv", ".txt"):
        return _tsv(path) if columns is None else _table(path, columns)
    raise DataError(
        f"{path}: a single file must be .tsv, .txt (one tab a line) or .jsonl, perhaps with .gz or "
        ".xz; two parallel files are given as [source, target]"
    )


def _tsv(path: Path) -> Rows:
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split("\t")
        if len(fields) == 2:
            yield fields[0], fields[1]
        elif not line.strip():
            yield "", ""
        else:
            more = "; name two of its columns in data.columns" if len(fields) > 2 else ""
            raise DataError(
                f"{path}:{number}: expected source, one tab, target, "
                f"but found {len(fields) - 1} tabs in {excerpt(line)}{more}"
            )


def _table(path: Path, columns: tuple[int, ...]) -> Rows:
    source, target = columns
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split("\t")
        if len(fields) >= max(columns):
            yield fields[source - 1], fields[target - 1]
        elif not line.strip():
            yield "", ""
        else:
            raise DataError(
                f"{path}:{number}: data.columns names column {max(columns)}, but there are "
                f"{len(fields)} in {excerpt(line)}"
            )


def _jsonl(path: Path) -> Rows:
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            yield "", ""
            continue
        where = f"{path}:{number}"
        entry = json_line(line, where)
        yield _text(entry, "source", where), _text(entry, "target", where)


def _text(entry: Any, key: str, where: str) -> str:
    expected = '{"source": "…", "target": "…"}'
    if not isinstance(entry, dict):
        raise DataError(f"{where}: expected {expected}, but found {excerpt(json.dumps(entry))}")
    if key not in entry:
        keys = ", ".join(map(repr, entry)) or "none"
        hint = did_you_mean(key, entry)
        raise DataError(f"{where}: no key {key!r}{hint}; expected {expected}, found keys {keys}")
    return text_field(entry[key], key, where)
