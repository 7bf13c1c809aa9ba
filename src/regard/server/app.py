"""The server as an ASGI application: ``make_app(run)``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI
from starlette.types import Lifespan

from regard import __version__
from regard.runs.kinds.translator import Run
from regard.server.answers import add_refusals
from regard.server.batcher import Worker
from regard.server.files import Files, page_routes
from regard.server.guards import Guard, needs_key
from regard.server.limits import LIMITS, Limits
from regard.server.looking import looking_routes
from regard.server.manual import add_manual
from regard.server.measuring import Measuring
from regard.server.monitoring import Metrics, Monitor, health_routes
from regard.server.samples import samples
from regard.server.service import Service
from regard.server.stream import stream_routes
from regard.server.translate import translate_routes


def make_app(
    run: Run,
    *,
    api_key: str | None = None,
    batching: bool = True,
    limits: Limits = LIMITS,
    loopback: bool = True,
) -> FastAPI:
    """The page and the API for one run.

    With ``api_key`` all that costs work asks for it. ``batching`` translates together what arrives
    together. With ``loopback`` only requests are answered whose Host header names this machine.
    """
    metrics = Metrics()
    worker = Worker(
        run.translate, limits=limits, batching=batching, on_batch=metrics.batches.observe
    )
    metrics.waiting.set_function(lambda: len(worker))
    measuring = Measuring(run, seconds=limits.measure_seconds)
    app = FastAPI(
        title="Regard",
        version=__version__,
        description="Translations, and what the model looked at.",
        docs_url=None,
        redoc_url=None,
        lifespan=_closing(worker, measuring),
    )
    app.state.on_stop = measuring.close  # before requests are waited for: this one takes too long
    app.state.on_hurry = worker.abandon  # nobody waits for anything any more
    _add_routes(app, Service(run, worker, limits, api_key), measuring, metrics)
    add_refusals(app)
    app.add_middleware(Guard, limits=limits, loopback=loopback)
    app.add_middleware(Monitor, metrics=metrics)  # added last, so around everything
    return app


def _add_routes(app: FastAPI, service: Service, measuring: Measuring, metrics: Metrics) -> None:
    keyed = [Depends(needs_key(service.api_key))]
    app.include_router(translate_routes(service))  # looks for the key in its body, too
    app.include_router(looking_routes(service, measuring), dependencies=keyed)
    app.include_router(stream_routes(service), dependencies=keyed)
    app.include_router(metrics.routes(), dependencies=keyed)
    app.include_router(health_routes())
    app.include_router(page_routes())
    add_manual(app, lambda: samples(service), service.worker, api_key=service.api_key)
    app.mount("/static", Files(), name="static")


def _closing(worker: Worker, measuring: Measuring) -> Lifespan[FastAPI]:
    """When the server ends, nobody waits for the heads, nor for what has lost its request."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        worker.open()
        measuring.open()
        yield
        measuring.close()
        await asyncio.to_thread(worker.close, 1.0)  # refusals must still go out meanwhile

    return lifespan
