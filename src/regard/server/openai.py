"""``/v1/models``, ``/v1/completions``, ``/v1/chat/completions`` and ``/v1/embeddings``.

As OpenAI has them, so that its clients work, for runs that write and runs that embed. Fields of
requests that are not known here are ignored; their clients send many.
"""

from __future__ import annotations

import base64
import json
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from fastapi import APIRouter
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.responses import Response

from regard.decoding.sampling import seeded
from regard.server.errors import RefusedError, as_json, json_response
from regard.server.limits import MAX_TEXTS
from regard.server.schemas import texts_check
from regard.server.service import Service
from regard.server.streaming import Event, Stream, stream_response
from regard.tasks.chat import ended_by, has_template, load_prompts
from regard.tasks.encoding import EncoderRun
from regard.tasks.generation import GenerationConfig, TextGenerator
from regard.tasks.requests import MAX_NAME, MAX_NEW, MAX_STOPS, Name, Numbered, Stop, Text
from regard.tasks.verbs import EMBED, GENERATE, check_length
from regard.tasks.writer import Writer

# ------------------------------------------------------------------ requests

DEFAULT_ANSWER = 500
"""Tokens of an answer where nothing is said."""
MAX_TURNS = 256
MAX_CHOICES = 16


def _stops(value: Any) -> Any:
    """A check for words before which a text ends; there may be none."""
    if value is None:
        return value
    texts_check(MAX_STOPS, MAX_NAME)(value)
    if value == "" or "" in list(value):
        raise ValueError("must not hold an empty text")
    return value


def _text_parts(value: Any) -> Any:
    """A check for the content of a message: a text, or parts of one; no pictures, no sounds."""
    if isinstance(value, list):
        if any(not isinstance(one, dict) or one.get("type") != "text" for one in value):
            raise ValueError('may have parts of the "type" "text" only')
        texts_check()([one.get("text") for one in value])
    else:
        texts_check()(value)
    return value


Texts = Annotated[
    Text | Annotated[list[Text], Field(min_length=1, max_length=MAX_TEXTS)],
    BeforeValidator(texts_check(may_be_empty=False)),
]
"""One or many."""
Stops = Annotated[
    Stop | Annotated[list[Stop], Field(max_length=MAX_STOPS)] | None,
    BeforeValidator(_stops),
]
"""None, one or many."""


class _OpenAIRequest(Numbered):
    model_config = ConfigDict(extra="ignore", frozen=True)

    model: Name = Field(description="The name of the run, as /v1/models tells it.")


class SamplingRequest(_OpenAIRequest):
    """How to write."""

    temperature: float | None = Field(
        1.0, ge=0, le=2, allow_inf_nan=False, description="0 takes the most probable token."
    )
    top_p: float | None = Field(
        1.0, gt=0, le=1, allow_inf_nan=False, description="Only the likeliest of this share."
    )
    n: int | None = Field(1, ge=1, le=MAX_CHOICES, description="Texts to choose from.")
    stream: bool | None = Field(False, description="Send the text as it comes.")
    stop: Stops = Field(None, description="Words before which a text ends.")
    seed: int | None = Field(None, ge=0, lt=2**63, description="For the same text again.")

    @property
    def stops(self) -> list[str]:
        """None, one or many."""
        return [self.stop] if isinstance(self.stop, str) else list(self.stop or ())

    @property
    def max_new(self) -> int:
        """Tokens of one text at most."""
        raise NotImplementedError

    def sampling(self) -> dict[str, Any]:
        """How to write, as runs take it; what is null is as where nothing is said."""
        return {
            "max_new": self.max_new,
            "temperature": 1.0 if self.temperature is None else self.temperature,
            "top_k": None,
            "top_p": None if self.top_p == 1 else self.top_p,
        }


class CompletionRequest(SamplingRequest):
    """A prompt to write on from."""

    prompt: Texts = Field("", description="A text, or a list of texts.")
    max_tokens: int | None = Field(16, ge=1, le=MAX_NEW, description="Tokens to write at most.")

    @property
    def prompts(self) -> list[str]:
        """One or many."""
        return [self.prompt] if isinstance(self.prompt, str) else self.prompt

    @property
    def max_new(self) -> int:
        """Tokens to write at most."""
        return self.max_tokens or 16


class TextPart(BaseModel):
    """A part of a message; pictures and sounds are none here."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    type: Literal["text"]
    text: Text


class Turn(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    role: Literal["system", "user", "assistant"]
    content: Annotated[
        Text | Annotated[list[TextPart], Field(max_length=MAX_TEXTS)], BeforeValidator(_text_parts)
    ]

    @property
    def text(self) -> str:
        """All parts."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content)


class ChatRequest(SamplingRequest):
    """A conversation to go on with."""

    messages: Annotated[list[Turn], Field(min_length=1, max_length=MAX_TURNS)]
    max_tokens: int | None = Field(
        None, ge=1, le=MAX_NEW, description="Tokens of the answer at most."
    )
    max_completion_tokens: int | None = Field(
        None, ge=1, le=MAX_NEW, description="The same by its newer name, which counts."
    )

    @property
    def max_new(self) -> int:
        """By either name."""
        return self.max_completion_tokens or self.max_tokens or DEFAULT_ANSWER

    @property
    def turns(self) -> list[dict[str, str]]:
        """The messages as runs take them."""
        return [{"role": turn.role, "content": turn.text} for turn in self.messages]


class EmbeddingRequest(_OpenAIRequest):
    """Texts whose vectors are wanted."""

    input: Texts = Field(description="A text, or a list of texts.")
    encoding_format: Literal["float", "base64"] = Field(
        "float", description="Numbers, or their float32 bytes in base64."
    )
    dimensions: int | None = Field(
        None, ge=1, description="How many numbers a vector has, if you would like to be sure."
    )

    @property
    def texts(self) -> list[str]:
        """One or many."""
        return [self.input] if isinstance(self.input, str) else self.input


# ------------------------------------------------------------------ paths

NO_MODEL: dict[int | str, dict[str, Any]] = {404: {"description": "There is no such model."}}
DONE = "data: [DONE]"


class _Style(NamedTuple):
    """How OpenAI writes the answers of a path."""

    path: str
    mark: str
    """Before the number of an answer."""
    whole: str
    """What an answer is called."""
    piece: str
    """What a part of it is called, in a stream."""
    choice: Callable[[str], dict[str, Any]]
    """A text → how it is told."""
    delta: Callable[[str, str | None], dict[str, Any]]
    """A piece, and after the last one why it was the last → how it is told."""


COMPLETION = _Style(
    "/completions",
    "cmpl",
    "text_completion",
    "text_completion",
    lambda text: {"text": text},
    lambda text, _why: {"text": text},
)
CHAT = _Style(
    "/chat/completions",
    "chatcmpl",
    "chat.completion",
    "chat.completion.chunk",
    lambda text: {"message": {"role": "assistant", "content": text}},
    lambda text, why: {"delta": {"role": "assistant", "content": text} if why is None else {}},
)


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
    if EMBED in service.task.verbs:
        _add_embeddings(router, service, service.run)
    return router


def _model(service: Service) -> dict[str, Any]:
    created = int(service.run.folder.weights.stat().st_mtime)
    return {"id": service.name, "object": "model", "created": created, "owned_by": "regard"}


def _check_name(service: Service, asked: str) -> None:
    """Refuse a model that this server does not have."""
    if asked != service.name:
        why = f"there is no model {asked[:50]!r}; this server has {service.name!r}"
        raise RefusedError(404, why)


def _json(value: Any) -> Response:
    return json_response(as_json(value))


# ------------------------------------------------------------------ completions and conversations


def _add_completions(router: APIRouter, service: Service, run: Writer) -> None:
    @router.post(
        COMPLETION.path,
        summary="Write on from a prompt, or from each of several.",
        response_model=None,
        responses=NO_MODEL,
    )
    async def completions(asked: CompletionRequest) -> Response:
        _check_name(service, asked.model)
        for prompt in asked.prompts:
            GENERATE.check(run, GENERATE.request(prompt=prompt), service.limits.tokens)
        _check_written(service, len(asked.prompts) * (asked.n or 1), asked.max_new)
        if asked.stream and len(asked.prompts) > 1:
            raise RefusedError(422, "a stream holds one text: send one prompt, and n 1")
        ids = [run.prompt_ids(prompt, asked.max_new) for prompt in asked.prompts]
        config = run.generation(**asked.sampling())
        return await _generated(service, asked, COMPLETION, run.generator, ids, config)


def _add_chat(router: APIRouter, service: Service, run: Writer) -> None:
    """Where the run has no template for conversations, the path says so, and is in no manual."""
    able = has_template(run.folder.path)
    prompts = load_prompts(run.folder.path, run.tokenizer, run.context) if able else None
    end = None if prompts is None else prompts.end_of_turn()

    @router.post(
        CHAT.path,
        summary="The next turn of a conversation.",
        response_model=None,
        include_in_schema=able,
        responses=NO_MODEL,
    )
    async def answer(asked: ChatRequest) -> Response:
        _check_name(service, asked.model)
        if prompts is None:
            why = "has no template for conversations; write on from a text with /v1/completions"
            raise RefusedError(404, f"the model {service.name!r} {why}")
        _check_written(service, asked.n or 1, asked.max_new)
        ids = await service.worker.call(partial(prompts.ids, asked.turns))
        if len(ids) > run.context:
            found = f"{len(ids)} tokens, but the model's context holds {run.context}"
            raise RefusedError(422, f"the conversation has {found}; shorten it")
        config = ended_by(run.generation(**asked.sampling()), end)
        return await _generated(service, asked, CHAT, run.generator, [ids], config)


async def _generated(
    service: Service,
    asked: SamplingRequest,
    style: _Style,
    generator: TextGenerator,
    ids: list[list[int]],
    config: GenerationConfig,
) -> Response:
    """What follows each prompt, whole or as it comes."""
    n, dropped = asked.n or 1, threading.Event()
    head = {
        "id": f"{style.mark}-{uuid.uuid4().hex}",
        "object": style.whole,
        "created": int(time.time()),
        "model": service.name,
    }
    how: dict[str, Any] = {
        "rng": seeded(asked.seed),
        "stop": asked.stops,
        "dropped": dropped.is_set,
    }
    if asked.stream:
        if n > 1:
            raise RefusedError(422, "a stream holds one text: send n 1")
        events = _events(generator.pieces(ids[0], config, **how), head, style)
        stream = Stream(events, f"POST /v1{style.path}", dropped, error_name=None)
        return await stream_response(service.worker, stream)
    found = await service.worker.call(partial(generator.texts, ids, config, n=n, **how), dropped)
    texts = [one for several in found for one in several]
    choices = [
        _choice(i, style.choice(one.text), _reason(one.finished)) for i, one in enumerate(texts)
    ]
    n_read, n_written = sum(map(len, ids)), sum(len(one.tokens) for one in texts)
    usage = {"prompt_tokens": n_read, "completion_tokens": n_written}
    usage["total_tokens"] = n_read + n_written
    return _json(head | {"choices": choices, "usage": usage})


def _events(
    pieces: Generator[str, None, bool], head: dict[str, Any], style: _Style
) -> Iterator[Event]:
    """A frame a piece, one more that says why it was the last, and OpenAI's mark of the end."""

    def frame(text: str, why: str | None) -> dict[str, Any]:
        return head | {"object": style.piece, "choices": [_choice(0, style.delta(text, why), why)]}

    finished = None
    while finished is None:
        try:
            yield Event(frame(next(pieces), None))
        except StopIteration as end:
            finished = bool(end.value)
    yield Event(f"{json.dumps(frame('', _reason(finished)))}\n\n{DONE}", last=True)


def _choice(index: int, told: dict[str, Any], reason: str | None) -> dict[str, Any]:
    return {"index": index, **told, "logprobs": None, "finish_reason": reason}


def _reason(finished: bool) -> str:
    """Why a text has ended, in OpenAI's words."""
    return "stop" if finished else "length"


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
    @router.post(
        "/embeddings",
        summary="The vector of a text, or of each of several.",
        response_model=None,
        responses=NO_MODEL,
    )
    async def embeddings(asked: EmbeddingRequest) -> Response:
        _check_name(service, asked.model)
        for text in asked.texts:
            check_length(run, service.limits.tokens, text)
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
