"""SIGINT, SIGTERM and SIGHUP: who hears them inside a block, and what is raised to end the work."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, what ``kill`` sends, and the end of a terminal."""
Handler = Callable[[int, FrameType | None], None]


class Stop(BaseException):
    """Somebody asked to end. No KeyboardInterrupt: typer would swallow that without a word."""

    def __init__(self, signal: signal.Signals) -> None:
        super().__init__(signal.name)
        self.signal = signal


@contextmanager
def signals_to(handle: Handler, *, once: bool = False) -> Iterator[None]:
    """Inside the block these signals go to ``handle``; with ``once``, a second acts as before."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python lets only the main thread listen
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    if before[signal.SIGHUP] is signal.SIG_IGN:  # as nohup asks for
        del before[signal.SIGHUP]

    def hear(number: int, frame: FrameType | None) -> None:
        if once:
            signal.signal(number, before[signal.Signals(number)])
        handle(number, frame)

    try:
        for number in before:
            signal.signal(number, hear)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def raise_stop(number: int, _frame: FrameType | None) -> None:
    """A handler that raises ``Stop``, wherever the program happens to be."""
    raise Stop(signal.Signals(number))
