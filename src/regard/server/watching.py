"""The server of a run that is being trained, in a thread beside the training.

It reads the files that the training writes into the run's folder and nothing else: it neither has
the model nor waits for it.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import JSONResponse

from regard import __version__
from regard.checkpoints.run_folder import RunFolder
from regard.core.numbers import told
from regard.server.admission import OwnPage
from regard.server.errors import add_error_handlers
from regard.server.limits import LIMITS, address_of
from regard.server.middleware import Guard, Metrics, Monitor
from regard.server.pages import COMPRESSED_BYTES, add_page
from regard.server.serve import AppServer
from regard.server.training import training_routes
from regard.tasks.recipe import Recipe


def make_watching_app(folder: RunFolder, recipe: Recipe) -> FastAPI:
    """The page that shows a training while it runs."""
    app = FastAPI(title="Regard", version=__version__, docs_url=None, redoc_url=None)
    app.state.on_stop = app.state.on_hurry = lambda: None
    own_page = OwnPage()
    app.include_router(training_routes(folder, recipe, is_over=False))

    @app.api_route("/healthz", methods=["GET", "HEAD"], summary="Whether the server is up.")
    def health() -> JSONResponse:
        return JSONResponse({"status": "ok"})

    add_page(app, "watch.html", own_page.token)
    add_error_handlers(app)
    app.add_middleware(GZipMiddleware, minimum_size=COMPRESSED_BYTES, compresslevel=5)
    app.add_middleware(Guard, limits=LIMITS, loopback=True, own_page=own_page, rate=None)
    app.add_middleware(Monitor, metrics=Metrics())
    return app


class WatchingServer(AppServer):
    """One whose end is told by nobody: another server takes its place, or the program ends."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Uvicorn's own."""
        await uvicorn.Server.shutdown(self, sockets=sockets)


@contextmanager
def watched(
    folder: RunFolder,
    recipe: Recipe,
    listening: socket.socket,
    on_start: Callable[[str], None] = lambda _address: None,
) -> Iterator[None]:
    """Inside the block a thread shows how the training in a folder goes.

    The socket still listens afterwards, so that another server can take its place. A server that
    cannot begin, or breaks, is told of on standard error; the block goes on without it.
    """
    there, ending = threading.Event(), threading.Event()
    address = address_of(listening)
    server = WatchingServer(make_watching_app(folder, recipe), on_start=there.set)
    own = listening.dup()  # the server closes what it is given

    def serve() -> None:
        why = "it ended by itself"
        try:
            with own:
                asyncio.run(server.serve(sockets=[own]))
        except BaseException as error:  # uvicorn leaves by SystemExit, of which a thread is silent
            why = f"{type(error).__name__}, {told(error)}"
        if not ending.is_set():
            lost = f"the training cannot be watched at {address}: {why}"
            print(f"regard: {lost}; it goes on", file=sys.stderr, flush=True)
        there.set()

    thread = threading.Thread(target=serve, name="watching", daemon=True)
    thread.start()
    try:
        if there.wait(LIMITS.drain) and server.started:
            on_start(address)
        yield
    finally:
        ending.set()
        server.should_exit = True
        thread.join(LIMITS.drain)
