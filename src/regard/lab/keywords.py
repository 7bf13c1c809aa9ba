"""What an experiment can be told from outside: ``key=value`` -> the keywords of its function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, Field, create_model

from regard.core.errors import ConfigError
from regard.core.settings import parse
from regard.core.yaml_text import parse_yaml
from regard.lab import experiment

_FREE = ("seed", "axis")
"""Whole numbers that count nothing: these may be zero or less."""


def keywords(name: str, settings: Iterable[str]) -> dict[str, Any]:
    """The keywords of an experiment that the settings change, of the types that it asks for.

    >>> keywords("rows", ["axis=-2"])
    {'axis': -2}
    """
    asked = dict(_pair(one) for one in settings)
    found = parse(_model(experiment(name)), asked, "", whole=name)
    return {key: getattr(found, key) for key in asked}


def _pair(setting: str) -> tuple[str, Any]:
    key, equals, value = setting.partition("=")
    if not equals:
        raise ConfigError(f"--set takes key=value, got {setting!r}")
    try:
        return key.strip(), parse_yaml(value)
    except ConfigError:
        raise ConfigError(f"--set {setting}: no YAML value") from None


def _model(function: Callable[..., Any]) -> Any:
    """Settings with a field for each keyword of a function, as its annotations have them."""
    hints = get_type_hints(function)
    fields = {
        key: (_bounded(key, hints[key]), one.default)
        for key, one in inspect.signature(function).parameters.items()
    }
    fixed: Any = fields  # create_model is told its fields by keywords, which mypy cannot follow
    return create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fixed)


def _bounded(key: str, hint: Any) -> Any:
    """A type with what is asked of its values: counts are 1 or more, and no list is empty."""
    if hint is int and key not in _FREE:
        return Annotated[int, Field(ge=1)]
    if get_origin(hint) is Sequence:
        entries = tuple(_bounded(key, one) for one in get_args(hint))
        return Annotated[Sequence[entries], Field(min_length=1)]  # type: ignore[valid-type]
    return hint
