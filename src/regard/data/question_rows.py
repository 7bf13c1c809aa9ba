"""Questions in files, as they stand there: TSV, JSONL, or one JSON in the form of SQuAD."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.errors import ConfigError, DataError
from regard.data.labelled_rows import json_line, rows_of, text_field
from regard.data.lines import excerpt, read_bytes, read_lines
from regard.data.settings import Files
from regard.data.table_lines import ending

MUST = ("question", "context", "answer")
"""What a line of JSON must have."""
_SQUAD = "expected SQuAD's form (data, paragraphs, context, qas, question, answers, text)"


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """One question. Nothing is checked yet but that texts are texts."""

    where: str
    question: str
    context: str
    answers: tuple[str, ...]
    """None, where a file says that there is no answer in the text."""
    start: int | None = None
    """Where the file says that the first answer begins in the context, in characters."""
    is_header: bool = False


def question_rows(
    files: Files, columns: tuple[int, ...] | None = None, pattern: str | None = None
) -> Iterator[QuestionRow]:
    """The questions of a file; its name tells the form."""
    if not isinstance(files, str):
        raise ConfigError(
            f"expected one file of questions, but found two: {', '.join(files)}; name one of them"
        )
    if pattern is not None:
        raise ConfigError("data.pattern is for texts with labels; of questions, name data.columns")
    path = Path(files)
    kind = ending(path)
    if kind == ".jsonl":
        return _jsonl(path)
    return _squad(path) if kind == ".json" else _table(path, columns)


def _table(path: Path, columns: tuple[int, ...] | None) -> Iterator[QuestionRow]:
    """A question, its text and its answer, with tabs between them."""
    rows = rows_of(str(path), "answer", columns, None)
    for row in rows:
        question, context, answer = (row.parts[name] for name in MUST)
        yield QuestionRow(row.where, question, context, (answer,))
    if rows.n_headers:
        yield QuestionRow(f"{path}:1", "", "", (), is_header=True)


def _jsonl(path: Path) -> Iterator[QuestionRow]:
    for number, line in enumerate(read_lines(path), start=1):
        where = f"{path}:{number}"
        if not line.strip():
            yield QuestionRow(where, "", "", ("",))
            continue
        entry = _object(json_line(line, where), MUST, where)
        question, context = (text_field(entry[key], key, where) for key in MUST[:2])
        answers = _many(entry["answer"])
        starts = _many(entry.get("answer_start"))
        yield QuestionRow(
            where,
            question,
            context,
            tuple(text_field(answer, "answer", where) for answer in answers),
            _number(starts[0], where) if starts else None,
        )


def _squad(path: Path) -> Iterator[QuestionRow]:
    """{"data": [{"paragraphs": [{"context": …, "qas": [{"question", "id", "answers"}]}]}]}."""
    try:
        whole = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON ({error})") from None
    n = 0
    for article in _list(_object(whole, ("data",), str(path))["data"], "data", str(path)):
        held = _object(article, ("paragraphs",), str(path))["paragraphs"]
        for paragraph in _list(held, "paragraphs", str(path)):
            asked = _object(paragraph, ("context", "qas"), str(path))
            context = text_field(asked["context"], "context", str(path))
            for entry in _list(asked["qas"], "qas", str(path)):
                n += 1
                yield _of_squad(entry, context, f"{path}: question number {n}", path)


def _of_squad(entry: Any, context: str, where: str, path: Path) -> QuestionRow:
    asked = _object(entry, ("question", "answers"), where)
    if isinstance(asked.get("id"), str | int):
        where = f"{path}: question {asked['id']}"
    found = [_object(one, ("text",), where) for one in _list(asked["answers"], "answers", where)]
    starts = [one.get("answer_start") for one in found[:1]]
    return QuestionRow(
        where,
        text_field(asked["question"], "question", where),
        context,
        tuple(text_field(one["text"], "text", where) for one in found),
        None if not starts or starts[0] is None else _number(starts[0], where),
    )


def _object(entry: Any, must: Sequence[str], where: str) -> Mapping[str, Any]:
    if isinstance(entry, dict) and all(key in entry for key in must):
        return entry
    found = ", ".join(map(repr, entry)) if isinstance(entry, dict) else excerpt(json.dumps(entry))
    raise DataError(
        f"{where}: expected an object with {' and '.join(map(repr, must))}, but found "
        f"{found or 'nothing in it'}"
    )


def _list(value: Any, key: str, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise DataError(f"{where}: {_SQUAD}, but {key!r} is {excerpt(json.dumps(value))}, no list")
    return value


def _many(value: Any) -> list[Any]:
    """One thing, or several; none, where nothing is said."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _number(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise DataError(
            f"{where}: 'answer_start' must be a whole number, but is {excerpt(json.dumps(value))}"
        )
    return value
