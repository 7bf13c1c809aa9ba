"""Looking inside: ``/api/info``, ``/api/words``, ``/api/explain``, ``/api/beam``, ``/api/heads``.

Answers are made into JSON on the model's thread, so that a large one holds up no other request.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from regard.runs.run import Run
from regard.server.about import about
from regard.server.answers import as_json
from regard.server.asking import BeamRequest, ExplainRequest
from regard.server.limits import MAX_NAME, MAX_WORDS
from regard.server.measuring import Measuring
from regard.server.service import Service
from regard.text.specials import BEGIN, PAD
from regard.text.tokenizer import SPACE


def looking_routes(service: Service, measuring: Measuring) -> APIRouter:
    """All five paths, for one run."""
    router = APIRouter(prefix="/api", tags=["look inside"])
    run = service.run
    info_once = _Once(lambda: as_json(about(run, service.limits.look_tokens)))

    @router.get("/info", summary="What this run is, and which attentions it has.")
    async def info() -> Response:
        return _json(await service.worker.call(info_once))

    @router.get("/words", summary="Tokens that the model can say.")
    async def words(
        begins: Annotated[str, Query(max_length=MAX_NAME, description="How they begin.")] = "",
    ) -> list[str]:
        return sayable(run, begins)

    @router.post("/explain", summary="Where every attention looks; perhaps after what-ifs.")
    async def explain(asked: ExplainRequest) -> Response:
        service.check_look(asked.source, asked.target or "")
        return _json(await service.worker.call(partial(_explain, run, asked)))

    @router.post("/beam", summary="A beam search as a tree.")
    async def beam(asked: BeamRequest) -> Response:
        service.check_look(asked.source)
        return _json(await service.worker.call(partial(_beam, run, asked)))

    @router.get("/heads", summary="What each head does, measured on held-out sentences.")
    async def heads() -> Response:
        return _json(await measuring.result())

    return router


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


class _Once:
    """An answer that never changes is made once. Always called on one and the same thread."""

    def __init__(self, make: Callable[[], bytes]) -> None:
        self._make = make
        self._made: bytes | None = None

    def __call__(self) -> bytes:
        if self._made is None:
            self._made = self._make()
        return self._made


def sayable(run: Run, begins: str) -> list[str]:
    """Some tokens of the target that begin so, in alphabetical order; a space is not spelt."""
    tokenizer = run.tokenizers.target
    tokens = sorted(set(tokenizer.tokens(range(tokenizer.n_vocab))) - {PAD, BEGIN})
    fitting = (token for token in tokens if token.removeprefix(SPACE).startswith(begins))
    return list(islice(fitting, MAX_WORDS))


def _explain(run: Run, asked: ExplainRequest) -> bytes:
    """The object of ``explain --format json``, and what a reader should know beside it."""
    edits = tuple(edit.model_dump() for edit in asked.edits)
    look = run.explain(asked.source, asked.target, edit=edits)
    answer = look.as_json()
    answer["unknown"] = run.unknown_words(look.source)
    answer["notes"] = list(look.doubts)
    if asked.steps is not None:
        answer["steps"] = look.steps(**asked.steps.model_dump()).as_json()
    return as_json(answer)


def _beam(run: Run, asked: BeamRequest) -> bytes:
    edits = tuple(edit.model_dump() for edit in asked.edits)
    tree = run.beam(asked.source, n_beams=asked.n_beams, prefix=tuple(asked.prefix), edit=edits)
    return as_json(tree.as_json())
