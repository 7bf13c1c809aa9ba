"""Turning what a user wrote into settings: all problems at once, each with a remedy."""

from __future__ import annotations

import math
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
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
OTHER_NAMES = {
    **dict.fromkeys(("learning_rate", "step_size"), "lr"),
    "steps": "max_steps",
    **dict.fromkeys(("batch", "minibatch", "tokens_per_batch"), "batch_tokens"),
    **dict.fromkeys(("early_stopping", "early_stop"), "patience"),
    **dict.fromkeys(("warmup", "warm_up"), "warmup_steps"),
    **dict.fromkeys(("layers", "num_layers", "depth"), "n_layers"),
    **dict.fromkeys(("heads", "num_heads", "nhead"), "n_heads"),
    **dict.fromkeys(("hidden_size", "embedding_dim", "dim", "width"), "d_model"),
    **dict.fromkeys(("ffn_dim", "dim_feedforward"), "d_ff"),
    **dict.fromkeys(("beam_size", "num_beams"), "beam"),
    **dict.fromkeys(("lower", "lower_case", "do_lower_case"), "lowercase"),
    **dict.fromkeys(("languages", "language_pair"), "direction"),
}
"""What settings are called elsewhere -> here; for hints alone."""
EPOCHS = ("epochs", "n_epochs", "num_epochs", "max_epochs")
"""Settings of others that have none like them here."""


def parse(cls: type[M], raw: Mapping[str, Any], where: str, *, whole: str = "what is given") -> M:
    """Settings of a class from plain data, or one ConfigError that names every problem.

    ``where`` stands before the names of settings; ``whole`` is what lacks a section.
    """
    if large := [*_named(raw, where, _is_large)]:
        told = "no setting is a number of more than 64 bits"
        raise ConfigError("; ".join(f"{name}: {told}" for name in large[:MOST_PROBLEMS]))
    try:
        found = cls.model_validate(raw)
    except ValidationError as error:
        errors = error.errors(include_context=False, include_url=False)
        # A name that is wrong comes first: that the right one is missing may follow from it.
        wrong_inside = {one["loc"][:-1] for one in errors}
        errors = [x for x in errors if x["type"] != "too_short" or x["loc"] not in wrong_inside]
        details = sorted(errors, key=lambda one: one["type"] != "extra_forbidden")
        problems = [_problem(cls, one, where, whole) for one in details[:MOST_PROBLEMS]]
        if (more := len(details) - MOST_PROBLEMS) > 0:
            problems.append(f"and {counted(more, 'more problem')}")
        raise ConfigError("; ".join(problems)) from None
    if infinite := [*_named(found.model_dump(exclude_defaults=True), where, _is_infinite)]:
        told = "expected a finite number"
        raise ConfigError("; ".join(f"{name}: {told}" for name in infinite[:MOST_PROBLEMS]))
    return found


def _is_large(found: Any) -> bool:
    """Whether arithmetic on arrays has no room for a whole number."""
    return isinstance(found, int) and abs(found) >= 2**63


def _is_infinite(found: Any) -> bool:
    """Whether it is an infinite number, or none (nan)."""
    return isinstance(found, float) and not math.isfinite(found)


def _named(found: Any, name: str, wrong: Callable[[Any], bool]) -> Iterator[str]:
    """The names of the settings that are wrong."""
    if wrong(found):
        yield _cut(name)
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(found, Mapping):
        items = found.items()
    elif isinstance(found, list | tuple):
        items = enumerate(found)
    for key, one in items:
        yield from _named(one, f"{name}.{key}".strip("."), wrong)


def _problem(cls: type[BaseModel], detail: ErrorDetails, where: str, whole: str) -> str:
    path = [_cut(str(part)) for part in detail["loc"]]
    name = ".".join([where, *path]).strip(".")
    kind, found = detail["type"], _cut(repr(detail["input"]))
    if kind == "extra_forbidden":
        known = list(_section(cls, path[:-1]).model_fields)
        hint = setting_hint(path[-1], known)
        return f"unknown setting {name!r}{hint or '; known: ' + ', '.join(known)}"
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
    if kind == "tuple_type":
        return f"{name}={found}: expected a list, such as [{found}]"
    message = detail["msg"].removeprefix("Value error, ")
    if kind == "too_short":
        message = message.replace("Tuple", "List").replace(" after validation, not 0", "")
    if kind == "value_error":
        return f"{name}: {message}" if path else message
    return f"{name}={found}: {message[0].lower()}{message[1:]}"


def setting_hint(name: str, known: Iterable[str]) -> str:
    """Which known setting is meant by a name, as an addition to a message; nothing if none is near.

    >>> setting_hint("learning_rate", ["lr", "max_steps"])
    " (did you mean 'lr'?)"
    """
    known, ours = list(known), OTHER_NAMES.get(name)
    if name in EPOCHS and "max_steps" in known:
        return "; trainings are counted in steps, not in epochs: set max_steps"
    return f" (did you mean {ours!r}?)" if ours in known else did_you_mean(name, known)


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
