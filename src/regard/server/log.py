"""The server's log: a line an event on standard error, and never more than can be read.

Whoever can cause an event can cause a million: of each burst only the first lines are written, and
how many followed. No line holds a traceback, or a character that a terminal would obey.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from regard.core.plain import plain_line

LOGGERS = ("regard.server", "uvicorn.error", "asyncio")
"""Whoever tells what happens to a server."""
MOST_LINES = 20
"""In a burst."""
BURST = 60.0
"""Seconds after which the count begins again."""
MOST_CHARACTERS = 400
"""In a line."""

log = logging.getLogger("regard.server")


class BoundedHandler(logging.Handler):
    """Writes the first lines of each burst to standard error, then how many were left out."""

    def __init__(self) -> None:
        super().__init__()
        self._began = -BURST
        self._n = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line, unless there were too many of late."""
        now = time.monotonic()
        if now - self._began >= BURST:
            self._began, left_out, self._n = now, self._n - MOST_LINES, 0
            if left_out > 0:
                _write(f"{left_out:,} further lines were left out")
        self._n += 1
        if self._n <= MOST_LINES:
            _write(record.getMessage())
        if self._n == MOST_LINES:
            _write(f"further lines are left out for {BURST:g} s")


def _write(text: str) -> None:
    with suppress(OSError, ValueError):  # whoever read it has gone, and the server goes on
        print(f"regard: {plain_line(text)[:MOST_CHARACTERS]}", file=sys.stderr, flush=True)


@contextmanager
def logged_to_standard_error() -> Iterator[None]:
    """Inside the block whatever happens to a server is told there, once, and nowhere else."""
    handler = BoundedHandler()
    with unchanged_loggers(*LOGGERS):
        for name in LOGGERS:
            logger = logging.getLogger(name)
            logger.handlers, logger.propagate = [handler], False
            logger.setLevel(logging.ERROR)
        yield


@contextmanager
def unchanged_loggers(*names: str) -> Iterator[None]:
    """After the block these loggers are as they were: they are those of the whole program."""
    before = [
        (one, one.level, one.handlers, one.propagate) for one in map(logging.getLogger, names)
    ]
    try:
        yield
    finally:
        for logger, level, handlers, propagate in before:
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)


def log_error(where: str, error: BaseException) -> None:
    """One line, whatever the error says."""
    # Not by a codec, which may have to be imported: perhaps no file can be opened any more.
    text = ascii(" ".join(str(error).split())[:300])[1:-1]
    log.error("%s: %s: %s", where, type(error).__name__, text)


def tell_of_loop_errors(loop: asyncio.AbstractEventLoop) -> None:
    """What goes wrong between requests is a line in the log; asyncio writes tracebacks.

    Above all that no connection can be accepted any more, which it tells a hundred times a second.
    """

    def told(_loop: asyncio.AbstractEventLoop, about: Mapping[str, Any]) -> None:
        error = about.get("exception")
        log_error(str(about.get("message", "between requests")), error or RuntimeError("unknown"))

    loop.set_exception_handler(told)
