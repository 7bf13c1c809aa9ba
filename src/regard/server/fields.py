"""What fields of requests may hold, where pydantic's own words would speak of its types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from pydantic import BaseModel, ValidationInfo, field_validator

from regard.server.limits import MAX_CHARACTERS, MAX_NAME, MAX_TEXTS

MAX_STOPS = 16
"""Words before which a text ends."""


def texts(
    most: int = MAX_TEXTS, characters: int = MAX_CHARACTERS, *, none: bool = True
) -> Callable[[Any], Any]:
    """A check for a text or a list of texts, of which there may be ``none``."""

    def checked(value: Any) -> Any:
        many = value if isinstance(value, list) else [value]
        if not all(isinstance(one, str) for one in many) or len(many) > most:
            raise ValueError(f"must be a text or a list of at most {most} texts")
        if any(len(one) > characters for one in many):
            raise ValueError(f"may have at most {characters:,} characters a text")
        if not many and not none:
            raise ValueError("must not be empty")
        return value

    return checked


def stops(value: Any) -> Any:
    """A check for words before which a text ends; there may be none."""
    if value is None:
        return value
    texts(MAX_STOPS, MAX_NAME)(value)
    if value == "" or "" in list(value):
        raise ValueError("must not hold an empty text")
    return value


def parts(value: Any) -> Any:
    """A check for what somebody says: a text, or parts of one; pictures and sounds are none."""
    if isinstance(value, list):
        if any(not isinstance(one, dict) or one.get("type") != "text" for one in value):
            raise ValueError('may have parts of the "type" "text" only')
        texts()([one.get("text") for one in value])
    else:
        texts()(value)
    return value


class Numbered(BaseModel):
    """Requests whose numbers are numbers: pydantic takes true for 1."""

    @field_validator("*", mode="before")
    @classmethod
    def _numbers(cls, value: Any, info: ValidationInfo) -> Any:
        kind = cls.model_fields[info.field_name or ""].annotation
        return no_flag(value) if {int, float} & {kind, *get_args(kind)} else value


def no_flag(value: Any) -> Any:
    """A check for a number."""
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value
