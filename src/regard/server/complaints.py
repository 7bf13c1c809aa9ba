"""What is wrong with a request, in words for people: pydantic's own speak of its types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

HALF = "string_unicode"
"""Pydantic's name for a text with a lone surrogate; with it, no alternative of a field fits."""
_MOST = 5
"""So many complaints are told at once."""
_OBJECT = "must be a JSON object"
_NUMBER = "must be a number"
_WHOLE = "must be a whole number"
_FLAG = "must be true or false"

Words = str | Callable[[Mapping[str, Any]], str]

_WORDS: Mapping[str, Words] = {
    "missing": "is missing",
    "extra_forbidden": "is not known here",
    "string_type": "must be a text",
    HALF: "must be a text in Unicode, and it holds half a character",
    "string_too_long": lambda about: f"may have at most {about['max_length']:,} characters",
    "string_too_short": "must not be empty",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "int_parsing_size": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": _NUMBER,
    "greater_than_equal": lambda about: f"must be at least {about['ge']}",
    "less_than_equal": lambda about: f"must be at most {about['le']}",
    "list_type": "must be a list",
    "too_short": "must not be empty",
    "bool_type": _FLAG,
    "bool_parsing": _FLAG,
    "greater_than": lambda about: f"must be more than {about['gt']}",
    "less_than": lambda about: f"must be less than {about['lt']}",
    "too_long": lambda about: f"may have at most {about['max_length']} entries",
    "literal_error": lambda about: f"must be {about['expected']}",
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "dict_type": _OBJECT,
    "json_invalid": "is no JSON",
    "union_tag_not_found": lambda about: f"needs a field {_plain(about['discriminator'])}",
    "union_tag_invalid": lambda about: (
        f"has no known {_plain(about['discriminator'])}; it must be one of {about['expected_tags']}"
    ),
    "value_error": lambda about: str(about["error"]),
}
"""The kinds of errors that requests can cause; the last one is that of our own checks."""


def problems(errors: Iterable[Mapping[str, Any]]) -> str:
    """What pydantic found, in one line. What was sent is not repeated.

    >>> problems([{"type": "missing", "loc": ("body", "q"), "msg": "Field required"}])
    'q is missing'
    >>> problems([{"type": "model_type", "loc": (), "msg": "…"}])
    'the body must be a JSON object'
    """
    found = list(errors)
    halves = [error for error in found if error["type"] == HALF]
    told = [f"{_place(error)} {_said(error)}" for error in halves or found]
    return "; ".join(list(dict.fromkeys(told))[:_MOST])


def _said(error: Mapping[str, Any]) -> str:
    words = _WORDS.get(error["type"])
    if words is None:
        return f"is wrong: {error['msg']}"
    return words if isinstance(words, str) else words(error.get("ctx", {}))


def _place(error: Mapping[str, Any]) -> str:
    """The field, and for broken JSON, whose place is a number of letters, the whole body.

    Pydantic's names of the alternatives of a field, as ``list[constrained-str]``, are left out.
    """
    parts = [] if error["type"] == "json_invalid" else map(str, error["loc"])
    names = (part for part in parts if part not in ("body", "query"))
    where = [part for part in names if "constrained-" not in part]
    return ".".join(where)[:100] or "the body"


def _plain(name: str) -> str:
    """Pydantic quotes the names of fields."""
    return name.strip("'")
