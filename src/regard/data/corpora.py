"""A user's own text: parallel files, TSV or JSONL, plain or packed with gzip or xz."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from regard.core.errors import DataError
from regard.core.registry import did_you_mean
from regard.data.lines import excerpt, read_lines, read_parallel
from regard.data.pairs import Pair
from regard.data.settings import DataSettings, Files

Rows = Iterator[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Pairs that were read, and how many lines had an empty side and were passed over."""

    pairs: tuple[Pair, ...]
    n_empty: int = 0


def read_splits(settings: DataSettings) -> dict[str, Corpus]:
    """The files of ``train``, ``valid`` and, if there is one, ``test``.

    Without a file for ``valid``, min(1000, 5 %) of ``train`` are held out.
    """
    assert settings.train is not None, "a world has no files"
    splits = {"train": read_pairs(settings.train)}
    if settings.valid is not None:
        splits["valid"] = read_pairs(settings.valid)
    else:
        pairs, n_empty = splits["train"].pairs, splits["train"].n_empty
        kept, held = hold_out(pairs, min(1000, len(pairs) // 20), settings.world_seed)
        splits |= {"train": Corpus(kept, n_empty), "valid": Corpus(held)}
    if settings.test is not None:
        splits["test"] = read_pairs(settings.test)
    return splits


def read_pairs(files: Files) -> Corpus:
    """All pairs of a TSV or JSONL file, or of two parallel files.

    Sentences lose white space at their ends. A line with nothing on either side is skipped and
    counted.
    """
    name = files if isinstance(files, str) else " and ".join(files)
    pairs: list[Pair] = []
    n_empty = 0
    for source, target in map(_stripped, _rows(files)):
        if source and target:
            pairs.append(Pair(source, target))
        else:
            n_empty += 1
    if not pairs and n_empty:
        raise DataError(f"{name}: no line has text on both sides ({n_empty} empty)")
    if not pairs:
        raise DataError(f"{name}: empty; expected one sentence pair a line")
    return Corpus(tuple(pairs), n_empty)


def hold_out(
    pairs: tuple[Pair, ...], n: int, seed: int
) -> tuple[tuple[Pair, ...], tuple[Pair, ...]]:
    """Pairs to keep and about ``n`` (at least one) to hold out, both in their old order.

    All pairs with the same source go to the same side, so nothing is scored that was trained on.
    A hash of source and seed chooses, so the choice does not depend on the order of the lines.
    """
    sizes: dict[str, int] = {}
    for pair in pairs:
        sizes[pair.source] = sizes.get(pair.source, 0) + 1
    if len(sizes) < 2:
        raise DataError(
            f"cannot hold out data for validation: there is only {len(sizes)} source sentence; "
            "give more, or name files in data.valid"
        )
    chosen: set[str] = set()
    room = max(n, 1)
    for source in sorted(sizes, key=lambda source: _rank(source, seed))[:-1]:
        if sizes[source] <= room or not chosen:
            chosen.add(source)
            room -= sizes[source]
    kept = tuple(pair for pair in pairs if pair.source not in chosen)
    held = tuple(pair for pair in pairs if pair.source in chosen)
    return kept, held


def _rank(source: str, seed: int) -> bytes:
    return blake2b(f"{seed} {source}".encode(), digest_size=8).digest()


def _stripped(row: tuple[str, str]) -> tuple[str, str]:
    return row[0].strip(), row[1].strip()


def _rows(files: Files) -> Rows:
    if not isinstance(files, str):
        return read_parallel(Path(files[0]), Path(files[1]))
    path = Path(files)
    plain = path.with_suffix("") if path.suffix in (".gz", ".xz") else path
    readers = {".tsv": _tsv, ".jsonl": _jsonl}
    if plain.suffix not in readers:
        raise DataError(
            f"{path}: a single file must be .tsv or .jsonl, perhaps with .gz or .xz; "
            "two parallel files are given as [source, target]"
        )
    return readers[plain.suffix](path)


def _tsv(path: Path) -> Rows:
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split("\t")
        if len(fields) == 2:
            yield fields[0], fields[1]
        elif not line.strip():
            yield "", ""
        else:
            raise DataError(
                f"{path}:{number}: expected source, one tab, target, "
                f"but found {len(fields) - 1} tabs in {excerpt(line)}"
            )


def _jsonl(path: Path) -> Rows:
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            yield "", ""
            continue
        where = f"{path}:{number}"
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: not JSON ({error}) in {excerpt(line)}") from None
        yield _text(entry, "source", where), _text(entry, "target", where)


def _text(entry: Any, key: str, where: str) -> str:
    expected = '{"source": "…", "target": "…"}'
    if not isinstance(entry, dict):
        raise DataError(f"{where}: expected {expected}, but found {excerpt(json.dumps(entry))}")
    if key not in entry:
        keys = ", ".join(map(repr, entry)) or "none"
        hint = did_you_mean(key, entry)
        raise DataError(f"{where}: no key {key!r}{hint}; expected {expected}, found keys {keys}")
    text = entry[key]
    if not isinstance(text, str):
        raise DataError(f"{where}: {key!r} must be a string, but is {excerpt(json.dumps(text))}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DataError(f"{where}: {key!r} holds half a character (a lone surrogate)") from None
    return text
