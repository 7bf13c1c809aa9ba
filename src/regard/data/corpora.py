"""A user's own files as records: what columns and keys mean for pairs, labels and questions."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from regard.core.errors import ConfigError, DataError
from regard.core.numbers import counted
from regard.core.registry import Registry
from regard.data import readers
from regard.data.document_files import document_rows, joined_text, summarized, text_list
from regard.data.file_patterns import expanded
from regard.data.lines import excerpt, read_lines, read_parallel
from regard.data.picture_boxes import BOX_COLUMNS, CORNERS, boxed_picture
from regard.data.picture_corpora import (
    NAMES_OF_IMAGES,
    album_of,
    captioned_picture,
    idx_rows,
    is_pictures,
    labelled_picture,
    picture_question,
    picture_rows,
    together,
)
from regard.data.picture_files import Album
from regard.data.readers import KEYED, READERS, TABLES, Row, an_object, ending, text_value
from regard.data.records import Corpus, Labelled, Pair, Question
from regard.data.settings import DataSettings, Files

TAB = "\t"
Values = Mapping[str, Any]
HEADERS = frozenset({"label", "labels", "class", "score", "answer", "answers"})
"""What the last column says in a line that names the columns."""


@dataclass(frozen=True, slots=True)
class Schema:
    """What the columns and keys of a row mean, and the record that is made of them."""

    what: str
    """Of what there may be just one file, or that two parallel files are."""
    columns: Mapping[int, tuple[str, ...]]
    """The names of the columns, by how many there are."""
    make: Callable[..., Any]
    """Where a row stands and its values → the record; None where a part of it is empty."""
    patterns: bool = False
    """Whether ``data.pattern`` may describe lines."""
    optional: tuple[str, ...] = ()
    """Keys of JSON that may be missing."""
    formats: tuple[str, ...] = ()
    """Endings of files that are read, where a file of any other name is no table."""
    unfolded: Callable[[Iterator[Row]], Iterator[Row]] | None = None
    """Rows as others write them → rows by our keys, perhaps several of one."""
    pictures: bool = False
    """Whether a row has a picture, or the name of one; ``make`` is then told where they lie."""

    @property
    def required(self) -> tuple[str, ...]:
        """Keys that JSON must have: the names that all numbers of columns share."""
        first, *others = self.columns.values()
        return tuple(name for name in first if all(name in more for more in others))


@dataclass(slots=True)
class Tally:
    """What was found in files beside the records; counted while they are read."""

    n_rows: int = 0
    n_made: int = 0
    """Rows that became records."""
    n_headers: int = 0
    n_unanswered: int = 0

    @property
    def n_empty(self) -> int:
        """Rows that are empty in some part."""
        return self.n_rows - self.n_made - self.n_unanswered


def read_corpus(
    files: Files, kind: str, settings: DataSettings | None = None, split: str = "test"
) -> Corpus[Any]:
    """All records of a kind in a file, in two parallel ones, or in all that a pattern matches.

    Texts lose white space at their ends. The settings say which columns of a table count, or the
    pattern that every line matches, and where the pictures of a ``split`` lie.
    """
    tally = Tally()
    examples: list[Any] = [*read_records(files, kind, settings, split, tally)]
    check_alike(examples)
    if SCHEMAS[kind].pictures:
        examples = [*together(examples)]
        return Corpus(tuple(examples), tally.n_rows - tally.n_made, tally.n_headers)
    headed = _may_have_header(files, settings)
    likely = (
        _likely_header(examples) if kind == "label" and headed and not tally.n_headers else None
    )
    return Corpus(tuple(examples), tally.n_empty, tally.n_headers, tally.n_unanswered, likely)


def read_records(
    files: Files, kind: str, settings: DataSettings | None, split: str, tally: Tally
) -> Iterator[Any]:
    """The records of ``read_corpus`` one by one, so that memory holds no more than is kept."""
    n_before = tally.n_made
    for part in expanded(files):
        for record in _records(part, kind, settings, split, tally):
            tally.n_made += 1
            yield record
    if tally.n_made == n_before:
        name = files if isinstance(files, str) else " and ".join(files)
        counts = {"empty": tally.n_empty, "without an answer": tally.n_unanswered}
        skipped = ", ".join(f"{n} {what}" for what, n in counts.items() if n)
        told = f" ({skipped})" if skipped else ""
        raise DataError(f"{name}: no {SCHEMAS[kind].what} in it; expected one per line{told}")


def _records(
    files: Files, kind: str, settings: DataSettings | None, split: str, tally: Tally
) -> Iterator[Any]:
    """Of one file, or of two parallel ones."""
    schema = SCHEMAS[kind]
    make = _maker(schema, files, settings, split)
    columns, pattern = (None, None) if settings is None else (settings.columns, settings.pattern)
    kind_key = "kind" if settings is None else settings.question_kind
    names = {**dict.fromkeys(NAMES_OF_IMAGES, "image"), kind_key: "kind"} if schema.pictures else {}
    found = _rows(files, schema, pattern)
    found = found if schema.unfolded is None else schema.unfolded(found)
    rows = _named(found, schema, columns if isinstance(files, str) else None, names)
    may_be_header = _may_have_header(files, settings)
    for where, values in rows:
        if may_be_header and values is not None and _is_header(values):
            tally.n_headers += 1
            may_be_header = False
            continue
        may_be_header = False
        tally.n_rows += 1
        record = None if values is None else make(where, values)
        if record is not None:
            yield record
        elif values is not None and values.get("answer") == []:
            tally.n_unanswered += 1


def _may_have_header(files: Files, settings: DataSettings | None) -> bool:
    """Whether a first line may name the columns."""
    described = settings is not None and settings.pattern is not None
    return isinstance(files, str) and ending(Path(files)) not in KEYED and not described


def _maker(
    schema: Schema, files: Files, settings: DataSettings | None, split: str
) -> Callable[[str, Values], Any]:
    """What makes a record of a row."""
    if not schema.pictures:
        return schema.make
    path = files if isinstance(files, str) else files[0]
    if settings is not None and settings.images is not None:
        settings.check_trusted()
    images, folder = (None, "") if settings is None else (settings.images, settings.folder or "")
    beside = Album(Path(path).parent)
    album = beside if is_pictures(files) else album_of(images, split, folder, path)
    return partial(schema.make, album=album)


def check_alike(examples: Iterable[Any]) -> None:
    """All have the same parts as the first; what can be learned from one is asked of another."""
    first, *others = examples
    for name in ("other", "score"):
        missing = getattr(first, name, None) is None
        for one in others:
            if missing != (getattr(one, name, None) is None):
                has, lacks = (one, first) if missing else (first, one)
                raise DataError(
                    f"{lacks.where}: no {name!r}, but {has.where} has one; give it in all lines or "
                    "in none"
                )


def _rows(files: Files, schema: Schema, pattern: str | None) -> Iterator[Row]:
    if pattern is not None and not schema.patterns:
        raise ConfigError(
            f"data.pattern is for texts with labels; of {schema.what}s, name data.columns"
        )
    if not isinstance(files, str):
        if 2 not in schema.columns or (schema.pictures and "label" not in schema.required):
            raise ConfigError(
                f"expected one file of {schema.what}s, but found two: {', '.join(files)}; name one "
                "of them"
            )
        source, target = map(Path, files)
        if schema.pictures:
            return idx_rows(source, target)
        both = enumerate(read_parallel(source, target), start=1)
        return (Row(f"{target}:{number}", row) for number, row in both)
    path = Path(files)
    if schema.pictures and (rows := picture_rows(path)) is not None:
        return rows
    if pattern is not None and ending(path) not in KEYED:
        compiled, layouts = re.compile(pattern), schema.columns.values()
        if {*compiled.groupindex} not in [{*names} for names in layouts]:
            known = " or ".join(", ".join(names) for names in layouts)
            found = ", ".join(compiled.groupindex) or "none"
            raise ConfigError(f"data.pattern: expected the groups {known}, but found {found}")
        return readers.read_matches(path, compiled)
    if schema.formats and ending(path) not in READERS:
        raise DataError(
            f"{path}: a single file must be {', '.join(schema.formats)}, perhaps with .gz or .xz; "
            "two parallel files are given as [source, target]"
        )
    if max(schema.columns) == 1 and ending(path) not in (*TABLES, *KEYED):
        lines = enumerate(read_lines(path), start=1)  # each is one column, tabs and all
        return (Row(f"{path}:{number}", (line,)) for number, line in lines)
    return READERS[ending(path)](path) if ending(path) in READERS else readers.read_table(path)


def _named(
    rows: Iterator[Row],
    schema: Schema,
    columns: tuple[int, ...] | None,
    called: Mapping[str, str],
) -> Iterator[tuple[str, Values | None]]:
    """Where each row stands and its values by name; None for an empty line.

    What others call by another name is ``called`` by ours.
    """
    if columns is not None and len(columns) not in schema.columns:
        layouts = [", ".join(names) for names in schema.columns.values()]
        known = " or ".join(" and ".join(layout.rsplit(", ", 1)) for layout in layouts)
        raise DataError(f"data.columns: expected those of {known}, but found {list(columns)}")
    names: tuple[str, ...] | None = None
    required, keys = schema.required, dict.fromkeys(chain(*schema.columns.values()))
    keys |= dict.fromkeys(schema.optional)
    convert = {**_CONVERT, "answer": _picture_answers} if schema.pictures else _CONVERT
    for where, found, values in rows:
        if values is not None:
            if called and isinstance(values, dict):
                values = {called.get(key, key): value for key, value in values.items()}
            entry = an_object(values, required, where)
            given = {key: entry[key] for key in keys if key in entry}
            converted = {
                key: convert.get(key, text_value)(value, key, where)
                for key, value in given.items()
                if value is not None or key not in ("other", "score", "answer_start")
            }
            yield where, converted
        elif not found:
            yield where, None
        else:
            fields = found if columns is None else _picked(found, columns, where)
            if names is None and schema.pictures and {*fields} & {*NAMES_OF_IMAGES}:
                names = tuple(called.get(name, name) for name in fields)  # names of the columns
                an_object(dict.fromkeys(names), required, where)
                continue
            if names is None:
                names = _layout(fields, schema, where, found)
            if len(fields) != len(names):
                raise DataError(
                    f"{where}: expected {len(names)} columns as in the first line, but found "
                    f"{len(fields)} in {excerpt(TAB.join(found))}"
                )
            yield where, dict(zip(names, fields, strict=True))


def _layout(
    fields: Sequence[str], schema: Schema, where: str, row: Sequence[str]
) -> tuple[str, ...]:
    n = len(fields)
    if n in schema.columns:
        return schema.columns[n]
    known = " or ".join(" TAB ".join(names) for names in schema.columns.values())
    more = "; name the columns that count in data.columns" if n > max(schema.columns) > 1 else ""
    more += "; lines of another kind can be described by data.pattern" if schema.patterns else ""
    told = f"{counted(n, 'column')} in {excerpt(TAB.join(row))}"
    raise DataError(f"{where}: expected {known}, but found {told}{more}")


def _picked(fields: Sequence[str], columns: tuple[int, ...], where: str) -> list[str]:
    if len(fields) < max(columns):
        raise DataError(
            f"{where}: data.columns names column {max(columns)}, but there are {len(fields)} in "
            f"{excerpt(TAB.join(fields))}"
        )
    return [fields[column - 1] for column in columns]


def _is_header(values: Values) -> bool:
    if values == {"document": "document", "summary": "summary"}:
        return True
    last = [values.get(name, "") for name in ("label", "score", "answer")]
    return any(isinstance(part, str) and part.strip().lower() in HEADERS for part in last)


def _likely_header(examples: Sequence[Any]) -> str | None:
    """The label of the first line, if it is the only one that never comes again."""
    counts = Counter(one.label for one in examples)
    once = [label for label, n in counts.items() if n == 1]
    return examples[0].label if once == [examples[0].label] else None


def _label(value: Any, key: str, where: str) -> str:
    """Labels may be whole numbers."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if whole else text_value(value, key, where)


def _score(value: Any, key: str, where: str) -> str:
    if isinstance(value, str) or not isinstance(value, int | float) or isinstance(value, bool):
        raise DataError(f"{where}: expected a number as the score, but found {value!r}")
    return str(value)


def _answers(value: Any, key: str, where: str) -> list[str]:
    """One answer, or several; none, where nothing is said."""
    return [text_value(one, key, where) for one in _many(value)]


def _picture_answers(value: Any, key: str, where: str) -> list[str]:
    """The same about a picture, where how many there are is an answer."""
    return [_label(one, key, where) for one in _many(value)]


def _start(value: Any, key: str, where: str) -> int | None:
    """Where the first answer begins in the context, in characters."""
    for one in _many(value)[:1]:
        if not isinstance(one, int) or isinstance(one, bool):
            raise DataError(f"{where}: {key!r} must be a whole number, but is {one!r}")
        return one
    return None


def _as_it_is(value: Any, key: str, where: str) -> Any:
    """What the record checks."""
    return value


def _many(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


_CONVERT: Mapping[str, Callable[[Any, str, str], Any]] = {
    "label": _label,
    "score": _score,
    "answer": _answers,
    "answer_start": _start,
    "document": joined_text,
    "summary": joined_text,
    "references": text_list,
    **dict.fromkeys(("image", "caption", "split", "kind"), _as_it_is),
    **dict.fromkeys(("boxes", "labels", "width", "height", *CORNERS), _as_it_is),
}


def _pair(where: str, values: Values) -> Pair | None:
    source, target = values["source"].strip(), values["target"].strip()
    return Pair(source, target) if source and target else None


def _labelled(where: str, values: Values) -> Labelled | None:
    parts = {name: part.strip() for name, part in values.items()}
    if not all(parts.values()):
        return None
    score = None if "score" not in parts else _number(parts["score"], where)
    return Labelled(parts["text"], parts.get("other"), parts.get("label"), score, where)


def _number(text: str, where: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise DataError(f"{where}: expected a number as the score, but found {text!r}")
    return score


def _question(where: str, values: Values) -> Question | None:
    """A row whose answer is in its text; any other is refused."""
    question, context = values["question"].strip(), values["context"]
    given = [values["answer"]] if isinstance(values["answer"], str) else values["answer"]
    answers = tuple(dict.fromkeys(one.strip() for one in given if one.strip()))
    if not question or not context.strip() or not given or not given[0].strip():
        return None
    said = values.get("answer_start")
    indent = len(given[0]) - len(given[0].lstrip())
    start = _found(answers[0], context) if said is None else said + indent
    if start is None:
        raise DataError(
            f"{where}: the answer {excerpt(answers[0])} is not in its text {excerpt(context)}; "
            "copy it from there letter by letter"
        )
    there = context[max(start, 0) : max(start, 0) + len(answers[0])]
    if start < 0 or there != answers[0]:
        raise DataError(
            f"{where}: the answer is {excerpt(answers[0])}, but answer_start={said} says "
            f"{excerpt(there)} in the text {excerpt(context)}; correct one of them"
        )
    return Question.of(question, context, answers, start, where)


def _found(answer: str, context: str) -> int | None:
    """Where an answer stands first: as whole words or, where it never does, inside of one."""
    whole = re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", context)
    start = context.find(answer) if whole is None else whole.start()
    return None if start < 0 else start


_LABELLED = {2: ("text", "label"), 3: ("text", "other", "label")}
_SCORED = {2: ("text", "other"), 3: ("text", "other", "score")}
_TEXTS = {1: ("text",), 2: ("text", "other")}
_ASKED = {3: ("question", "context", "answer")}
_PAIR_FORMATS = (".tsv", ".txt", ".csv", *KEYED)

SCHEMAS: Registry[Schema] = Registry("kind of records")
SCHEMAS.add("pair")(Schema("pair", {2: ("source", "target")}, _pair, formats=_PAIR_FORMATS))
SCHEMAS.add("summary")(
    Schema(
        "document with its summary",
        {2: ("document", "summary")},
        summarized,
        optional=("references",),
        formats=_PAIR_FORMATS,
        unfolded=document_rows,
    )
)
SCHEMAS.add("label")(Schema("example", _LABELLED, _labelled, patterns=True))
SCHEMAS.add("score")(Schema("example", _SCORED, _labelled, patterns=True))
SCHEMAS.add("text")(Schema("text", {1: ("text",)}, _labelled, patterns=True))
SCHEMAS.add("texts")(Schema("text", _TEXTS, _labelled, patterns=True))
SCHEMAS.add("question")(Schema("question", _ASKED, _question, optional=("answer_start",)))

SCHEMAS.add("image_label")(
    Schema("picture", {2: ("image", "label")}, labelled_picture, optional=("split",), pictures=True)
)
SCHEMAS.add("caption")(
    Schema(
        "caption", {2: ("image", "caption")}, captioned_picture, optional=("split",), pictures=True
    )
)
SCHEMAS.add("image_question")(
    Schema(
        "question",
        {3: ("question", "answer", "image")},
        picture_question,
        optional=("kind", "split"),
        pictures=True,
    )
)
SCHEMAS.add("boxes")(
    Schema(
        "picture with boxes",
        {len(BOX_COLUMNS): BOX_COLUMNS, 3: ("image", "boxes", "labels")},
        boxed_picture,
        optional=("split", "width", "height"),
        pictures=True,
    )
)
