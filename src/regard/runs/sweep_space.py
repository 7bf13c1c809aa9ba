"""What a sweep tries: values of settings as they are written, and the points made of them.

``lr=1e-3,2e-3`` names values, ``lr=1e-4..1e-2`` a range to draw from, and ``lr=1e-3`` a setting
that all trials share. A point is one value for each setting that is swept.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from regard.core.errors import ConfigError
from regard.core.numbers import mentioned
from regard.recipes.recipe import setting_name

Point = Mapping[str, str]
"""``section.key`` → its value, as text."""

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"\s*({_NUMBER})\s*\.\.\s*({_NUMBER})\s*")
_WIDE = 10.0
"""From this ratio of its ends on, numbers of a range are drawn evenly by their logarithm."""
_TRIES = 100
"""Draws for each point, at most, until one is new."""


@dataclass(frozen=True, slots=True)
class Values:
    """Values of a setting, one of which is taken."""

    name: str
    texts: tuple[str, ...]

    def draw(self, source: random.Random) -> str:
        """Any of them."""
        return source.choice(self.texts)


@dataclass(frozen=True, slots=True)
class Range:
    """A range of numbers; whole ones where both ends are written as such."""

    name: str
    low: str
    high: str

    def draw(self, source: random.Random) -> str:
        """A number of the range, to three digits."""
        low, high = float(self.low), float(self.high)
        if self.low.isdecimal() and self.high.isdecimal():
            return str(source.randint(int(self.low), int(self.high)))
        if low > 0 and high / low >= _WIDE:
            return f"{math.exp(source.uniform(math.log(low), math.log(high))):.3g}"
        return f"{source.uniform(low, high):.3g}"


Axis = Values | Range


def axis_of(override: str) -> Axis:
    """What ``key=value``, ``key=a,b`` or ``key=low..high`` says.

    >>> axis_of("lr=1e-3,2e-3")
    Values(name='train.lr', texts=('1e-3', '2e-3'))
    >>> axis_of("train.optimiser_options={betas: [0.9, 0.95]}").texts
    ('{betas: [0.9, 0.95]}',)
    """
    name, text = setting_name(override), override.partition("=")[2]
    if found := _RANGE.fullmatch(text):
        if float(found[1]) >= float(found[2]):
            raise ConfigError(f"--set {mentioned(override)}: a range goes from low to high")
        return Range(name, found[1], found[2])
    texts = tuple(one.strip() for one in _split(text))
    if len(set(texts)) < len(texts):
        raise ConfigError(f"--set {mentioned(override)}: a value is there twice; leave one out")
    return Values(name, texts)


def _split(text: str) -> list[str]:
    """At commas that are not inside brackets."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "[{(") - (sign in "]})")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def check_axes(axes: Sequence[Axis]) -> None:
    """Refuse a sweep of nothing, and a setting that is named twice."""
    if not axes:
        raise ConfigError(
            "nothing to sweep: give a setting several values, --set lr=1e-3,2e-3, or a range to "
            "draw from, --set lr=1e-4..1e-2"
        )
    names = [axis.name for axis in axes]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"{twice} is swept twice; give all its values at once")


def n_points(axes: Iterable[Axis]) -> float:
    """Points that there are; infinitely many where a range is among the axes."""
    return math.prod(len(one.texts) if isinstance(one, Values) else math.inf for one in axes)


def grid(axes: Sequence[Axis]) -> list[Point]:
    """Every combination of values."""
    ranges = [axis for axis in axes if isinstance(axis, Range)]
    if ranges:
        raise ConfigError(
            f"{ranges[0].name} is a range, which has no grid: give values, "
            f"{ranges[0].name}={ranges[0].low},{ranges[0].high}, or --search random"
        )
    texts = [axis.texts for axis in axes if isinstance(axis, Values)]
    names = [axis.name for axis in axes]
    return [dict(zip(names, some, strict=True)) for some in itertools.product(*texts)]


def drawn(axes: Sequence[Axis], n: int, seed: int) -> list[Point]:
    """``n`` different points, or all where there are fewer; of more, these are the first."""
    if n_points(axes) <= n:
        return grid(axes)
    source, found = random.Random(seed), list[Point]()
    for _ in range(_TRIES * n):
        point = {axis.name: axis.draw(source) for axis in axes}
        if point not in found:
            found.append(point)
        if len(found) == n:
            break
    return found
