"""Numbers and names in a few words for people, and sizes made round."""

from __future__ import annotations

SHOWN = 60  # letters of a text that is only mentioned
TOLD = 300  # letters of somebody else's error inside one of ours
_UNITS = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"))


def counted(n: int, thing: str) -> str:
    """A number and what is counted, which gets its s where there is more than one.

    >>> counted(1, "unknown word"), counted(0, "text"), counted(1200, "node")
    ('1 unknown word', '0 texts', '1,200 nodes')
    """
    return f"{n:,} {thing}{'' if n == 1 else 's'}"


def mentioned(text: str) -> str:
    """A text in quotation marks, cut where it is long.

    >>> mentioned("john loves mary"), len(mentioned("very " * 1000))
    ("'john loves mary'", 62)
    """
    return repr(text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…")


def told(error: BaseException) -> str:
    """What a library says is wrong, in one line that is not too long.

    >>> told(ValueError("no\\n  number")), told(KeyError()), len(told(ValueError("very " * 1000)))
    ('no number', 'KeyError', 300)
    """
    line = " ".join(str(error).split()) or type(error).__name__
    return line if len(line) <= TOLD else f"{line[: TOLD - 1]}…"


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


def apart(a: float, b: float) -> tuple[str, str]:
    """Two small numbers with three digits each, or as many as tell them apart.

    >>> apart(6e-4, 5e-4), apart(6.301e-4, 6.299e-4), apart(1.0, 1.0)
    (('6.00e-04', '5.00e-04'), ('6.301e-04', '6.299e-04'), ('1.00e+00', '1.00e+00'))
    """
    digits = next((n for n in range(2, 17) if f"{a:.{n}e}" != f"{b:.{n}e}"), 2)
    return f"{a:.{digits}e}", f"{b:.{digits}e}"


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least n ≥ 1.

    >>> [power_of_two(n) for n in (1, 2, 3, 64, 65)]
    [1, 2, 4, 64, 128]
    """
    return 1 << (n - 1).bit_length()
