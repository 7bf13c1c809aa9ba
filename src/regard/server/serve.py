"""A run behind an address, until somebody ends it."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from regard.core.signals import signals_to
from regard.server.app import make_app
from regard.server.batcher import MODEL
from regard.server.connections import backlog, bounded_protocol
from regard.server.limits import LIMITS, Limits, address_of, is_loopback
from regard.server.log import logged_to_standard_error, tell_of_loop_errors, unchanged_loggers


def serve(
    run: Any,
    listening: socket.socket,
    *,
    api_key: str | None,
    rate_limit: int | None,
    on_start: Callable[[str], None],
    beside: Any = None,
) -> None:
    """Answer until SIGINT or SIGTERM comes; then finish what is open, and return.

    A second signal ends at once. ``on_start`` gets the address as soon as it answers; ``beside`` is
    a run to compare with.
    """
    loopback = is_loopback(listening.getsockname()[0])
    how: dict[str, Any] = {"api_key": api_key, "rate_limit": rate_limit, "beside": beside}
    app = make_app(run, loopback=loopback, **how)
    address = address_of(listening)
    with unchanged_loggers("regard"), logged_to_standard_error():
        logging.getLogger("regard").setLevel(logging.ERROR)  # doubts are told to whoever asked
        AppServer(app, on_start=lambda: on_start(address)).run(sockets=[listening])


class AppServer(uvicorn.Server):
    """One that tells when it is there and when it waits, and that can be hurried."""

    def __init__(
        self,
        app: FastAPI,
        *,
        limits: Limits = LIMITS,
        on_start: Callable[[], None] = lambda: None,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=bounded_protocol(limits),
            log_config=None,
            access_log=False,  # a key may stand in an address
            server_header=False,
            proxy_headers=False,  # any program of this machine could pretend to be many clients
            ws="none",
            backlog=backlog(),
            timeout_graceful_shutdown=int(limits.drain),
        )
        super().__init__(config)
        self._on_start = on_start
        self._first_signal: int | None = None
        self._on_stop: Callable[[], None] = app.state.on_stop
        self._on_hurry: Callable[[], None] = app.state.on_hurry

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen to signals until the last task has ended, not only while there are requests."""
        with signals_to(self.handle_exit), unchanged_loggers("uvicorn.error"):
            super().run(sockets=sockets)
            atexit.register(_leave)
        if self._first_signal is not None:  # it goes where it would have gone without us
            signal.raise_signal(self._first_signal)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing: ``run`` listens to signals."""
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal ends well, the second at once, whichever they are."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._first_signal = self._first_signal or sig
        if self.force_exit:
            threading.Thread(target=self._on_hurry).start()  # the one signalled may hold its lock

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell when the server answers."""
        tell_of_loop_errors(asyncio.get_running_loop())
        await super().startup(sockets=sockets)
        self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """First what need not be waited for, then uvicorn's own; at last what would not end."""
        self._on_stop()
        if self.server_state.tasks:
            print("regard: stopping; Ctrl-C again ends at once", file=sys.stderr, flush=True)
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what is cut off is no error
        ending = asyncio.create_task(super().shutdown(sockets=sockets))
        while not ending.done() and not self.force_exit:
            await asyncio.wait([ending], timeout=0.1)
        left = [ending, *self.server_state.tasks]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def _leave() -> None:
    """The program ends: where the model is still at work, without a word.

    Python cannot end a thread that is inside torch, and the whole program crashes if it tries.
    """
    if any(thread.name == MODEL for thread in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(0)


def open_page(address: str) -> None:
    """Show the page, where there is a screen to show it on."""
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if screen or sys.platform in ("darwin", "win32"):
        webbrowser.open(address)
