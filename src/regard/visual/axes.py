"""From numbers to places along an axis, with ticks at round numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_UNITS = ((1e12, 1e12, "T"), (1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))
"""(from where on, unit, its sign): thousands are written out up to 10,000."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of values, linear or logarithmic, and where to mark it."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    """(value, label), rising."""
    log: bool = False

    def share(self, value: float) -> float:
        """0 at the low end, 1 at the high end."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def linear_axis(values: Sequence[float], *, outward: bool = False) -> Axis:
    """An axis over the values; ``outward`` extends it to the next ticks. No values: 0 to 1.

    One that nearly reaches 0 begins there: counts of steps do, and so do losses.
    """
    low, high = _spread(min(values, default=0.0), max(values, default=1.0))
    step = _step(high - low)
    if 0 < low < step:
        low = 0.0
    if outward:
        low, high = step * math.floor(low / step + 1e-9), step * math.ceil(high / step - 1e-9)
    return Axis(low, high, _labelled(_multiples(low, high, step), step))


def log_axis(values: Sequence[float]) -> Axis:
    """A logarithmic axis over positive values; ticks at powers of ten, closer on a short one."""
    low, high = min(values, default=0.1), max(values, default=1.0)
    margin = (high / low) ** 0.04 if high / low > 1.001 else 1.5
    low, high = low / margin, high * margin
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = 1 + len(decades) // 8
    thinned = [e for e in decades if e % every == 0]
    for marks in ((1,), (1, 2, 5)):
        ticks = [m * 10.0**e for e in thinned for m in marks if low <= m * 10.0**e <= high]
        if len(ticks) >= 3:
            return Axis(low, high, tuple((t, _label(t, t, t)) for t in ticks), log=True)
    step = _step(high - low)
    return Axis(low, high, _labelled(_multiples(low, high, step), step), log=True)


def spoken(value: float) -> str:
    """A number as one reads it out: all digits of a whole one, six of another.

    >>> spoken(1234567.0), spoken(0.123456789)
    ('1,234,567', '0.123457')
    """
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.6g}"


def _spread(low: float, high: float) -> tuple[float, float]:
    """Equal values, or nearly, would leave an axis without length."""
    size = max(abs(low), abs(high))
    if high - low > 1e-9 * size and high - low > 1e-90:
        return low, high
    margin = size / 10 if size > 1e-80 else 0.5
    return low - margin, high + margin


def _step(span: float) -> float:
    """1, 2 or 5 times a power of ten, so that about five fit."""
    rough = span / 5
    power = 10.0 ** math.floor(math.log10(rough))
    return next((m * power for m in (1, 2, 5) if m * power >= rough * (1 - 1e-9)), 10 * power)


def _multiples(low: float, high: float, step: float) -> list[float]:
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def _labelled(ticks: Sequence[float], step: float) -> tuple[tuple[float, str], ...]:
    largest = max(map(abs, ticks), default=0.0)
    return tuple((tick, _label(tick, step, largest)) for tick in ticks)


def _label(value: float, step: float, largest: float) -> str:
    """As short as tells neighbours apart; all labels of an axis have one unit."""
    if abs(value) < step * 1e-6:
        return "0"
    if largest >= 1e15 or largest < 1e-3:
        return f"{value:.4g}"
    units = ((u, s) for start, u, s in _UNITS if largest >= start and step >= u / 1000)
    unit, suffix = next(units, (1.0, ""))
    decimals = max(0, -math.floor(math.log10(step / unit) + 1e-9))
    digits = f"{value / unit:,.{decimals}f}"
    return (digits.rstrip("0").rstrip(".") if "." in digits else digits) + suffix
