"""``/api/importance``: how probable a written token is without each head of the model.

One measuring finds it for every token of an answer; the last few are kept, so that a reader who
goes from token to token waits once. Between two passes other requests have their turn.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from regard.inspection.importance import joined
from regard.server.api import looked_with
from regard.server.errors import as_json, json_response
from regard.server.schemas import (
    ImportanceRequest,
    NonemptyImportanceRequest,
    PictureImportanceRequest,
)
from regard.server.service import Service
from regard.tasks.importance import AllImportances, ForcedAnswer, check_step

KEPT = 64
"""Answers whose importances are kept; the oldest goes first."""
SHOWN = {"step", "steps", "rollout", "packed"}
"""Fields of a request on which no probability depends."""


class Weighing:
    """The importances of a run's answers, each measured once."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._known: OrderedDict[str, asyncio.Task[AllImportances]] = OrderedDict()

    async def answer(self, asked: ImportanceRequest) -> bytes:
        """The object of ``Importance.as_json``, for the token that is asked for."""
        key = asked.model_dump_json(exclude=SHOWN)
        going = self._known.get(key)
        if going is None or came_to_nothing(going):
            forced = await self.service.worker.call(partial(self._fixed, asked))
            check_step(asked.step, forced.tokens)
            going = self._known[key] = asyncio.create_task(self._measured(forced))
            # Perhaps nobody waits for its error any more.
            going.add_done_callback(came_to_nothing)
        self._known.move_to_end(key)
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        found = await asyncio.shield(going)  # a client that goes leaves it to the others
        return as_json(found.of(asked.step).as_json())

    def _fixed(self, asked: ImportanceRequest) -> ForcedAnswer:
        service = self.service
        answer: ForcedAnswer = service.task.fixed_answer(
            service.run, asked.source, **looked_with(service, asked)
        )
        return answer

    async def _measured(self, forced: ForcedAnswer) -> AllImportances:
        coming, parts = forced.passes(), []
        while (part := await self.service.worker.call(partial(next, coming, None))) is not None:
            parts.append(part)
        return AllImportances(forced.tokens, joined(iter(parts)))


def came_to_nothing(going: asyncio.Task[Any]) -> bool:
    """Whether it came to an end without a result, or never will in this event loop."""
    if not going.done():
        return going.get_loop() is not asyncio.get_running_loop()
    return going.cancelled() or going.exception() is not None


def importance_routes(service: Service) -> APIRouter:
    """``/api/importance``."""
    router, weighing = APIRouter(prefix="/api", tags=["look inside"]), Weighing(service)

    async def importance(asked: Any) -> Response:
        return json_response(await weighing.answer(asked))

    kind = NonemptyImportanceRequest if service.needs_text else ImportanceRequest
    if service.reads_pictures:
        kind = PictureImportanceRequest
    importance.__annotations__["asked"] = kind
    summary = "How probable a written token is without each head, all else fixed."
    router.add_api_route("/importance", importance, methods=["POST"], summary=summary)
    return router
