"""Documents with summaries in JSON: our keys, and those of public data sets.

Ours are ``document``, ``summary`` and perhaps ``references``, all summaries that are right. A text
may be a list of sentences. Of a set with questions, each question is a document of its own that
begins with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from regard.core.errors import DataError
from regard.data.readers import Row, an_object, text_value
from regard.data.records import Document

Values = Mapping[str, Any]


def summarized(where: str, values: Values) -> Document | None:
    """The record of a row; None where a part of it is empty. White space is one space."""
    document, summary = (" ".join(values[key].split()) for key in ("document", "summary"))
    several = (" ".join(one.split()) for one in values.get("references", ()))
    references = tuple(dict.fromkeys(one for one in several if one))
    if not document or not summary:
        return None
    return Document(document, summary, references=references if len(references) > 1 else ())


def joined_text(value: Any, key: str, where: str) -> str:
    """A text, or the sentences of one."""
    return " ".join(text_list(value, key, where))


def text_list(value: Any, key: str, where: str) -> list[str]:
    """Some texts, or one."""
    several = value if isinstance(value, list) else [value]
    return [text_value(one, key, where) for one in several]


def document_rows(rows: Iterator[Row]) -> Iterator[Row]:
    """Rows by our keys: what a public data set has under its own is found by them."""
    for row in rows:
        layout = None
        if isinstance(row.values, dict):
            layout = next((one for keys, one in LAYOUTS.items() if {*keys} <= {*row.values}), None)
        if layout is None:
            yield row
        else:
            for document, summaries in layout(row.values, row.where):
                first = {"summary": summaries[0] if summaries else "", "references": summaries}
                yield Row(row.where, values={"document": document, **first})


Found = Iterator[tuple[str, list[str]]]
"""Documents, each with all its summaries."""


def _aeslc(values: Values, where: str) -> Found:
    """An e-mail and its subject lines (Zhang & Tetreault 2019)."""
    yield joined_text(values["body"], "body", where), _texts(values, "subjects", where)


def _scitldr(values: Values, where: str) -> Found:
    """The sentences of an abstract, and what they come to (Cachola et al. 2020)."""
    yield joined_text(values["source"], "source", where), _texts(values, "target", where)


def _squality(values: Values, where: str) -> Found:
    """A story, and questions with several answers each (Wang et al. 2022)."""
    story = joined_text(values["document"], "document", where)
    for asked in _objects(values, "questions", ("question_text", "responses"), where):
        question = text_value(asked["question_text"], "question_text", where)
        answers = _objects(asked, "responses", ("response_text",), where)
        said = [text_value(one["response_text"], "response_text", where) for one in answers]
        yield f"{question} {story}", said


def _qmsum(values: Values, where: str) -> Found:
    """A meeting, and queries with an answer each (Zhong et al. 2021)."""
    turns = _objects(values, "meeting_transcripts", ("speaker", "content"), where)
    meeting = " ".join(f"{one['speaker']}: {one['content']}" for one in turns)
    for key in ("general_query_list", "specific_query_list"):
        for asked in _objects(values, key, ("query", "answer"), where) if key in values else ():
            query, answer = (text_value(asked[name], name, where) for name in ("query", "answer"))
            yield f"{query} {meeting}", [answer]


def _scisummnet(values: Values, where: str) -> Found:
    """A paper's title and sections, and a summary that people wrote (Yasunaga et al. 2019)."""
    sections = _objects(values, "sections", ("title", "sentences"), where)
    parts = [(one["title"], joined_text(one["sentences"], "sentences", where)) for one in sections]
    paper = " ".join(f"{title} {text}" for title, text in parts)
    summary = joined_text(values["human_summary"], "human_summary", where)
    yield f"{values.get('title', '')} {paper}", [summary]


LAYOUTS: Mapping[tuple[str, ...], Callable[[Values, str], Found]] = {
    ("body", "subjects"): _aeslc,
    ("source", "target"): _scitldr,
    ("document", "questions"): _squality,
    ("meeting_transcripts", "general_query_list"): _qmsum,
    ("sections", "human_summary"): _scisummnet,
}
"""By the keys that tell them apart."""


def _texts(values: Values, key: str, where: str) -> list[str]:
    return text_list(values[key], key, where)


def _objects(values: Values, key: str, must: Sequence[str], where: str) -> list[Values]:
    """The objects of a list, each with the keys that it must have."""
    if not isinstance(values[key], list):
        raise DataError(f"{where}: {key!r} must be a list of objects")
    return [an_object(one, must, where) for one in values[key]]
