"""Ctrl-C and kill as a wish that is granted at the end of a step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass(slots=True)
class Wish:
    """Which signal asked to stop, if any."""

    signal: signal.Signals | None = None


@contextmanager
def stop_wish() -> Iterator[Wish]:
    """Inside the block SIGINT and SIGTERM only leave a wish; a second one acts at once."""
    wish = Wish()
    if threading.current_thread() is not threading.main_thread():
        yield wish  # Python lets only the main thread listen
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, _frame: FrameType | None) -> None:
        wish.signal = signal.Signals(number)
        signal.signal(number, before[signal.Signals(number)])

    try:
        for number in before:
            signal.signal(number, note)
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
