"""What a run can be asked: a path ``/api/NAME`` for each verb of its task."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from fastapi import APIRouter
from starlette.responses import Response, StreamingResponse

from regard.server.errors import as_json, json_response
from regard.server.service import Service
from regard.server.streaming import EVENT_STREAM, Event, Stream, stream_response
from regard.tasks.base import Verb


def verb_path(verb: Verb) -> str:
    """Where a verb is asked."""
    return f"/api/{verb.name}"


def verb_routes(service: Service) -> APIRouter:
    """The paths for one run."""
    router = APIRouter(tags=["verbs"])
    for verb in filter(lambda one: one.served, service.task.verbs):
        how: dict[str, Any] = {"summary": verb.doc or verb.summary, "methods": ["POST"]}
        if verb.streams:
            how |= {"response_class": StreamingResponse, "responses": EVENT_STREAM}
        make = _streaming if verb.streams else _answering
        router.add_api_route(verb_path(verb), make(service, verb), name=verb.name, **how)
    return router


def _answering(service: Service, verb: Verb) -> Callable[..., Any]:
    """A handler that answers with one JSON object."""

    async def handler(asked: Any) -> Response:
        work = partial(_answered, service, verb, asked)
        return json_response(await service.worker.call(work))

    return _taking(verb, handler)


def _answered(service: Service, verb: Verb, asked: Any) -> bytes:
    """On the model's thread, so that a long text holds up no other request."""
    run = service.run
    verb.check(run, asked, service.limits.tokens)
    (answer,) = verb.answer(run, [asked])
    return as_json({**answer, **verb.beside(run, asked)})


def _streaming(service: Service, verb: Verb) -> Callable[..., Any]:
    """A handler that answers with server-sent events; the last one's name is ``done``."""

    async def handler(asked: Any) -> StreamingResponse:
        verb.check(service.run, asked, service.limits.tokens)
        dropped = threading.Event()
        found = verb.events(service.run, asked, dropped.is_set)
        events = (Event(data, name, last=name == "done") for name, data in _inferring(found))
        stream = Stream(events, f"POST {verb_path(verb)}", dropped)
        return await stream_response(service.worker, stream)

    return _taking(verb, handler)


@torch.inference_mode()
def _inferring(events: Any) -> Any:
    """Without gradients, however the events are made."""
    yield from events


def _taking(verb: Verb, handler: Callable[..., Any]) -> Callable[..., Any]:
    """The handler with the verb's request for FastAPI to read and to document."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    asked = inspect.Parameter("asked", kind, annotation=verb.request)
    handler.__signature__ = inspect.Signature([asked])  # type: ignore[attr-defined]
    return handler
