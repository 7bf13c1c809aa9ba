"""``/api/generate``: a text as it is written, piece by piece, as server-sent events."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator

import torch
from fastapi import APIRouter
from starlette.responses import StreamingResponse

from regard.decoding.continuing import Dropped
from regard.runs.kinds.writer import Writer
from regard.runs.writing.pen import seeded
from regard.server.events import Event, streamed
from regard.server.text_service import TextService
from regard.server.texts.asking import GenerateRequest


def generating_routes(service: TextService) -> APIRouter:
    """The path, where the run writes."""
    router = APIRouter(prefix="/api", tags=["texts"])
    run = service.run
    if not isinstance(run, Writer):
        return router

    @router.post(
        "/generate",
        summary="Write on from a prompt, each piece as it comes.",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}}},
    )
    async def generate(asked: GenerateRequest) -> StreamingResponse:
        service.check_prompts([asked.prompt])
        dropped = threading.Event()
        events = written(run, asked, dropped.is_set)
        return await streamed(service.worker, events, "POST /api/generate", dropped)

    return router


@torch.inference_mode()
def written(run: Writer, asked: GenerateRequest, dropped: Dropped | None = None) -> Iterator[Event]:
    """``token`` after ``token``, each with the text that it adds; then ``done`` with all of it.

    ``done`` also tells the seed, whether the text came to an end by itself, and the words of the
    prompt that the model does not know.
    """
    seed = secrets.randbelow(2**31) if asked.seed is None else asked.seed
    manner = run.manner(
        max_new=asked.max_tokens,
        temperature=asked.temperature,
        top_k=asked.top_k,
        top_p=asked.top_p,
    )
    ids = run.prompt_ids(asked.prompt, asked.max_tokens)
    pieces = run.pen.pieces(ids, manner, rng=seeded(seed), stop=asked.stop, dropped=dropped)
    said, finished = "", None
    while finished is None:
        try:
            piece = next(pieces)
            said += piece
            yield "token", {"text": piece}
        except StopIteration as end:
            finished = bool(end.value)
    told = {"text": said, "finished": finished, "seed": seed}
    yield "done", {**told, "unknown": run.unknown_words(asked.prompt)}
