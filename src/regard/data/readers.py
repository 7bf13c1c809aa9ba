"""Readers of data files by format: tables, JSON lines, Parquet, SQuAD's JSON, a pattern.

A reader gives rows that know where they stand; what their columns or keys mean, a schema says
(``regard.data.corpora``). Another format is one more entry in ``READERS``, under the ending of its
files' names.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import DataError
from regard.core.registry import Registry, did_you_mean
from regard.data.lines import LONGEST, PACKED, excerpt, not_found, read_bytes, read_lines


class Row(NamedTuple):
    """One entry of a file: either columns, which have no names yet, or values by name."""

    where: str
    """``file:line``, for messages."""
    columns: Sequence[str] = ()
    values: Any = None


Reader = Callable[[Path], Iterator[Row]]

READERS: Registry[Reader] = Registry("file format")
TABLES = (".tsv", ".csv")
"""Files whose lines are rows of a table, whatever they hold."""
KEYED = (".jsonl", ".parquet")
"""Files whose rows have values by name."""
AT_ONCE = 4096
"""Rows of Parquet that are in memory together."""
_INSIDE = str.maketrans("\t\r\n", "   ")
"""What a field of CSV may hold, and a column may not."""


def ending(path: Path) -> str:
    """The last part of a file's name that is not about packing, in small letters."""
    return (path.with_suffix("") if path.suffix.lower() in PACKED else path).suffix.lower()


@READERS.add(".tsv")
@READERS.add(".txt")
@READERS.add(".csv")
def read_table(path: Path) -> Iterator[Row]:
    """Tab-separated lines, or records of .csv; an empty line is a row without columns."""
    for number, line in table_lines(path):
        yield Row(f"{path}:{number}", line.split("\t") if line.strip() else ())


def table_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a table, each with its number; what a .csv file divides by commas, tabs divide.

    A record of CSV has the number of its first line. A .csv file with a tab in its first line is
    tab-separated in spite of its name.
    """
    lines = read_lines(path)
    if ending(path) == ".csv":
        first = next(lines, "")
        lines = chain([first], lines)
        if "\t" not in first:
            return _csv_records(path, lines)
    return enumerate(lines, start=1)


def _csv_records(path: Path, lines: Iterator[str]) -> Iterator[tuple[int, str]]:
    csv.field_size_limit(LONGEST)  # a field may be as long as a line
    reader = csv.reader((f"{line}\n" for line in lines), strict=True)
    number = 1
    try:
        for record in reader:
            yield number, "\t".join(field.translate(_INSIDE) for field in record)
            number = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{path}:{number}: not CSV ({error}); a field with commas or quotes stands in double "
            "quotes, and a quote inside it is doubled"
        ) from None


def read_matches(path: Path, pattern: re.Pattern[str]) -> Iterator[Row]:
    """The named groups of a pattern that every line matches; empty ones for an empty line."""
    for number, line in table_lines(path):
        match = pattern.fullmatch(line)
        if match is None and line.strip():
            raise DataError(
                f"{path}:{number}: data.pattern does not match {excerpt(line)}; correct one of them"
            )
        groups = dict.fromkeys(pattern.groupindex, "")
        yield Row(f"{path}:{number}", values=groups if match is None else match.groupdict(""))


@READERS.add(".jsonl")
def read_json_lines(path: Path) -> Iterator[Row]:
    """An object a line, which is not looked at; an empty line is a row without columns."""
    for number, line in enumerate(read_lines(path), start=1):
        where = f"{path}:{number}"
        if not line.strip():
            yield Row(where)
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: not JSON ({error}) in {excerpt(line)}") from None
        yield Row(where, values="null" if entry is None else entry)


@READERS.add(".parquet")
def read_parquet(path: Path) -> Iterator[Row]:
    """Rows of a Parquet file, a few at a time; the names of columns are what keys are in JSONL."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise DataError(
            f"{path}: Parquet needs pyarrow, which is not installed; install the extra: "
            "pip install 'regard[parquet]'"
        ) from None
    try:
        with parquet.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(AT_ONCE):
                for values in batch.to_pylist():
                    number += 1
                    yield Row(f"{path}: row {number}", values=values)
    except FileNotFoundError:
        raise DataError(not_found(path)) from None
    except (OSError, ArrowException) as error:
        reason = str(error).split("\n")[0]
        raise DataError(f"{path}: cannot be read as Parquet ({reason}); fetch it again") from None


@READERS.add(".json")
def read_squad(path: Path) -> Iterator[Row]:
    """Questions in one JSON as SQuAD has it: data, paragraphs, context, qas, question, answers.

    Gives ``question``, ``context``, ``answer`` (a list of texts) and ``answer_start`` (a list).
    """
    try:
        whole = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON ({error})") from None
    name, n = str(path), 0
    for article in _squad_list(an_object(whole, ("data",), name), "data", name):
        for paragraph in _squad_list(an_object(article, ("paragraphs",), name), "paragraphs", name):
            asked = an_object(paragraph, ("context", "qas"), name)
            for entry in _squad_list(asked, "qas", name):
                n += 1
                yield _squad_row(entry, asked["context"], f"{path}: question number {n}", path)


def _squad_row(entry: Any, context: Any, where: str, path: Path) -> Row:
    asked = an_object(entry, ("question", "answers"), where)
    if isinstance(asked.get("id"), str | int):
        where = f"{path}: question {asked['id']}"
    found = [an_object(one, ("text",), where) for one in _squad_list(asked, "answers", where)]
    starts = [one["answer_start"] for one in found[:1] if one.get("answer_start") is not None]
    texts = [one["text"] for one in found]
    values = {"context": context, "answer": texts, "answer_start": starts}
    return Row(where, values={"question": asked["question"], **values})


def _squad_list(entry: Mapping[str, Any], key: str, where: str) -> list[Any]:
    if not isinstance(entry[key], list):
        raise DataError(
            f"{where}: expected SQuAD's form (data, paragraphs, context, qas, question, answers, "
            f"text), but {key!r} is {excerpt(json.dumps(entry[key]))}, no list"
        )
    return entry[key]


def an_object(entry: Any, must: Sequence[str], where: str) -> Mapping[str, Any]:
    """A JSON object that has some keys; anything else is refused."""
    if isinstance(entry, dict) and all(key in entry for key in must):
        return entry
    wanted = " and ".join(map(repr, must))
    if not isinstance(entry, dict):
        found = excerpt(json.dumps(entry))
        raise DataError(f"{where}: expected an object with {wanted}, but found {found}")
    missing = next(key for key in must if key not in entry)
    hint, found = did_you_mean(missing, entry), ", ".join(map(repr, entry)) or "nothing in it"
    raise DataError(
        f"{where}: no key {missing!r}{hint}; expected an object with {wanted}, but found {found}"
    )


def text_value(value: Any, key: str, where: str) -> str:
    """A value that must be a text."""
    if not isinstance(value, str):
        found = json.dumps(value, default=str)  # Parquet has bytes and dates
        raise DataError(f"{where}: {key!r} must be a string, but is {excerpt(found)}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise DataError(f"{where}: {key!r} holds half a character (a lone surrogate)") from None
    return value
