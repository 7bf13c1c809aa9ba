"""``/v1/models``, ``/v1/completions`` and ``/v1/embeddings`` as OpenAI has them.

So that its clients work, for runs that write and runs that embed. Conversations have a file of
their own.
"""

from __future__ import annotations

import base64
import threading
import time
import uuid
from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter
from starlette.responses import Response

from regard.decoding.continuing import Manner
from regard.runs.kinds.encoder_run import EncoderRun
from regard.runs.kinds.writer import Writer
from regard.runs.writing.pen import Written, seeded
from regard.server.answers import RefusedError, as_json, json_response
from regard.server.openai_bodies import CompletionRequest, EmbeddingRequest
from regard.server.openai_chat import add_chat
from regard.server.openai_stream import Coming, reason, streamed, usage
from regard.server.text_service import TextService


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
        add_chat(router, service, service.run)
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
        service.check_written(len(asked.prompts) * (asked.n or 1), asked.max_tokens or 16)
        if asked.stream:
            if len(asked.prompts) > 1 or (asked.n or 1) > 1:
                raise RefusedError(422, "a stream holds one text: send one prompt, and n 1")
            return await _streamed(service, run, asked)
        dropped = threading.Event()
        found = await service.worker.call(partial(_written, run, asked, dropped), dropped)
        texts = [one for several in found for one in several]
        choices = [_choice(i, one.text, reason(one.finished)) for i, one in enumerate(texts)]
        answer = _completion(service, choices)
        n_read = sum(len(run.framing.read(prompt)) for prompt in asked.prompts)
        return _json(answer | {"usage": usage(n_read, texts)})


def _written(
    run: Writer, asked: CompletionRequest, dropped: threading.Event
) -> list[list[Written]]:
    return run.written(
        asked.prompts,
        _manner(run, asked),
        rng=seeded(asked.seed),
        n=asked.n or 1,
        stop=asked.stops,
        dropped=dropped.is_set,
    )


def _manner(run: Writer, asked: CompletionRequest) -> Manner:
    return run.manner(
        max_new=asked.max_tokens or 16, temperature=asked.warmth, top_k=None, top_p=asked.share
    )


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


async def _streamed(service: TextService, run: Writer, asked: CompletionRequest) -> Response:
    ids = run.prompt_ids(asked.prompts[0], asked.max_tokens or 16)
    manner, rng, dropped = _manner(run, asked), seeded(asked.seed), threading.Event()
    pieces = run.pen.pieces(ids, manner, rng=rng, stop=asked.stops, dropped=dropped.is_set)
    whole = _completion(service, [])

    def frame(piece: str, why: str | None) -> dict[str, Any]:
        return whole | {"choices": [_choice(0, piece, why)]}

    return await streamed(service, Coming(pieces, dropped), frame, "POST /v1/completions")


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
        width = run.model.config.d_model
        if asked.dimensions not in (None, width):
            raise RefusedError(
                422, f"dimensions must be {width}, which all vectors of this model have"
            )
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
    return json_response(as_json(value))
