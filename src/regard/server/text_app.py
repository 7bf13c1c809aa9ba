"""The server for runs that read one text, language models and encoders: ``make_text_app(run)``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI
from starlette.types import Lifespan

from regard import __version__
from regard.server.answers import add_refusals
from regard.server.batcher import Worker
from regard.server.files import Files, page_routes
from regard.server.guards import Guard, needs_key
from regard.server.limits import LIMITS, Limits
from regard.server.manual import add_manual
from regard.server.measuring import Measuring
from regard.server.monitoring import Metrics, Monitor, health_routes
from regard.server.openai_api import openai_routes
from regard.server.text_service import TextService
from regard.server.texts.answering import answering_routes
from regard.server.texts.generating import generating_routes
from regard.server.texts.looking import text_looking_routes
from regard.server.texts.samples import text_samples
from regard.server.texts.saying import saying_routes


def make_text_app(
    run: Any, *, api_key: str | None = None, limits: Limits = LIMITS, loopback: bool = True
) -> FastAPI:
    """The page and the API for one run; the arguments are those of ``make_app``."""
    metrics = Metrics()
    worker = Worker(list, limits=limits, batching=False)  # nothing is translated
    metrics.waiting.set_function(lambda: len(worker))
    measuring = Measuring(run, seconds=limits.measure_seconds)
    app = FastAPI(
        title="Regard",
        version=__version__,
        description="What a model makes of a text, and what it looked at.",
        docs_url=None,
        redoc_url=None,
        lifespan=_closing(worker, measuring),
    )
    app.state.on_stop = measuring.close
    app.state.on_hurry = worker.abandon
    _add_routes(app, TextService(run, worker, limits, api_key), measuring, metrics)
    add_refusals(app)
    app.add_middleware(Guard, limits=limits, loopback=loopback)
    app.add_middleware(Monitor, metrics=metrics)  # added last, so around everything
    return app


def _add_routes(app: FastAPI, service: TextService, measuring: Measuring, metrics: Metrics) -> None:
    keyed = [Depends(needs_key(service.api_key))]
    app.include_router(saying_routes(service), dependencies=keyed)
    app.include_router(answering_routes(service), dependencies=keyed)
    app.include_router(generating_routes(service), dependencies=keyed)
    app.include_router(text_looking_routes(service, measuring), dependencies=keyed)
    app.include_router(openai_routes(service), dependencies=keyed)
    app.include_router(metrics.routes(), dependencies=keyed)
    app.include_router(health_routes())
    app.include_router(page_routes())
    add_manual(app, lambda: text_samples(service), service.worker, api_key=service.api_key)
    app.mount("/static", Files(), name="static")


def _closing(worker: Worker, measuring: Measuring) -> Lifespan[FastAPI]:
    """When the server ends, nobody waits for the heads, nor for what has lost its request."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        worker.open()
        measuring.open()
        yield
        measuring.close()
        await asyncio.to_thread(worker.close, 1.0)

    return lifespan
