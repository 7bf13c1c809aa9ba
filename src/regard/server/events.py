"""Server-sent events, each made on the model's thread when the one before it is out."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

from starlette.responses import StreamingResponse

from regard.server.batcher import BusyError, Worker
from regard.server.monitoring import log_error

Event = tuple[str, dict[str, Any]]
"""Its name, and its data; the last one's name is ``done``."""


async def streamed(
    worker: Worker, events: Iterator[Event], where: str, dropped: threading.Event | None = None
) -> StreamingResponse:
    """The events as an answer. ``where`` is the path, for the log.

    ``dropped`` is as ``Worker.call`` has it.
    """
    first = await worker.call(lambda: next(events), dropped)  # too busy? say so with a status
    return StreamingResponse(
        _sent(worker, events, first, where, dropped),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store"},
    )


async def _sent(
    worker: Worker,
    events: Iterator[Event],
    event: Event,
    where: str,
    dropped: threading.Event | None,
) -> AsyncIterator[str]:
    """The events as they go over the line. Between two of them others have their turn."""
    yield _line(*event)
    while event[0] != "done":
        try:
            event = await worker.call(lambda: next(events), dropped)
        except BusyError as busy:
            yield _line("error", {"error": str(busy)})
            return
        except Exception as error:
            log_error(where, error)
            yield _line("error", {"error": "something went wrong; the server's log has more"})
            return
        yield _line(*event)


def _line(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
