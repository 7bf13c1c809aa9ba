"""SIGINT and SIGTERM, wherever a command happens to be. Training has its own way with them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop(BaseException):
    """Somebody asked to end. No KeyboardInterrupt: typer would swallow that without a word."""

    def __init__(self, signal: signal.Signals) -> None:
        super().__init__(signal.name)
        self.signal = signal


@contextmanager
def stoppable() -> Iterator[None]:
    """Inside the block both signals raise ``Stop``."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python lets only the main thread listen
        return

    def end(number: int, _frame: FrameType | None) -> None:
        raise Stop(signal.Signals(number))

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
