"""Turning what a user wrote into settings: all problems at once, each with a remedy."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean

M = TypeVar("M", bound=BaseModel)


def parse(cls: type[M], raw: Mapping[str, Any], where: str) -> M:
    """Settings of a class from plain data, or one ConfigError that names every problem."""
    try:
        return cls.model_validate(raw)
    except ValidationError as error:
        problems = [_problem(cls, detail, where) for detail in error.errors()]
        raise ConfigError("; ".join(problems)) from None


def _problem(cls: type[BaseModel], detail: ErrorDetails, where: str) -> str:
    path = [str(part) for part in detail["loc"]]
    name = ".".join([where, *path]).strip(".")
    if detail["type"] == "extra_forbidden":
        known = list(_section(cls, path[:-1]).model_fields)
        hint = did_you_mean(path[-1], known)
        return f"unknown setting {name!r}{hint}; known: {', '.join(known)}"
    message = detail["msg"].removeprefix("Value error, ")
    if detail["type"] in ("value_error", "missing"):
        return f"{name}: {message}" if path else message
    return f"{name}={detail['input']!r}: {message[0].lower()}{message[1:]}"


def _section(cls: type[BaseModel], path: list[str]) -> type[BaseModel]:
    """The nested settings class that a path leads to."""
    for part in path:
        field = cls.model_fields.get(part)
        if field is None:
            break
        for candidate in _alternatives(field.annotation):
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                cls = candidate
    return cls


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)
