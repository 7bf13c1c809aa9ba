"""Whether somebody still waits for what is being decoded: asked before each step of any search.

Where work is done for others, such as a server's clients, they may go away in the middle of it.
Whoever does it says so around the work, and nothing in between has to hand it on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class UnwantedError(Exception):
    """Nobody waits for this any more."""


class _Asked(threading.local):
    unwanted: Callable[[], bool] | None = None


_asked = _Asked()


@contextmanager
def while_wanted(unwanted: Callable[[], bool]) -> Iterator[None]:
    """Searches of this thread end with an ``UnwantedError`` once ``unwanted`` says so."""
    before, _asked.unwanted = _asked.unwanted, unwanted
    try:
        yield
    finally:
        _asked.unwanted = before


def check_wanted() -> None:
    """End the search here if nobody waits for it."""
    if _asked.unwanted is not None and _asked.unwanted():
        raise UnwantedError
