"""``/api/search``: the held-out texts in which a head looks so as it does here.

The texts are read by a process of its own and looked at once, when somebody first asks; between two
of them other requests have their turn. How many are, and for how long, is bounded.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from regard.server.errors import BusyError, as_json, json_response
from regard.server.held_out import SPLIT, HeldOutReading
from regard.server.importance import came_to_nothing
from regard.server.schemas import Index, LayerChoice
from regard.server.service import Service
from regard.tasks.requests import Name
from regard.tasks.search import SearchedTexts


class SearchRequest(LayerChoice):
    """A head, and the words from which and to which it looks."""

    head: Index
    row: Name = Field(description="A word of the rows: it, or words of its kind, look.")
    column: Name = Field(description="A word of the columns: it, or its kind, is looked at.")
    by: Literal["kind", "word"] = Field(
        "kind", description="Words of the same kind, where kinds are known, or the very words."
    )


class Searching:
    """The texts of a run, looked at once for all who ask.

    Where the time is over before all were looked at, the answer says so, and whoever asks again
    goes on from there.
    """

    def __init__(self, service: Service, reading: HeldOutReading) -> None:
        self.service = service
        self.reading = reading
        self._texts: SearchedTexts | None = None
        self._going: asyncio.Task[SearchedTexts] | None = None

    async def answer(self, asked: SearchRequest) -> bytes:
        """The object of ``Matches.as_json``."""
        texts = self._texts
        if texts is None or not texts.finished:
            texts = await self._looked_on()
        found = await self.service.worker.call(partial(texts.search, **asked.model_dump()))
        return as_json(found.as_json())

    def progress(self) -> dict[str, Any]:
        """How many texts were looked at, ``of`` how many at most; 0 until they are read."""
        texts = self._texts
        done, of = (0, 0) if texts is None else (texts.n_done, len(texts.texts.asked))
        return {"done": done, "of": of}

    async def _looked_on(self) -> SearchedTexts:
        """One for all who ask meanwhile."""
        if self._going is None or self._going.done() or came_to_nothing(self._going):
            self._going = asyncio.create_task(self._look_on())
            # Perhaps nobody waits for its error any more.
            self._going.add_done_callback(came_to_nothing)
        return await asyncio.shield(self._going)  # a client that goes leaves it to the others

    async def _look_on(self) -> SearchedTexts:
        service = self.service
        if self._texts is None:
            self._texts = SearchedTexts(service.run, SPLIT, await self.reading.texts())
        texts, seconds = self._texts, service.limits.search_seconds
        looks, until = texts.looks(), time.monotonic() + seconds
        while time.monotonic() < until and not texts.finished:
            await service.worker.call(partial(next, looks, None))
        if not texts.seen and not texts.finished:
            raise BusyError(f"no text was looked at within {seconds:g} s; search again")
        return texts


def search_routes(service: Service, reading: HeldOutReading) -> APIRouter:
    """``/api/search`` and its progress."""
    router = APIRouter(prefix="/api", tags=["look inside"])
    searching = Searching(service, reading)

    @router.post("/search", summary="Held-out texts in which a head looks most from such a word.")
    async def search(asked: SearchRequest) -> Response:
        return json_response(await searching.answer(asked))

    @router.get("/search/progress", summary="How many texts were looked at for searching.")
    async def search_progress() -> dict[str, Any]:
        return searching.progress()

    return router
