"""Lines of labelled files, cut into their parts; whatever is wrong is told with file and line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.counting import counted
from regard.core.errors import ConfigError, DataError
from regard.data.lines import excerpt, read_lines, read_parallel
from regard.data.settings import Files
from regard.data.table_lines import ending, table_lines

TABLES = (".tsv", ".csv")
"""Files whose lines are rows, whatever they hold."""
LAYOUTS: Mapping[str, Mapping[int, tuple[str, ...]]] = {
    "label": {2: ("text", "label"), 3: ("text", "other", "label")},
    "score": {2: ("text", "other"), 3: ("text", "other", "score")},
    "text": {1: ("text",)},
    "answer": {3: ("question", "context", "answer")},
}
"""What the columns of a table are, by what is wanted and by how many there are."""
HEADERS = frozenset({"label", "labels", "class", "score", "answer", "answers"})
"""What the last part says in a line that names the columns."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line: ``text``, perhaps ``other``, perhaps ``label`` or ``score``; or a question."""

    where: str
    parts: Mapping[str, str]


class Rows(Iterator[Row]):
    """The rows of a file, counted as they come; a header is none.

    ``headed`` says whether such a file may have one.
    """

    def __init__(self, rows: Iterator[Row], *, headed: bool) -> None:
        self._rows, self.headed = rows, headed
        self.n_rows = self.n_headers = 0

    def __next__(self) -> Row:
        row = next(self._rows)
        if self.headed and not self.n_rows and not self.n_headers and _is_header(row):
            self.n_headers = 1
            row = next(self._rows)
        self.n_rows += 1
        return row


def rows_of(
    files: Files, wanted: str, columns: tuple[int, ...] | None, pattern: str | None
) -> Rows:
    """The rows of one file, or of two parallel ones."""
    layouts = LAYOUTS[wanted]
    if not isinstance(files, str):
        if 2 not in layouts:
            raise ConfigError(
                f"expected one file of texts, but found two: {', '.join(files)}; name one of them"
            )
        return Rows(_parallel(files, layouts[2]), headed=False)
    path = Path(files)
    if ending(path) == ".jsonl":
        return Rows(_jsonl(path, wanted), headed=False)
    if pattern is not None:
        return Rows(_matched(path, re.compile(pattern), wanted), headed=False)
    if wanted == "text" and ending(path) not in TABLES:
        lines = enumerate(read_lines(path), start=1)
        return Rows((Row(f"{path}:{n}", {"text": line}) for n, line in lines), headed=False)
    return Rows(_table(path, layouts, columns), headed=True)


def _is_header(row: Row) -> bool:
    last = [row.parts.get(name, "") for name in ("label", "score", "answer")]
    return any(part.strip().lower() in HEADERS for part in last)


def _parallel(files: tuple[str, str], names: tuple[str, ...]) -> Iterator[Row]:
    both = read_parallel(Path(files[0]), Path(files[1]))
    for number, row in enumerate(both, start=1):
        yield Row(f"{files[1]}:{number}", dict(zip(names, row, strict=True)))


def _table(
    path: Path, layouts: Mapping[int, tuple[str, ...]], columns: tuple[int, ...] | None
) -> Iterator[Row]:
    """Comma-separated where the file is called .csv, else tab-separated."""
    expected = None
    for number, line in table_lines(path):
        where = f"{path}:{number}"
        fields = line.split("\t") if line.strip() else []
        if columns is not None and fields:
            fields = _picked(fields, columns, where)
        if fields and expected is None:
            expected = _layout(len(fields), layouts, where, line)
        if fields and expected is not None and len(fields) != len(expected):
            raise DataError(
                f"{where}: expected {len(expected)} columns as in the first line, but found "
                f"{len(fields)} in {excerpt(line)}"
            )
        names = expected or next(iter(layouts.values()))
        yield Row(where, dict(zip(names, fields or [""] * len(names), strict=True)))


def _picked(fields: list[str], columns: tuple[int, ...], where: str) -> list[str]:
    if len(fields) < max(columns):
        raise DataError(
            f"{where}: data.columns names column {max(columns)}, but there are {len(fields)} in "
            f"{excerpt(chr(9).join(fields))}"
        )
    return [fields[column - 1] for column in columns]


def _layout(
    n: int, layouts: Mapping[int, tuple[str, ...]], where: str, line: str
) -> tuple[str, ...]:
    if n in layouts:
        return layouts[n]
    known = " or ".join(" TAB ".join(names) for names in layouts.values())
    more = "; name the columns that count in data.columns" if n > max(layouts) > 1 else ""
    raise DataError(
        f"{where}: expected {known}, but found {counted(n, 'column')} in {excerpt(line)}{more}; "
        "lines of another kind can be described by data.pattern"
    )


def _matched(path: Path, pattern: re.Pattern[str], wanted: str) -> Iterator[Row]:
    names = tuple(pattern.groupindex)
    if set(names) not in [set(layout) for layout in LAYOUTS[wanted].values()]:
        known = " or ".join(", ".join(layout) for layout in LAYOUTS[wanted].values())
        found = ", ".join(names) or "none"
        raise ConfigError(f"data.pattern: expected the groups {known}, but found {found}")
    for number, line in table_lines(path):
        match = pattern.fullmatch(line)
        if match is None and line.strip():
            raise DataError(
                f"{path}:{number}: data.pattern does not match {excerpt(line)}; correct one of them"
            )
        parts = dict.fromkeys(names, "") if match is None else match.groupdict(default="")
        yield Row(f"{path}:{number}", parts)


def _jsonl(path: Path, wanted: str) -> Iterator[Row]:
    for number, line in enumerate(read_lines(path), start=1):
        where = f"{path}:{number}"
        if not line.strip():
            yield Row(where, {"text": ""})
            continue
        yield Row(where, _entry(json_line(line, where), wanted, where))


def json_line(line: str, where: str) -> Any:
    """What a line of JSON says."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON ({error}) in {excerpt(line)}") from None


def _entry(entry: Any, wanted: str, where: str) -> dict[str, str]:
    """The keys that count; others are passed over."""
    must, may = {
        "label": (("text", "label"), ("other",)),
        "score": (("text", "other"), ("score",)),
        "text": (("text",), ()),
    }[wanted]
    if not isinstance(entry, dict) or any(key not in entry for key in must):
        found = ", ".join(map(repr, entry)) if isinstance(entry, dict) else excerpt(str(entry))
        raise DataError(
            f"{where}: expected an object with {' and '.join(map(repr, must))}, but found "
            f"{found or 'nothing in it'}"
        )
    keys = [key for key in (*must, *may) if entry.get(key) is not None or key in must]
    return {key: _FIELDS.get(key, text_field)(entry[key], key, where) for key in keys}


def text_field(value: Any, key: str, where: str) -> str:
    """A field that must be a text."""
    if not isinstance(value, str):
        raise DataError(f"{where}: {key!r} must be a string, but is {excerpt(json.dumps(value))}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DataError(f"{where}: {key!r} holds half a character (a lone surrogate)") from None
    return value


def _label(value: Any, key: str, where: str) -> str:
    """Labels may be numbers."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if whole else text_field(value, key, where)


def _score(value: Any, key: str, where: str) -> str:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise DataError(
            f"{where}: expected a number as the score, but found {excerpt(json.dumps(value))}"
        )
    return str(value)


_FIELDS: dict[str, Callable[[Any, str, str], str]] = {"label": _label, "score": _score}
