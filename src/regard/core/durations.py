"""How long something takes, as one says it."""

from __future__ import annotations

_UNITS = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"))


def about(seconds: float) -> str:
    """A rough time in the unit that one would say it in.

    >>> about(0.4), about(45), about(150), about(63326), about(1e6)
    ('about 1 s', 'about 45 s', 'about 2.5 min', 'about 17.6 h', 'about 11.6 days')
    """
    for unit, name in _UNITS:
        if seconds >= 1.5 * unit:
            amount = seconds / unit
            return f"about {amount:,.1f} {name}" if amount < 100 else f"about {amount:,.0f} {name}"
    return f"about {max(1, round(seconds))} s"


def measured(seconds: float) -> str:
    """A time that was measured, in tables.

    >>> measured(119), measured(150), measured(7200)
    ('119 s', '2.5 min', '120.0 min')
    """
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
