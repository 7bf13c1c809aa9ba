"""Every score that a model is judged by, in one registry: what it is, its unit and which way is up.

A metric is called with predictions and references of equal number, and returns one number for all
of them. The task supplies what the metric ``takes``: texts (a reference may be one string, or the
several strings that are right), labels, numbers, or links between words. A metric without a
function, such as a model's loss, is measured by the task itself; here are its unit and direction.
Those of texts are in ``text_metrics``, those of labels, numbers and links in ``label_metrics``.

To add one::

    @metric("length_ratio", unit="ratio", better="higher")
    def length_ratio(predictions, references):
        return sum(map(len, predictions)) / sum(map(len, references))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from regard.core.errors import ConfigError, DataError
from regard.core.registry import Registry

Takes = Literal["texts", "labels", "ranked labels", "numbers", "links", "boxes"]
Function = TypeVar("Function", bound=Callable[..., float])
_DIGITS = {"points": ".2f", "perplexity": ".3f"}  # by unit; other scores have four digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A score: how it is computed, counted and read."""

    name: str
    """Its key in every JSON."""
    title: str
    """Its name in tables and curves."""
    unit: str
    """``share`` 0 … 1, ``points`` 0 … 100, ``correlation`` −1 … 1, ``nats``, ``perplexity``, …"""
    better: Literal["higher", "lower"]
    takes: Takes = "texts"
    """What predictions and references are."""
    function: Callable[[Any, Any], float] | None = None
    judges_one: bool = True
    """Whether one prediction can be judged by itself, without the others of its set."""
    world: str | None = None
    """The built-in world whose texts alone it can judge; None: any."""
    signed: str | Callable[[Sequence[Any]], str] | None = None

    def __call__(self, predictions: Sequence[Any], references: Sequence[Any]) -> float:
        """The score of all predictions together."""
        if self.function is None:
            raise ConfigError(
                f"{self.name} is measured on the model, not computed from predictions; "
                "leave it to the task"
            )
        return float(self.function(predictions, references))

    def signature(self, references: Sequence[Any] = ("",)) -> str | None:
        """How the number was computed, for metrics that have variants."""
        return self.signed(references) if callable(self.signed) else self.signed

    def cost(self, value: float) -> float:
        """The value with the sign that makes lower better, for choosing the best of several."""
        return value if self.better == "lower" else -value


METRICS: Registry[Metric] = Registry("metric")


def metric(
    name: str,
    *,
    title: str | None = None,
    signature: str | Callable[[Sequence[Any]], str] | None = None,
    **about: Any,
) -> Callable[[Function], Function]:
    """Decorator that enters a function ``(predictions, references) -> float`` into ``METRICS``.

    ``about`` are its ``unit``, what is ``better`` and what it ``takes``, as ``Metric`` has them.
    """

    def enter(function: Function) -> Function:
        said = title or name.replace("_", " ")
        one = Metric(name=name, title=said, function=function, signed=signature, **about)
        METRICS.add(name, module=function.__module__)(one)
        return function

    return enter


def values(
    names: Iterable[str], predictions: Sequence[Any], references: Sequence[Any]
) -> dict[str, float]:
    """Each metric's value under its name, as a validation has it."""
    return {name: METRICS[name](predictions, references) for name in names}


def computed(
    names: Iterable[str], predictions: Sequence[Any], references: Sequence[Any]
) -> dict[str, Any]:
    """Each metric's value under its name and, where it has one, ``NAME_signature`` after it."""
    scores: dict[str, Any] = {}
    for name, value in values(names, predictions, references).items():
        scores[name] = value
        if (signature := METRICS[name].signature(references)) is not None:
            scores[f"{name}_signature"] = signature
    return scores


def judges(metric: Metric, world: str | None) -> bool:
    """Whether a metric can judge texts of a world, or of files, which may hold any."""
    return world is None or metric.world in (None, world)


def check_judged(names: Iterable[str], world: str | None) -> None:
    """Refuse metrics that judge texts of another world alone."""
    for name in names:
        if not judges(METRICS[name], world):
            raise ConfigError(
                f"{name} judges texts of the world {METRICS[name].world} alone; leave it out"
            )


def check_metrics(names: Iterable[str], takes: Takes) -> None:
    """Refuse metrics that are unknown, or that cannot be computed from what a task supplies."""
    for name in names:
        one = METRICS[name]
        if one.function is None or one.takes != takes:
            able = [n for n, m in METRICS.items() if m.function is not None and m.takes == takes]
            raise ConfigError(
                f"{name} cannot be computed from {takes}; of {takes} there are {', '.join(able)}"
            )


def parts_of(scores: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Parts of a test set with scores of their own, as under ``accuracy_by_kind``, by name."""
    groups = [one for key, one in scores.items() if "_by_" in key]
    return {name: part for group in groups for name, part in group.items()}


def titles(scores: Mapping[str, Any]) -> dict[str, str]:
    """The metrics among the keys of an evaluation, with the names that tables give them."""
    return {name: METRICS[name].title for name in METRICS if name in scores}


def score_title(name: str) -> str:
    """What people call a score, a metric or not."""
    return METRICS[name].title if name in METRICS else name.replace("_", " ")


def score_text(name: str, value: float | None) -> str:
    """A score as people write it, a share in percent; numbers of things have no unit."""
    if value is None:
        return "–"
    unit = METRICS[name].unit if name in METRICS else ""
    if unit == "share":
        return f"{100 * value:.1f} %"
    counted_things = isinstance(value, int) and not unit
    return f"{value:,}" if counted_things else f"{value:{_DIGITS.get(unit, '.4g')}}"


def check_parallel(**texts: Sized) -> None:
    """Refuse lists that do not go together line by line, or that are empty."""
    counts = {name: len(lines) for name, lines in texts.items()}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{n} {name}" for name, n in counts.items())
        raise DataError(f"{' and '.join(counts)} must be equally many, got {found}; pair them up")
    if not any(counts.values()):
        raise DataError(f"nothing to score: no {' and no '.join(counts)}; give at least one line")
