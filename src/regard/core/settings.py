"""Turning what a user wrote into settings: all problems at once, each with a remedy."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from regard.core.errors import ConfigError
from regard.core.numbers import counted
from regard.core.registry import did_you_mean

M = TypeVar("M", bound=BaseModel)
MOST_PROBLEMS = 12
"""Told one by one; of more, only how many there are."""
SHOWN = 100  # signs of a value that was found


def parse(cls: type[M], raw: Mapping[str, Any], where: str, *, whole: str = "what is given") -> M:
    """Settings of a class from plain data, or one ConfigError that names every problem.

    ``where`` stands before the names of settings; ``whole`` is what lacks a section.
    """
    large = [f"{name}: no setting is a number of more than 64 bits" for name in _large(raw, where)]
    if large:
        raise ConfigError("; ".join(large[:MOST_PROBLEMS]))
    try:
        return cls.model_validate(raw)
    except ValidationError as error:
        details = error.errors(include_context=False, include_url=False)
        problems = [_problem(cls, one, where, whole) for one in details[:MOST_PROBLEMS]]
        if (more := len(details) - MOST_PROBLEMS) > 0:
            problems.append(f"and {counted(more, 'more problem')}")
        raise ConfigError("; ".join(problems)) from None


def _large(found: Any, name: str) -> Iterator[str]:
    """The names of whole numbers that arithmetic on arrays has no room for."""
    if isinstance(found, int) and abs(found) >= 2**63:
        yield _cut(name)
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(found, Mapping):
        items = found.items()
    elif isinstance(found, list | tuple):
        items = enumerate(found)
    for key, one in items:
        yield from _large(one, f"{name}.{key}".strip("."))


def _problem(cls: type[BaseModel], detail: ErrorDetails, where: str, whole: str) -> str:
    path = [_cut(str(part)) for part in detail["loc"]]
    name = ".".join([where, *path]).strip(".")
    kind, found = detail["type"], _cut(repr(detail["input"]))
    if kind == "extra_forbidden":
        known = list(_section(cls, path[:-1]).model_fields)
        hint = did_you_mean(path[-1], known)
        return f"unknown setting {name!r}{hint}; known: {', '.join(known)}"
    if kind == "missing":
        inside = _section(cls, path)
        if inside is _section(cls, path[:-1]):
            return f"{name} is missing"
        some = ", ".join(list(inside.model_fields)[:3])
        return f"{whole} has no section {name}; add it, with settings such as {some}"
    if kind == "model_type":
        return f"section {name} must hold settings, as key: value, but found {found}"
    if kind == "string_pattern_mismatch":
        return f"{name}={found}: {_wanted(_section(cls, path[:-1]), path[-1])}"
    message = detail["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        return f"{name}: {message}" if path else message
    return f"{name}={found}: {message[0].lower()}{message[1:]}"


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def _wanted(cls: type[BaseModel], key: str) -> str:
    """What a text should be, in the words of its description: nobody reads a pattern."""
    field = cls.model_fields[key]
    said = (field.description or "another text is expected").rstrip(".")
    example = f"; write it as {field.default}" if isinstance(field.default, str) else ""
    return f"{said[0].lower()}{said[1:]}{example}"


def _section(cls: type[BaseModel], path: list[str]) -> type[BaseModel]:
    """The nested settings class that a path leads to."""
    for part in path:
        field = cls.model_fields.get(part)
        if field is None:  # the number of an entry in a list
            continue
        for candidate in _types_in(field.annotation):
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                cls = candidate
    return cls


def _types_in(annotation: Any) -> Iterator[Any]:
    """An annotation and all that it is made of: a list of settings holds settings."""
    yield annotation
    for part in typing.get_args(annotation):
        yield from _types_in(part)
