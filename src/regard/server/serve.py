"""A run behind an address, until somebody ends it."""

from __future__ import annotations

import os
import socket
import sys
import webbrowser
from collections.abc import Callable

import uvicorn

from regard.runs.run import Run
from regard.server.app import make_app
from regard.server.limits import LIMITS
from regard.server.listening import address_of, is_loopback


def serve(
    run: Run,
    listening: socket.socket,
    *,
    api_key: str | None = None,
    on_start: Callable[[str], None],
) -> None:
    """Answer until SIGINT or SIGTERM comes; then finish what is open, and return.

    ``on_start`` gets the address as soon as it answers.
    """
    app = make_app(run, api_key=api_key, loopback=is_loopback(listening.getsockname()[0]))
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # a key may stand in an address
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=int(LIMITS.drain),
    )
    address = address_of(listening)
    _Server(config, lambda: on_start(address), app.state.on_stop).run(sockets=[listening])


class _Server(uvicorn.Server):
    """One that tells when it is there, and when it is about to go."""

    def __init__(
        self, config: uvicorn.Config, on_start: Callable[[], None], on_stop: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._on_start = on_start
        self._on_stop = on_stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As ever, and then the news."""
        await super().startup(sockets=sockets)
        self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """First what need not be waited for, then as ever."""
        self._on_stop()
        await super().shutdown(sockets=sockets)


def open_page(address: str) -> None:
    """Show the page, where there is a screen to show it on."""
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if screen or sys.platform in ("darwin", "win32"):
        webbrowser.open(address)
