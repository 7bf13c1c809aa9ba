"""``/api/search``: the held-out texts in which a head looks so as it does here.

The texts are looked at once, when somebody first asks; between two of them other requests have
their turn. How many are, and for how long, is bounded.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from regard.core.errors import RegardError
from regard.server.errors import RefusedError, as_json, json_response
from regard.server.importance import came_to_nothing
from regard.server.schemas import Index, LayerChoice
from regard.server.service import Service
from regard.tasks.requests import Name
from regard.tasks.search import TEXTS, SearchedTexts

SPLIT = "valid"


class SearchRequest(LayerChoice):
    """A head, and the words from which and to which it looks."""

    head: Index
    row: Name = Field(description="A word of the rows: it, or words of its kind, look.")
    column: Name = Field(description="A word of the columns: it, or its kind, is looked at.")
    by: Literal["kind", "word"] = Field(
        "kind", description="Words of the same kind, where kinds are known, or the very words."
    )


class Searching:
    """The texts of a run, looked at once for all who ask."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._going: asyncio.Task[SearchedTexts] | None = None
        self._done = 0

    async def answer(self, asked: SearchRequest) -> bytes:
        """The object of ``Matches.as_json``."""
        if self._going is None or came_to_nothing(self._going):
            self._going = asyncio.create_task(self._looked_at())
            # Perhaps nobody waits for its error any more.
            self._going.add_done_callback(came_to_nothing)
        texts = await asyncio.shield(self._going)  # a client that goes leaves it to the others
        found = await self.service.worker.call(partial(texts.search, **asked.model_dump()))
        return as_json(found.as_json())

    def progress(self) -> dict[str, Any]:
        """How many texts were looked at, ``of`` how many at most."""
        return {"done": self._done, "of": TEXTS}

    async def _looked_at(self) -> SearchedTexts:
        service, self._done = self.service, 0
        try:  # reading the data is slow and needs no model: the thread that has it stays free
            records = await asyncio.to_thread(service.task.records_of, service.run, SPLIT)
        except (RegardError, OSError):  # which may name files of this machine
            why = "it has none, or its data is not here"
            raise RefusedError(404, f"the texts of this run cannot be searched: {why}") from None
        texts = SearchedTexts(service.task, service.run, SPLIT)
        looks, until = texts.looks(records), time.monotonic() + service.limits.search_seconds
        while time.monotonic() < until:
            done = await service.worker.call(partial(next, looks, None))
            if done is None:
                break
            self._done = done
        return texts


def search_routes(service: Service) -> APIRouter:
    """``/api/search`` and its progress."""
    router, searching = APIRouter(prefix="/api", tags=["look inside"]), Searching(service)

    @router.post("/search", summary="Held-out texts in which a head looks most from such a word.")
    async def search(asked: SearchRequest) -> Response:
        return json_response(await searching.answer(asked))

    @router.get("/search/progress", summary="How many texts were looked at for searching.")
    async def search_progress() -> dict[str, Any]:
        return searching.progress()

    return router
