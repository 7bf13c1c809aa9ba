"""Lines of tables: tab-separated as they are, and records of CSV turned into such lines."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from regard.core.errors import DataError
from regard.data.lines import LONGEST, PACKED, read_lines

_INSIDE = str.maketrans("\t\r\n", "   ")
"""What a field of CSV may hold, and a field of a line may not."""


def table_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file, each with its number; what a .csv file divides by commas, tabs divide.

    A record of CSV has the number of its first line. A .csv file with a tab in its first line is
    tab-separated in spite of its name.
    """
    lines = read_lines(path)
    if ending(path) == ".csv":
        first = next(lines, "")
        lines = chain([first], lines)
        if "\t" not in first:
            return _records(path, lines)
    return enumerate(lines, start=1)


def ending(path: Path) -> str:
    """The last part of a file's name that is not about packing, in small letters."""
    return (path.with_suffix("") if path.suffix.lower() in PACKED else path).suffix.lower()


def _records(path: Path, lines: Iterator[str]) -> Iterator[tuple[int, str]]:
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
