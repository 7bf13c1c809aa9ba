"""Looking inside: ``/api/info``, ``/api/words``, ``/api/explain``, ``/api/beam``, ``/api/heads``.

Answers are made into JSON on the model's thread, so that a large one holds up no other request.
"""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter
from starlette.responses import Response

from regard.runs.kinds.translator import Run
from regard.server.about import about
from regard.server.answers import as_json, json_response
from regard.server.asking import BeamRequest, ExplainRequest
from regard.server.looked import Once, beside
from regard.server.measuring import Measuring
from regard.server.sayable import add_words
from regard.server.service import Service


def looking_routes(service: Service, measuring: Measuring) -> APIRouter:
    """All five paths, for one run."""
    router = APIRouter(prefix="/api", tags=["look inside"])
    run = service.run
    info_once = Once(lambda: as_json(about(run, service.limits.look_tokens)))

    @router.get("/info", summary="What this run is, and which attentions it has.")
    async def info() -> Response:
        return json_response(await service.worker.call(info_once))

    add_words(router, run.tokenizers.target)

    @router.post("/explain", summary="Where every attention looks; perhaps after what-ifs.")
    async def explain(asked: ExplainRequest) -> Response:
        service.check_look(asked.source, asked.target or "")
        return json_response(await service.worker.call(partial(_explain, run, asked)))

    @router.post("/beam", summary="A beam search as a tree.")
    async def beam(asked: BeamRequest) -> Response:
        service.check_look(asked.source)
        return json_response(await service.worker.call(partial(_beam, run, asked)))

    @router.get("/heads", summary="What each head does, measured on held-out sentences.")
    async def heads() -> Response:
        return json_response(await measuring.result())

    return router


def _explain(run: Run, asked: ExplainRequest) -> bytes:
    """The object of ``explain --format json``, and what a reader should know beside it."""
    edits = tuple(edit.model_dump() for edit in asked.edits)
    look = run.explain(asked.source, asked.target, edit=edits)
    answer = look.as_json()
    answer["unknown"] = run.unknown_words(look.source)
    answer["notes"] = list(look.doubts)
    return as_json(answer | beside(look, asked))


def _beam(run: Run, asked: BeamRequest) -> bytes:
    edits = tuple(edit.model_dump() for edit in asked.edits)
    tree = run.beam(asked.source, n_beams=asked.n_beams, prefix=tuple(asked.prefix), edit=edits)
    return as_json(tree.as_json())
