"""A text that is sent while it is written, as OpenAI's clients expect it."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any, NamedTuple

from starlette.responses import Response, StreamingResponse

from regard.runs.writing.pen import Written
from regard.server.batcher import BusyError
from regard.server.monitoring import log_error
from regard.server.text_service import TextService

DONE = "data: [DONE]\n\n"
Pieces = Generator[str, None, bool]


class Coming(NamedTuple):
    """Pieces of one text, and whether nobody waits for them any more."""

    pieces: Pieces
    dropped: threading.Event


Frame = Callable[[str, str | None], dict[str, Any]]
"""A piece, and after the last one why it was the last → what is sent of it."""


async def streamed(service: TextService, coming: Coming, frame: Frame, where: str) -> Response:
    """Pieces of one text as they come; between two of them others have their turn."""
    first = await _called(service, coming)  # too busy? say so with a status
    return StreamingResponse(
        _sent(service, coming, first, frame, where),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store"},
    )


def reason(finished: bool) -> str:
    """Why a text has ended, in OpenAI's words."""
    return "stop" if finished else "length"


def usage(n_read: int, texts: list[Written]) -> dict[str, int]:
    """Tokens read and written."""
    written = sum(len(one.tokens) for one in texts)
    return {"prompt_tokens": n_read, "completion_tokens": written, "total_tokens": n_read + written}


async def _called(service: TextService, coming: Coming) -> tuple[str, str | None]:
    return await service.worker.call(lambda: _next(coming.pieces), coming.dropped)


def _next(pieces: Pieces) -> tuple[str, str | None]:
    """The next piece; after the last one nothing, and why it was the last."""
    try:
        return next(pieces), None
    except StopIteration as stop:
        return "", reason(bool(stop.value))


async def _sent(
    service: TextService, coming: Coming, found: tuple[str, str | None], frame: Frame, where: str
) -> AsyncIterator[str]:
    while True:
        yield _line(frame(*found))
        if found[1] is not None:
            break
        try:
            found = await _called(service, coming)
        except BusyError as busy:
            yield _line({"error": str(busy)})
            return
        except Exception as error:
            log_error(where, error)
            yield _line({"error": "something went wrong; the server's log has more"})
            return
    yield DONE


def _line(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"
