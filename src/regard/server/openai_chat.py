"""``/v1/chat/completions`` as OpenAI has it, for runs with a template for conversations."""

from __future__ import annotations

import threading
import time
import uuid
from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from regard.decoding.continuing import Manner
from regard.runs.kinds.writer import Writer
from regard.runs.writing.chat import Chat, chat_of
from regard.runs.writing.chat_prompts import has_template
from regard.runs.writing.pen import Written, seeded
from regard.server.answers import RefusedError, as_json, json_response
from regard.server.openai_bodies import ChatRequest
from regard.server.openai_stream import Coming, reason, streamed, usage
from regard.server.text_service import TextService

PATH = "/chat/completions"


def add_chat(router: APIRouter, service: TextService, run: Writer) -> None:
    """The path. Where the run has no template, it says so, and stands in no manual."""
    able = has_template(run.folder.path)
    chat = chat_of(run) if able else None

    @router.post(
        PATH,
        summary="The next turn of a conversation.",
        response_model=None,
        include_in_schema=able,
        responses={404: {"description": "There is no such model."}},
    )
    async def answer(asked: ChatRequest) -> Response:
        service.check_name(asked.model)
        if chat is None:
            why = "has no template for conversations; write on from a text with /v1/completions"
            raise RefusedError(404, f"the model {service.name!r} {why}")
        return await _answered(service, run, chat, asked)


async def _answered(service: TextService, run: Writer, chat: Chat, asked: ChatRequest) -> Response:
    service.check_written(asked.n or 1, asked.max_new)
    manner, rng, frame = _manner(run, chat, asked), seeded(asked.seed), _frame(service)
    dropped = threading.Event()
    how: dict[str, Any] = {"rng": rng, "stop": asked.stops, "dropped": dropped.is_set}
    ids = await service.worker.call(partial(chat.prompts.ids, asked.turns))
    if len(ids) > run.context:
        found = f"{len(ids)} tokens, but the model's context holds {run.context}"
        raise RefusedError(422, f"the conversation has {found}; shorten it")
    if asked.stream:
        if (asked.n or 1) > 1:
            raise RefusedError(422, "a stream holds one text: send n 1")
        coming = Coming(chat.pen.pieces(ids, manner, **how), dropped)
        return await streamed(service, coming, partial(_piece, frame), f"POST /v1{PATH}")
    work = partial(chat.pen.write, [ids], manner, n=asked.n or 1, **how)
    (texts,) = await service.worker.call(work, dropped)
    choices = [_choice(i, one) for i, one in enumerate(texts)]
    return json_response(as_json(frame | {"choices": choices, "usage": usage(len(ids), texts)}))


def _manner(run: Writer, chat: Chat, asked: ChatRequest) -> Manner:
    plain = run.manner(
        max_new=asked.max_new, temperature=asked.warmth, top_k=None, top_p=asked.share
    )
    return chat.ending(plain)


def _frame(service: TextService) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": service.name,
    }


def _choice(index: int, one: Written) -> dict[str, Any]:
    return {
        "index": index,
        "message": {"role": "assistant", "content": one.text},
        "logprobs": None,
        "finish_reason": reason(one.finished),
    }


def _piece(frame: dict[str, Any], text: str, why: str | None) -> dict[str, Any]:
    """The last one says nothing but why."""
    said = {"role": "assistant", "content": text} if why is None else {}
    choice = {"index": 0, "delta": said, "logprobs": None, "finish_reason": why}
    return frame | {"object": "chat.completion.chunk", "choices": [choice]}
