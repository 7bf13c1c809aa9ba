"""Server-sent events, each made on the model's thread when the one before it is out."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

from starlette.responses import StreamingResponse

from regard.server.batcher import Worker
from regard.server.errors import BusyError
from regard.server.monitoring import log_error

EVENT_STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}
"""What the OpenAPI schema says of such an answer."""


class Event(NamedTuple):
    """One event as it goes over the line."""

    data: Any
    """Is sent as JSON; a text as it is."""
    name: str | None = None
    last: bool = False

    def __str__(self) -> str:
        named = "" if self.name is None else f"event: {self.name}\n"
        data = self.data if isinstance(self.data, str) else json.dumps(self.data)
        return f"{named}data: {data}\n\n"


class Stream(NamedTuple):
    """Events to come, of which one is the last."""

    events: Iterator[Event]
    where: str
    """Method and path, for the log."""
    dropped: threading.Event
    """Set when nobody waits for the rest any more."""
    error_name: str | None = "error"
    """Of an event that says what went wrong."""


async def stream_response(worker: Worker, stream: Stream) -> StreamingResponse:
    """The events as an answer; between two of them other requests have their turn."""
    first = await _next(worker, stream)  # too busy? say so with a status
    return StreamingResponse(
        _sent(worker, stream, first),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store"},
    )


async def _next(worker: Worker, stream: Stream) -> Event:
    return await worker.call(lambda: next(stream.events), stream.dropped)


async def _sent(worker: Worker, stream: Stream, event: Event) -> AsyncIterator[str]:
    yield str(event)
    while not event.last:
        try:
            event = await _next(worker, stream)
        except BusyError as busy:
            event = Event({"error": str(busy)}, stream.error_name, last=True)
        except Exception as error:
            log_error(stream.where, error)
            why = "something went wrong; the server's log has more"
            event = Event({"error": why}, stream.error_name, last=True)
        yield str(event)
