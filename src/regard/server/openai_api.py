"""``/v1/models``, ``/v1/completions`` and ``/v1/embeddings`` as OpenAI has them.

So that its clients work, for runs that write and runs that embed.
"""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import AsyncIterator, Generator
from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter
from starlette.responses import Response, StreamingResponse

from regard.runs.encoder_run import EncoderRun
from regard.runs.pen import Written, seeded
from regard.runs.writer import Writer
from regard.server.answers import RefusedError, as_json
from regard.server.batcher import BusyError
from regard.server.monitoring import log_error
from regard.server.openai_bodies import CompletionRequest, EmbeddingRequest
from regard.server.text_service import TextService

DONE = "data: [DONE]\n\n"
Pieces = Generator[str, None, bool]


def openai_routes(service: TextService) -> APIRouter:
    """The paths that the run can answer."""
    router = APIRouter(prefix="/v1", tags=["OpenAI"])

    @router.get("/models", summary="The one run there is.")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [_model(service)]}

    @router.get("/models/{name}", summary="The run, if it has that name.")
    async def model(name: str) -> dict[str, Any]:
        service.check_name(name)
        return _model(service)

    if isinstance(service.run, Writer):
        _add_completions(router, service, service.run)
    if isinstance(service.run, EncoderRun):
        _add_embeddings(router, service, service.run)
    return router


def _model(service: TextService) -> dict[str, Any]:
    return {"id": service.name, "object": "model", "created": service.made, "owned_by": "regard"}


def _add_completions(router: APIRouter, service: TextService, run: Writer) -> None:
    @router.post(
        "/completions",
        summary="Write on from a prompt, or from each of several.",
        response_model=None,
        responses={404: {"description": "There is no such model."}},
    )
    async def completions(asked: CompletionRequest) -> Response:
        service.check_name(asked.model)
        service.check_prompts(asked.prompts)
        if asked.stream:
            if len(asked.prompts) > 1 or (asked.n or 1) > 1:
                raise RefusedError(422, "a stream holds one text: send one prompt, and n 1")
            return await _streamed(service, run, asked)
        found = await service.worker.call(partial(_written, run, asked))
        texts = [one for several in found for one in several]
        choices = [_choice(i, one.text, _reason(one)) for i, one in enumerate(texts)]
        answer = _completion(service, choices)
        return _json(answer | {"usage": _usage(run, asked.prompts, texts)})


def _written(run: Writer, asked: CompletionRequest) -> list[list[Written]]:
    return run.written(
        asked.prompts, _manner(run, asked), rng=seeded(asked.seed), n=asked.n or 1, stop=asked.stops
    )


def _manner(run: Writer, asked: CompletionRequest) -> Any:
    temperature = 1.0 if asked.temperature is None else asked.temperature
    top_p = None if asked.top_p is None or asked.top_p == 1 else asked.top_p
    return run.manner(
        max_new=asked.max_tokens or 16, temperature=temperature, top_k=None, top_p=top_p
    )


def _reason(one: Written) -> str:
    return "stop" if one.finished else "length"


def _choice(index: int, text: str, reason: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": reason}


def _completion(service: TextService, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"cmpl-{uuid.uuid4().hex}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": service.name,
        "choices": choices,
    }


def _usage(run: Writer, prompts: list[str], texts: list[Written]) -> dict[str, int]:
    read = sum(len(run.framing.read(prompt)) for prompt in prompts)
    written = sum(len(one.tokens) for one in texts)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


async def _streamed(service: TextService, run: Writer, asked: CompletionRequest) -> Response:
    """Pieces of one text as they come; between two of them others have their turn."""
    ids = run.prompt_ids(asked.prompts[0], asked.max_tokens or 16)
    manner = _manner(run, asked)
    pieces = run.pen.pieces(ids, manner, rng=seeded(asked.seed), stop=asked.stops)
    first = await service.worker.call(lambda: _next(pieces))  # too busy? say so with a status
    frame = _completion(service, [])
    return StreamingResponse(
        _sent(service, pieces, first, frame),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store"},
    )


def _next(pieces: Pieces) -> tuple[str, str | None]:
    """The next piece; after the last one nothing, and why it was the last."""
    try:
        return next(pieces), None
    except StopIteration as stop:
        return "", "stop" if stop.value else "length"


async def _sent(
    service: TextService, pieces: Pieces, found: tuple[str, str | None], frame: dict[str, Any]
) -> AsyncIterator[str]:
    while True:
        piece, reason = found
        yield _line(frame | {"choices": [_choice(0, piece, reason)]})
        if reason is not None:
            break
        try:
            found = await service.worker.call(lambda: _next(pieces))
        except BusyError as busy:
            yield _line({"error": str(busy)})
            return
        except Exception as error:
            log_error("POST /v1/completions", error)
            yield _line({"error": "something went wrong; the server's log has more"})
            return
    yield DONE


def _line(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"


def _add_embeddings(router: APIRouter, service: TextService, run: EncoderRun) -> None:
    @router.post(
        "/embeddings",
        summary="The vector of a text, or of each of several.",
        response_model=None,
        responses={404: {"description": "There is no such model."}},
    )
    async def embeddings(asked: EmbeddingRequest) -> Response:
        service.check_name(asked.model)
        service.check_texts(asked.texts)
        found = await service.worker.call(partial(run.embed, asked.texts))
        n_tokens = sum(len(run.tokenizer.encode(text)) for text in asked.texts)
        data = [
            {"object": "embedding", "index": i, "embedding": _encoded(one, asked.encoding_format)}
            for i, one in enumerate(found)
        ]
        usage = {"prompt_tokens": n_tokens, "total_tokens": n_tokens}
        return _json({"object": "list", "data": data, "model": service.name, "usage": usage})


def _encoded(vector: Any, how: str) -> Any:
    if how == "float":
        return [float(number) for number in vector]
    return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode("ascii")


def _json(value: Any) -> Response:
    return Response(as_json(value), media_type="application/json")
