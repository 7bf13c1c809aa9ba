"""``/v1/models``, ``/v1/completions``, ``/v1/chat/completions`` and ``/v1/embeddings``.

As OpenAI has them, so that its clients work: the first of every run, the others of runs that write
and of runs that embed.
"""

from __future__ import annotations

import base64
import json
import threading
import time
import uuid
from collections.abc import Generator, Iterator
from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter
from starlette.responses import Response

from regard.decoding.sampling import seeded
from regard.server.batcher import pieces
from regard.server.errors import RefusedError, as_json, json_response
from regard.server.logprobs import chat_logprobs, completion_logprobs, scored_tokens
from regard.server.openai_requests import (
    DEFAULT_ANSWER,
    ChatRequest,
    CompletionRequest,
    EmbeddingRequest,
    PictureChatRequest,
    SamplingRequest,
    unsupported,
)
from regard.server.schemas import listed
from regard.server.service import Event, Service, stream_response
from regard.tasks.base import Task
from regard.tasks.chat import ended_by, has_template, load_prompts
from regard.tasks.encoding import EncoderRun
from regard.tasks.generation import GenerationConfig
from regard.tasks.picture_verbs import ChatReply, PictureVerb
from regard.tasks.reading_verbs import EMBED
from regard.tasks.verbs import check_length
from regard.tasks.writer import Writer
from regard.tasks.writing_verbs import GENERATE

DONE = "data: [DONE]"
ABOUT: dict[str, Any] = {
    "response_model": None,
    "responses": {404: {"description": "There is no such model."}},
}


def picture_verb(task: Task) -> PictureVerb | None:
    """The verb of a task that replies to messages with a picture, if it has one."""
    verbs = (verb for verb in task.verbs if isinstance(verb, PictureVerb) and verb.chats)
    return next(verbs, None)


def openai_routes(service: Service) -> APIRouter:
    """The paths that the run can answer."""
    router = APIRouter(prefix="/v1", tags=["OpenAI"])

    @router.get("/models", summary="The one run there is.")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [_model(service)]}

    @router.get("/models/{name}", summary="The run, if it has that name.")
    async def model(name: str) -> dict[str, Any]:
        _check_name(service, name)
        return _model(service)

    if GENERATE in service.task.verbs:
        _add_completions(router, service, service.run)
        _add_chat(router, service, service.run)
    if (verb := picture_verb(service.task)) is not None:
        _add_picture_chat(router, service, verb)
    if EMBED in service.task.verbs:
        _add_embeddings(router, service, service.run)
    return router


def _model(service: Service) -> dict[str, Any]:
    created = int(service.run.written_at())
    return {"id": service.name, "object": "model", "created": created, "owned_by": "regard"}


def _check_name(service: Service, asked: str) -> None:
    if asked != service.name:
        why = f"there is no model {asked[:50]!r}; this server has {service.name!r}"
        raise RefusedError(404, why, param="model", code="model_not_found")


# ------------------------------------------------------------------ completions and conversations


def _add_completions(router: APIRouter, service: Service, run: Writer) -> None:
    @router.post(
        "/completions", summary="Write on from a prompt, or from each of several.", **ABOUT
    )
    async def completions(asked: CompletionRequest) -> Response:
        _check_name(service, asked.model)
        prompts, max_new = listed(asked.prompt), asked.max_tokens or 16
        for prompt in prompts:
            GENERATE.check(run, GENERATE.request(prompt=prompt), service.limits.tokens)
        _check_written(service, len(prompts) * (asked.n or 1), max_new)
        if asked.stream and len(prompts) > 1:
            raise RefusedError(422, "a stream holds one text: send one prompt, and n 1")
        ids = [run.prompt_ids(prompt, max_new) for prompt in prompts]
        config = run.generation(max_new=max_new, **asked.sampling())
        return await _generated(service, asked, run, ids, config)


def _add_chat(router: APIRouter, service: Service, run: Writer) -> None:
    """Where the run has no template for conversations, the path says so, and is in no manual."""
    able = has_template(run.folder.path)
    prompts = load_prompts(run.folder.path, run.tokenizer, run.context) if able else None
    end = None if prompts is None else prompts.end_of_turn()
    summary = "The next turn of a conversation."

    @router.post("/chat/completions", summary=summary, include_in_schema=able, **ABOUT)
    async def answer(asked: ChatRequest) -> Response:
        _check_name(service, asked.model)
        if prompts is None:
            why = "has no template for conversations; write on from a text with /v1/completions"
            raise RefusedError(404, f"the model {service.name!r} {why}")
        max_new = asked.max_completion_tokens or asked.max_tokens or DEFAULT_ANSWER
        _check_written(service, asked.n or 1, max_new)
        turns = [turn.as_message() for turn in asked.messages]
        ids = await service.worker.call(partial(prompts.ids, turns))
        if len(ids) > run.context:
            found = f"{len(ids)} tokens, but the model's context holds {run.context}"
            raise RefusedError(422, f"the conversation has {found}; shorten it")
        config = ended_by(run.generation(max_new=max_new, **asked.sampling()), end)
        return await _generated(service, asked, run, [ids], config)


def _add_picture_chat(router: APIRouter, service: Service, verb: PictureVerb) -> None:
    """What a run says to a picture: its caption, or the answer to a question about it."""

    @router.post("/chat/completions", summary="What is said of a picture.", **ABOUT)
    async def reply(asked: PictureChatRequest) -> Response:
        _check_name(service, asked.model)
        image, text = asked.asked()
        n = asked.n or 1
        if asked.n_told is not None:
            raise unsupported("logprobs", "of what is said to a picture; leave it out")
        if asked.stream and n > 1:
            raise RefusedError(422, "a stream holds one text: send n 1")
        how = asked.search()
        at_most = service.limits.tokens
        call = partial(verb.replies, service.run, image, text, n, at_most=at_most, **how)
        found = await service.worker.call(call)
        head = _head(service, chat=True)
        if asked.stream:
            dropped = threading.Event()
            events = _events(_whole(found[0]), head, chat=True)
            where = "POST /v1/chat/completions"
            return await stream_response(service.worker, events, where, dropped, error_name=None)
        choices = [
            _choice(i, {"message": _message(one.text)}, one.finished) for i, one in enumerate(found)
        ]
        n_written = sum(one.n_tokens for one in found)
        usage = {"prompt_tokens": 0, "completion_tokens": n_written, "total_tokens": n_written}
        return json_response(as_json(head | {"choices": choices, "usage": usage}))


def _whole(reply: ChatReply) -> Generator[str, None, bool]:
    """A reply as one piece."""
    yield reply.text
    return reply.finished


def _head(service: Service, *, chat: bool) -> dict[str, Any]:
    """What an answer begins with."""
    return {
        "id": f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}",
        "object": "chat.completion" if chat else "text_completion",
        "created": int(time.time()),
        "model": service.name,
    }


async def _generated(
    service: Service,
    asked: SamplingRequest,
    run: Writer,
    ids: list[list[int]],
    config: GenerationConfig,
) -> Response:
    """What follows each prompt, whole or as it comes."""
    n, dropped = asked.n or 1, threading.Event()
    chat = isinstance(asked, ChatRequest)
    head = _head(service, chat=chat)
    rng, stop = seeded(asked.seed), listed(asked.stop)
    how: dict[str, Any] = {"rng": rng, "stop": stop, "dropped": dropped.is_set}
    n_told, generator = asked.n_told, run.generator
    if asked.stream:
        if n > 1:
            raise RefusedError(422, "a stream holds one text: send n 1")
        if n_told is not None:
            raise unsupported("logprobs", "of a stream; leave out logprobs or stream")
        events = _events(generator.pieces(ids[0], config, **how), head, chat)
        where = f"POST /v1/{'chat/' if chat else ''}completions"
        return await stream_response(service.worker, events, where, dropped, error_name=None)
    found = await service.worker.call(partial(generator.texts, ids, config, n=n, **how), dropped)
    texts = [one for several in found for one in several]
    told: list[Any] = [None] * len(texts)
    if n_told is not None:
        tell = chat_logprobs if chat else completion_logprobs
        prompts = [prompt for prompt in ids for _ in range(n)]
        pairs = zip(prompts, texts, strict=True)
        scored = [partial(scored_tokens, run, prompt, one, n_told) for prompt, one in pairs]
        told = [tell(tokens) for tokens in await service.worker.each(scored)]
    choices = [
        _choice(
            i,
            {"message": _message(one.text)} if chat else {"text": one.text},
            one.finished,
            told[i],
        )
        for i, one in enumerate(texts)
    ]
    n_read, n_written = sum(map(len, ids)), sum(len(one.tokens) for one in texts)
    usage = {"prompt_tokens": n_read, "completion_tokens": n_written}
    usage["total_tokens"] = n_read + n_written
    return json_response(as_json(head | {"choices": choices, "usage": usage}))


def _events(
    pieces: Generator[str, None, bool], head: dict[str, Any], chat: bool
) -> Iterator[Event]:
    """A frame a piece, one more that says why it was the last, and OpenAI's mark of the end."""

    def frame(text: str, finished: bool | None) -> dict[str, Any]:
        delta = _message(text) if finished is None else {}
        choice = _choice(0, {"delta": delta} if chat else {"text": text}, finished)
        name = "chat.completion.chunk" if chat else "text_completion"
        return head | {"object": name, "choices": [choice]}

    finished = None
    while finished is None:
        try:
            yield Event(frame(next(pieces), None))
        except StopIteration as end:
            finished = bool(end.value)
    yield Event(f"{json.dumps(frame('', finished))}\n\n{DONE}", last=True)


def _message(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def _choice(
    index: int, told: dict[str, Any], finished: bool | None, logprobs: Any = None
) -> dict[str, Any]:
    """A text, or a piece of one, and why it ended; None where it goes on."""
    reason = None if finished is None else "stop" if finished else "length"
    return {"index": index, **told, "logprobs": logprobs, "finish_reason": reason}


def _check_written(service: Service, n_texts: int, max_new: int) -> None:
    """Refuse more tokens than one request may have written, all its texts together."""
    each, most = min(max_new, service.run.context), service.limits.new_tokens
    if n_texts * each > most:
        raise RefusedError(
            422,
            f"{n_texts} texts of up to {each} tokens are {n_texts * each:,} tokens, and one "
            f"request may ask for {most:,}; ask for fewer texts, or for shorter ones",
        )


# ------------------------------------------------------------------ embeddings


def _add_embeddings(router: APIRouter, service: Service, run: EncoderRun) -> None:
    @router.post("/embeddings", summary="The vector of a text, or of each of several.", **ABOUT)
    async def embeddings(asked: EmbeddingRequest) -> Response:
        _check_name(service, asked.model)
        texts = listed(asked.input)
        for text in texts:
            check_length(run, service.limits.tokens, text)
        width = run.model.config.d_model
        if asked.dimensions not in (None, width):
            why = f"dimensions must be {width}, which all vectors of this model have"
            raise RefusedError(422, why)
        works = [partial(run.embed, texts[cut]) for cut in pieces(texts, service.limits)]
        found = np.concatenate(await service.worker.each(works))
        n_tokens = sum(len(run.tokenizer.encode(text)) for text in texts)
        vectors: list[Any] = [[float(number) for number in vector] for vector in found]
        if asked.encoding_format == "base64":
            bits = [np.asarray(vector, dtype="<f4").tobytes() for vector in found]
            vectors = [base64.b64encode(one).decode("ascii") for one in bits]
        data = [
            {"object": "embedding", "index": i, "embedding": one} for i, one in enumerate(vectors)
        ]
        usage = {"prompt_tokens": n_tokens, "total_tokens": n_tokens}
        answer = {"object": "list", "data": data, "model": service.name, "usage": usage}
        return json_response(as_json(answer))
