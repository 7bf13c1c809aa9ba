"""Looking inside: ``/api/info``, ``/api/explain``, ``/api/beam`` and ``/api/heads``.

Answers are made into JSON on the model's thread, so that a large one holds up no other request.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from regard.runs.run import Run
from regard.server.answers import as_json
from regard.server.asking import BeamRequest, ExplainRequest
from regard.server.examples import examples
from regard.server.measuring import Measuring
from regard.server.service import Service


def looking_routes(service: Service, measuring: Measuring) -> APIRouter:
    """All four paths, for one run."""
    router = APIRouter(prefix="/api", tags=["look inside"])
    run, look_tokens = service.run, service.limits.look_tokens
    info_once = _Once(partial(_info, run))

    @router.get("/info", summary="What this run is, and which attentions it has.")
    async def info() -> Response:
        return _json(await service.worker.call(info_once))

    @router.post("/explain", summary="Where every attention looks; perhaps after what-ifs.")
    async def explain(asked: ExplainRequest) -> Response:
        service.check_lengths([asked.source], at_most=look_tokens, target=asked.target or "")
        return _json(await service.worker.call(partial(_explain, run, asked)))

    @router.post("/beam", summary="A beam search as a tree.")
    async def beam(asked: BeamRequest) -> Response:
        service.check_lengths([asked.source], at_most=look_tokens)
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


def _info(run: Run) -> bytes:
    from regard.models.presets import n_parameters

    shown = examples(run)
    return as_json(
        {
            "model": run.model.config.model_dump(mode="json"),
            "preset": run.recipe.model.preset,
            "parameters": n_parameters(run.model),
            "task": run.task,
            "languages": run.recipe.data.direction.split("-"),
            "special_ids": run.tokenizers.target.special_ids,
            "examples": shown,
            "attentions": _attentions(run, shown[0] if shown else "a"),
        }
    )


def _attentions(run: Run, text: str) -> list[dict[str, Any]]:
    """Name, layers and heads of every attention, found by looking at a sentence."""
    return [
        {"name": name, "layers": len(layers), "heads": len(layers[0])}
        for name, layers in run.explain(text).attentions.items()
    ]


def _explain(run: Run, asked: ExplainRequest) -> bytes:
    edits = tuple(edit.model_dump() for edit in asked.edits)
    look = run.explain(asked.source, asked.target, edit=edits)
    answer = look.as_json()
    if asked.steps is not None:
        answer["steps"] = look.steps(**asked.steps.model_dump()).as_json()
    return as_json(answer)


def _beam(run: Run, asked: BeamRequest) -> bytes:
    tree = run.beam(asked.source, n_beams=asked.n_beams, prefix=tuple(asked.prefix))
    return as_json(tree.as_json())
