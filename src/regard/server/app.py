"""The server as an ASGI application: ``make_app(run)``, for a run of any task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from fastapi import Depends, FastAPI
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import JSONResponse, Response

from regard import __version__
from regard.core.errors import ConfigError
from regard.server.admission import METRICS, Keys, OwnPage, RequestRate
from regard.server.api import beam_routes, explain_routes, verb_path, verb_routes
from regard.server.batcher import Worker
from regard.server.chat import chat_routes, chats
from regard.server.docs import add_docs
from regard.server.drawing import drawing_routes
from regard.server.errors import add_error_handlers, refusal
from regard.server.heads import HeadMeasuring
from regard.server.held_out import HeldOutReading
from regard.server.importance import importance_routes
from regard.server.limits import LIMITS, Limits
from regard.server.middleware import Guard, Metrics, Monitor, needs_key
from regard.server.openai import openai_routes
from regard.server.pages import COMPRESSED_BYTES, add_page
from regard.server.search import search_routes
from regard.server.service import Service
from regard.server.story import story_routes
from regard.server.training import training_routes
from regard.server.translation import decoding_routes, libretranslate_routes
from regard.tasks.base import TASKS
from regard.tasks.writing_verbs import TRANSLATE

ASKED_BY_OTHERS = ("/translate", "/v1/completions", "/v1/chat/completions", "/v1/embeddings")
"""What clients of other projects ask a run, where it does that."""


def make_app(
    run: Any,
    *,
    api_key: str | None = None,
    batching: bool = True,
    limits: Limits = LIMITS,
    loopback: bool = True,
    rate_limit: int | None = None,
    beside: Any = None,
) -> FastAPI:
    """The page and the API for one run.

    With ``api_key`` all that costs work asks for it. ``batching`` translates together what arrives
    together. With ``loopback`` only requests are answered whose Host header names this machine.
    ``rate_limit`` is how many requests a client may send in a minute. ``beside`` is another run of
    the same task, which the page compares with this one.
    """
    runs = [run] if beside is None else [run, _comparable(run, beside)]
    metrics = Metrics()
    translate = getattr(run, "translate", list)  # other runs have nothing that is batched
    worker = Worker(
        translate,
        limits=limits,
        batching=batching,
        on_batch=metrics.batches.observe,
        recover=_set_up_again(runs),
    )
    metrics.waiting.set_function(lambda: len(worker))
    measuring = HeadMeasuring(run, seconds=limits.measure_seconds)
    reading = HeldOutReading(run, seconds=limits.read_seconds)

    def close_processes() -> None:
        measuring.close()
        reading.close()

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        """When the server ends, nobody waits for the heads, nor for what has lost its request."""
        worker.open()
        measuring.open()
        reading.open()
        yield
        close_processes()
        await asyncio.to_thread(worker.close, 1.0)  # refusals must still go out meanwhile

    app = FastAPI(
        title="Regard",
        version=__version__,
        description="What a model makes of a text, and what it looked at.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.on_stop = close_processes  # before requests are waited for: they take too long
    app.state.on_hurry = worker.abandon  # nobody waits for anything any more
    keys = Keys(api_key)
    other = None if beside is None else Service(beside, worker, limits, keys)
    service = app.state.service = Service(run, worker, limits, keys, other)
    own_page = OwnPage()
    _add_routes(app, service, measuring, reading, metrics)
    _add_health(app, service)
    add_page(app, "index.html", own_page.token)
    add_error_handlers(app, partial(_told_to_the_lost, app, service))
    if service.reads_pictures:
        limits = replace(limits, body_bytes=max(limits.body_bytes, limits.picture_bytes))
    rate = None if rate_limit is None else RequestRate(rate_limit)
    app.add_middleware(GZipMiddleware, minimum_size=COMPRESSED_BYTES, compresslevel=5)
    app.add_middleware(Guard, limits=limits, loopback=loopback, own_page=own_page, rate=rate)
    app.add_middleware(Monitor, metrics=metrics)  # added last, so around everything
    return app


def _comparable(run: Any, beside: Any) -> Any:
    """The run beside, where both do the same."""
    if run.task != beside.task:
        raise ConfigError(
            f"runs of one task are compared, and {run.folder.path} is of the task {run.task}, "
            f"{beside.folder.path} of the task {beside.task}; name another run beside it"
        )
    return beside


def _set_up_again(runs: Sequence[Any]) -> Callable[[], None]:
    """What makes the runs' engines anew that are no Python of ours, and tries them."""
    tokenizers = [one for run in runs for one in TASKS[run.task].tokenizers(run)]
    kept = [(one, one.to_json()) for one in tokenizers if one is not None]

    def set_up() -> None:
        for tokenizer, text in kept:
            tokenizer.renew(text)
            tokenizer.encode("a")

    return set_up


def _add_routes(
    app: FastAPI,
    service: Service,
    measuring: HeadMeasuring,
    reading: HeldOutReading,
    metrics: Metrics,
) -> None:
    keyed = [Depends(needs_key(service.keys))]
    if TRANSLATE in service.task.verbs:
        app.include_router(libretranslate_routes(service))  # looks for the key in forms, too
        app.include_router(decoding_routes(service), dependencies=keyed)
    if "beam" in service.task.form(service.run).views:
        app.include_router(beam_routes(service), dependencies=keyed)
    app.include_router(verb_routes(service), dependencies=keyed)
    app.include_router(openai_routes(service), dependencies=keyed)
    if chats(service.run, service.task):
        app.include_router(chat_routes(service), dependencies=keyed)
    app.include_router(explain_routes(service, measuring), dependencies=keyed)
    if getattr(service.run, "weighs", False):  # a run of a plug-in may not know
        app.include_router(importance_routes(service), dependencies=keyed)
    app.include_router(drawing_routes(service), dependencies=keyed)
    app.include_router(story_routes(service), dependencies=keyed)
    if service.searches:
        app.include_router(search_routes(service, reading), dependencies=keyed)
    app.include_router(
        training_routes(service.run.folder, service.run.recipe, is_over=True), dependencies=keyed
    )

    async def numbers() -> Response:
        headers = {"Content-Type": CONTENT_TYPE_LATEST}
        return Response(generate_latest(metrics.registry), headers=headers)

    about: dict[str, Any] = {"tags": ["server"], "summary": "Numbers for Prometheus."}
    app.add_api_route(METRICS, numbers, name="metrics", dependencies=keyed, **about)
    add_docs(app, service)


def _add_health(app: FastAPI, service: Service) -> None:
    """``/healthz``: whether it is well, and which run it is that answers."""
    about = {"name": service.name, "task": service.run.task, "version": __version__}
    down: dict[int | str, dict[str, Any]] = {
        503: {"description": "The model cannot be used at the moment."}
    }

    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz", tags=["server"], summary="Whether the server is up.", responses=down)
    async def health() -> Response:
        why = service.worker.trouble
        if why is not None:
            return refusal(503, why, "/healthz")
        return JSONResponse({"status": "ok", **about})


def _told_to_the_lost(app: FastAPI, service: Service) -> str:
    """What the run does, and where it is asked, for whoever asks for a path that is not there."""
    asked = [*ASKED_BY_OTHERS, *map(verb_path, service.task.verbs)]
    there = [path for path in asked if path in app.openapi()["paths"]]
    ask = f": ask {' or '.join(there)}" if there else ""
    return f"this run is of the task {service.run.task}{ask}; see /docs"
