"""The server for runs that read one text, language models and encoders: ``make_text_app(run)``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI
from starlette.types import Lifespan

from regard import __version__
from regard.runs.writer import Writer
from regard.server.answers import add_refusals
from regard.server.batcher import Worker
from regard.server.files import Files
from regard.server.guards import Guard, needs_key
from regard.server.limits import LIMITS, Limits
from regard.server.manual import add_manual
from regard.server.monitoring import Metrics, Monitor, health_routes
from regard.server.openai_api import openai_routes
from regard.server.text_service import TextService


def make_text_app(
    run: Any, *, api_key: str | None = None, limits: Limits = LIMITS, loopback: bool = True
) -> FastAPI:
    """The API for one run; the arguments are those of ``make_app``."""
    metrics = Metrics()
    worker = Worker(list, limits=limits, batching=False)  # nothing is translated
    metrics.waiting.set_function(lambda: len(worker))
    app = FastAPI(
        title="Regard",
        version=__version__,
        description="Texts written on, or their vectors.",
        docs_url=None,
        redoc_url=None,
        lifespan=_closing(worker),
    )
    app.state.on_stop = lambda: None
    app.state.on_hurry = worker.abandon
    service = TextService(run, worker, limits, api_key)
    keyed = [Depends(needs_key(api_key))]
    app.include_router(openai_routes(service), dependencies=keyed)
    app.include_router(metrics.routes(), dependencies=keyed)
    app.include_router(health_routes())
    add_manual(app, lambda: _samples(service), api_key=api_key, home=True)
    app.mount("/static", Files(), name="static")
    add_refusals(app)
    app.add_middleware(Guard, limits=limits, loopback=loopback)
    app.add_middleware(Monitor, metrics=metrics)  # added last, so around everything
    return app


def _samples(service: TextService) -> Mapping[str, Mapping[str, Any]]:
    """Path → fields that this very run can answer."""
    fields: dict[str, Any]
    if isinstance(service.run, Writer):
        path, fields = "/v1/completions", {"prompt": "the", "max_tokens": 8}
    else:
        path, fields = "/v1/embeddings", {"input": "a text"}
    own = {"/v1/models/{name}": {"name": service.name}}
    return {**own, path: {"model": service.name, **fields}}


def _closing(worker: Worker) -> Lifespan[FastAPI]:
    """When the server ends, what has lost its request is not waited for."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        worker.open()
        yield
        await asyncio.to_thread(worker.close, 1.0)

    return lifespan
