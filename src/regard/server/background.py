"""A run served from Python: until Ctrl-C, or in the background of a program or a notebook."""

from __future__ import annotations

import asyncio
import atexit
import copy
import threading
from dataclasses import replace
from typing import Any

from regard.core.errors import ConfigError, RegardError
from regard.server import serve as blocking
from regard.server.app import make_app
from regard.server.limits import address_of, check_public, is_loopback, listen
from regard.visual.svg import element

PATIENCE = 60.0
"""Seconds that a server may take to begin or to end."""


class Server:
    """A run behind a ``url``, in a thread of its own, until ``close`` or the end of a block."""

    def __init__(self, run: Any, host: str, port: int, beside: Any = None, **how: Any) -> None:
        self._run = run
        self._listening = listen(host, port)
        self.url = address_of(self._listening)
        # What-ifs of those who ask change the model for a moment: whoever holds the run must not
        # meet them.
        own = _own(run)
        other = None if beside is None else _own(beside)
        loopback = is_loopback(self._listening.getsockname()[0])
        begun = threading.Event()
        app = make_app(own, loopback=loopback, **how, beside=other)
        self._server = blocking.AppServer(app, on_start=begun.set)
        served = {"sockets": [self._listening]}
        self._thread = threading.Thread(target=self._server.run, kwargs=served, daemon=True)
        self._thread.start()
        atexit.register(self.close)
        while not begun.wait(0.1):
            if not self._thread.is_alive():
                self.close()
                raise RegardError(f"the server at {self.url} could not begin")

    @property
    def running(self) -> bool:
        """Whether it answers."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Finish what is open, and end; a second time does nothing."""
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        self._listening.close()
        atexit.unregister(self.close)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "at" if self.running else "closed, was at"
        return f"<Server of {self._run.folder.path} {state} {self.url}>"

    def _repr_html_(self) -> str:
        named = str(self._run.folder.path)
        if not self.running:
            return element("p", f"{named}: the server is closed")
        link = element("a", self.url, href=self.url, target="_blank", rel="noopener")
        return element("p", f"{named} is served at ", link, "; close() ends it")


def _own(run: Any) -> Any:
    """The run with a copy of its model."""
    return replace(run, model=copy.deepcopy(run.model))


def serve(
    run: Any,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    api_key: str | None = None,
    rate_limit: int | None = None,
    background: bool | None = None,
    beside: Any = None,
) -> Server | None:
    """Serve in the ``background``, or until Ctrl-C; by default as it is possible here."""
    check_public(host, api_key)
    how: dict[str, Any] = {"api_key": api_key, "rate_limit": rate_limit, "beside": beside}
    looping = _loop_runs()
    if looping if background is None else background:
        return Server(run, host, port, **how)
    if looping:
        raise ConfigError(
            "an event loop runs here already, as in a notebook: leave out background=False"
        )
    with listen(host, port) as listening:
        try:
            blocking.serve(run, listening, **how, on_start=_tell)
        except KeyboardInterrupt:  # which is how it ends
            print("stopped")
    return None


def _tell(address: str) -> None:
    print(f"serving at {address} (Ctrl-C ends)", flush=True)


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
