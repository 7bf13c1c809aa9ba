"""Looking inside a run that reads one text: ``/api/info``, ``/api/explain``, ``/api/heads``.

Answers are made into JSON on the model's thread, so that a large one holds up no other request.
"""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter
from starlette.responses import Response

from regard.runs.kinds.writer import Writer
from regard.runs.looking.look import Look
from regard.server.answers import as_json, json_response
from regard.server.looked import Once, beside
from regard.server.measuring import Measuring
from regard.server.sayable import add_words
from regard.server.text_service import TextService
from regard.server.texts.about import about
from regard.server.texts.asking import TextLookRequest
from regard.server.texts.unknown import unknown_words
from regard.visual.packing import packed_payload
from regard.visual.payload import Selected


def text_looking_routes(service: TextService, measuring: Measuring) -> APIRouter:
    """The paths for one run; ``/api/words`` where it writes."""
    router = APIRouter(prefix="/api", tags=["look inside"])
    info_once = Once(lambda: as_json(about(service)))

    @router.get("/info", summary="What this run is, and which attentions it has.")
    async def info() -> Response:
        return json_response(await service.worker.call(info_once))

    @router.post("/explain", summary="Where every attention looks; perhaps after what-ifs.")
    async def explain(asked: TextLookRequest) -> Response:
        return json_response(await service.worker.call(partial(_explain, service, asked)))

    @router.get("/heads", summary="What each head does, measured on held-out texts.")
    async def heads() -> Response:
        return json_response(await measuring.result())

    if isinstance(service.run, Writer):
        add_words(router, service.run.tokenizer)
    return router


def _explain(service: TextService, asked: TextLookRequest) -> bytes:
    """The object of ``explain --format json``, and what a reader should know beside it."""
    look = _look(service, asked)
    if asked.packed is None:
        answer = look.as_json()
    else:
        shown = Selected(asked.packed.name, asked.packed.layer)
        answer = packed_payload(look.payload(), shown)
    answer["unknown"] = unknown_words(service.run, asked.source, asked.other)
    answer["notes"] = list(look.doubts)
    return as_json(answer | beside(look, asked))


def _look(service: TextService, asked: TextLookRequest) -> Look:
    run = service.run
    edits = tuple(edit.model_dump() for edit in asked.edits)
    if not isinstance(run, Writer):
        service.check_look(asked.source, asked.other)
        return run.explain(asked.source, asked.other, edit=edits)
    room = service.room_after(asked.source, asked.target)
    n = min(asked.max_tokens, room)
    return run.explain(asked.source, asked.target, max_tokens=n, edit=edits)
