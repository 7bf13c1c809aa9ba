"""Numbers as a finding says them."""

from __future__ import annotations

from collections.abc import Iterable


def percent(share: float) -> str:
    """A share in whole per cent.

    >>> percent(0.256)
    '26 %'
    """
    return f"{100 * share:.0f} %"


def listed(things: Iterable[object]) -> str:
    """Things in a row, as one says them.

    >>> listed((1, 2, 3))
    '1, 2 and 3'
    """
    *first, last = map(str, things)
    return f"{', '.join(first)} and {last}" if first else last
