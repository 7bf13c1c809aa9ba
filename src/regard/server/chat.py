"""``/api/chat``: a conversation as the page has it, and where the model looked in it.

Clients of OpenAI have ``/v1/chat/completions``. Here an answer comes with its tokens, so that one
can be chosen and looked into, and the oldest turns are dropped where the context is full.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any

import torch
from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response, StreamingResponse

from regard.core.errors import DataError
from regard.decoding.sampling import seeded
from regard.server.errors import as_json, json_response
from regard.server.openai_requests import MAX_TURNS, Turn
from regard.server.schemas import Index
from regard.server.service import EVENT_STREAM, Event, Service, stream_response
from regard.tasks.chat import ChatPrompts, answered, ended_by, has_template, load_prompts
from regard.tasks.requests import MAX_NEW, Request
from regard.tasks.writer import Writer
from regard.tasks.writing_verbs import GENERATE

MOST_WEIGHTS = 2**22
"""Of all heads of a look at a conversation together; each takes 16 bytes."""
ANSWER = 200
"""Tokens of an answer where nothing is said."""


class ConversationRequest(Request):
    """A conversation whose next turn is the model's."""

    messages: Annotated[list[Turn], Field(min_length=1, max_length=MAX_TURNS)]
    max_tokens: int = Field(ANSWER, ge=1, le=MAX_NEW, description="Tokens of the answer at most.")

    def turns(self) -> list[dict[str, str]]:
        """The messages as runs take them."""
        return [turn.as_message() for turn in self.messages]


class SaidRequest(ConversationRequest):
    """How the model answers."""

    temperature: float = Field(
        1.0, ge=0, le=2, allow_inf_nan=False, description="0 takes the most probable token."
    )
    seed: int | None = Field(None, ge=0, lt=2**63, description="For the same answer again.")


class ChatLookRequest(ConversationRequest):
    """An answer that was given to a conversation, and one of its tokens."""

    ids: Annotated[list[Index], Field(min_length=1, max_length=MAX_NEW)] = Field(
        description="The tokens of the answer, as they came."
    )
    token: Index = Field(description="Which of them, counted from 0.")


def chats(run: Any, task: Any) -> bool:
    """Whether a run was made for conversations."""
    return GENERATE in task.verbs and has_template(run.folder.path)


def chat_routes(service: Service) -> APIRouter:
    """The next turn, and a look at one of its tokens."""
    router, run = APIRouter(prefix="/api/chat", tags=["chat"]), service.run
    prompts = load_prompts(run.folder.path, run.tokenizer, run.context)
    end = prompts.end_of_turn()

    @router.post(
        "",
        summary="The next turn of a conversation, as it comes.",
        response_class=StreamingResponse,
        responses=EVENT_STREAM,
    )
    async def say(asked: SaidRequest) -> StreamingResponse:
        ids = await service.worker.call(partial(_read, prompts, asked))
        config = run.generation(max_new=asked.max_tokens, temperature=asked.temperature)
        dropped = threading.Event()
        how = {"rng": seeded(asked.seed), "dropped": dropped.is_set}
        events = _events(answered(ids, run.generator, ended_by(config, end), **how))
        return await stream_response(service.worker, events, "POST /api/chat", dropped)

    @router.post("/look", summary="Where the model looked when it wrote a token of its answer.")
    async def look(asked: ChatLookRequest) -> Response:
        return json_response(await service.worker.call(partial(_look, run, prompts, asked)))

    return router


def _read(prompts: ChatPrompts, asked: ConversationRequest) -> list[int]:
    return prompts.fitting(asked.turns(), max_new=asked.max_tokens, truncate="left")


@torch.inference_mode()
def _events(pieces: Any) -> Iterator[Event]:
    """An event a piece, and one with the whole answer and its tokens."""
    while True:
        try:
            yield Event({"text": next(pieces)}, "token")
        except StopIteration as end:
            whole = end.value
            break
    tokens = [{"id": i, "text": text} for i, text in zip(whole.ids, whole.pieces, strict=True)]
    told = {"text": whole.text, "finished": whole.finished, "tokens": tokens}
    yield Event(told, "done", last=True)


def _look(run: Writer, prompts: ChatPrompts, asked: ChatLookRequest) -> bytes:
    """The weights of one position in every head: the one that wrote the token."""
    read, n_vocab = _read(prompts, asked), run.model.config.n_vocab
    if max(asked.ids) >= n_vocab or asked.token >= len(asked.ids):
        raise DataError(
            f"the answer has tokens 0 to {len(asked.ids) - 1}, each less than {n_vocab}; send its "
            "ids as they came"
        )
    written = asked.ids[: asked.token + 1]
    _check(run, read, written)
    look = run.look_at_ids(read, written)
    row = len(read) + asked.token - 1  # the position before a token writes it
    assert look.written is not None
    assert look.outcome is not None
    known = look.written.probabilities[asked.token :]  # one that fills the context is never read
    return as_json(
        {
            "tokens": [*look.source_tokens, *look.target_tokens][: row + 1],
            "n_read": len(read),
            "token": run.tokenizer.tokens(written[-1:])[0],
            "probability": next(iter(known), None),
            "choices": [one._asdict() for one in look.outcome.places[row].choices],
            "weights": {
                name: [layer[:, row, : row + 1].tolist() for layer in layers]
                for name, layers in look.attentions.items()
            },
        }
    )


def _check(run: Writer, read: Sequence[int], written: Sequence[int]) -> None:
    """Refuse a look whose weights would take too much of this machine."""
    n, heads = len(read) + len(written), max(1, run.model.config.n_self_heads)
    most = math.isqrt(MOST_WEIGHTS // heads)
    if n > most:
        raise DataError(
            f"{most:,} tokens of a conversation can be looked into, and there are {n:,} up to this "
            "one; begin a new conversation"
        )
