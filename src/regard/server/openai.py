"""``/v1/models``, ``/v1/completions``, ``/v1/chat/completions`` and ``/v1/embeddings``.

As OpenAI has them, so that its clients work: the first of every run, the others of runs that write
and of runs that embed. Fields of requests that are not known here are ignored; their clients send
many. Those that would change what is written, and are not done here, are refused unless they ask
for nothing.
"""

from __future__ import annotations

import base64
import json
import threading
import time
import uuid
from collections.abc import Generator, Iterator, Mapping
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from starlette.responses import Response
from typing_extensions import override

from regard.decoding.sampling import seeded
from regard.server.batcher import pieces
from regard.server.errors import RefusedError, as_json, json_response
from regard.server.limits import MAX_TEXTS
from regard.server.logprobs import chat_logprobs, completion_logprobs, scored_tokens
from regard.server.schemas import listed, texts_check
from regard.server.service import Event, Service, stream_response
from regard.tasks.base import Task
from regard.tasks.chat import ended_by, has_template, load_prompts
from regard.tasks.encoding import EncoderRun
from regard.tasks.generation import GenerationConfig
from regard.tasks.picture_verbs import ChatReply, PictureVerb
from regard.tasks.reading_verbs import EMBED
from regard.tasks.requests import MAX_NAME, MAX_NEW, MAX_STOPS, Image, Name, Numbered, Stop, Text
from regard.tasks.verbs import check_length
from regard.tasks.writer import Writer
from regard.tasks.writing_verbs import GENERATE

# ------------------------------------------------------------------ requests

DEFAULT_ANSWER = 500  # tokens of an answer where nothing is said
MAX_TURNS = 256
MAX_CHOICES = 16
MAX_LOGPROBS = {"completions": 5, "chat": 20}
"""Tokens told of beside each that was written, as OpenAI bounds them."""


def _stops(value: Any) -> Any:
    """A check for words before which a text ends; there may be none."""
    if value is not None:
        texts_check(MAX_STOPS, MAX_NAME)(value)
        if "" in listed(value):
            raise ValueError("must not hold an empty text")
    return value


def _text_parts(value: Any) -> Any:
    """A check for the content of a message: a text, or parts of one; no pictures, no sounds."""
    texts = value
    if isinstance(value, list):
        if any(not isinstance(one, dict) or one.get("type") != "text" for one in value):
            raise ValueError('may have parts of the "type" "text" only')
        texts = [one.get("text") for one in value]
    texts_check()(texts)
    return value


Texts = Annotated[
    Text | Annotated[list[Text], Field(min_length=1, max_length=MAX_TEXTS)],
    BeforeValidator(texts_check(may_be_empty=False)),
]
Stops = Annotated[
    Stop | Annotated[list[Stop], Field(max_length=MAX_STOPS)] | None, BeforeValidator(_stops)
]


UNSUPPORTED: Mapping[str, Any] = {
    "logit_bias": {},
    "suffix": "",
    "best_of": 1,
    "echo": False,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "response_format": {"type": "text"},
    "tools": [],
    "functions": [],
}
"""Fields of OpenAI's that would change what is written -> what asks for nothing, as null does."""


class _OpenAIRequest(Numbered):
    model_config = ConfigDict(extra="ignore", frozen=True)

    model: Name = Field(description="The name of the run, as /v1/models tells it.")


def _same(value: Any, other: Any) -> bool:
    """Equal, and a flag only to a flag: Python takes false for 0."""
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


def _unsupported(name: str, where: str) -> RefusedError:
    why = f"{name} is not supported {where}"
    return RefusedError(400, why, param=name, code="unsupported_parameter")


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

    @model_validator(mode="before")
    @classmethod
    def _supported(cls, fields: Any) -> Any:
        """Refuse what would silently not be done."""
        for name, nothing in UNSUPPORTED.items() if isinstance(fields, Mapping) else ():
            allowed = [None, nothing, *([fields.get("n")] if name == "best_of" else ())]
            if not any(_same(fields.get(name), one) for one in allowed):
                raise _unsupported(name, "here; leave it out")
        return fields

    @property
    def n_told(self) -> int | None:
        """Tokens to tell of beside each that is written; None: nothing is told of any."""
        return None

    def sampling(self) -> dict[str, Any]:
        """How to write, as runs take it; what is null is as where nothing is said."""
        return {
            "temperature": 1.0 if self.temperature is None else self.temperature,
            "top_k": None,
            "top_p": None if self.top_p == 1 else self.top_p,
        }


class CompletionRequest(SamplingRequest):
    """A prompt to write on from."""

    prompt: Texts = Field("", description="A text, or a list of texts.")
    max_tokens: int | None = Field(16, ge=1, le=MAX_NEW, description="Tokens to write at most.")
    logprobs: int | None = Field(
        None,
        ge=0,
        le=MAX_LOGPROBS["completions"],
        description="Tell how probable each token is, and so many others in its place.",
    )

    @model_validator(mode="before")
    @classmethod
    def _nothing_asked(cls, fields: Any) -> Any:
        """Clients of conversations say false where they want none."""
        if isinstance(fields, Mapping) and fields.get("logprobs") is False:
            return {**fields, "logprobs": None}
        return fields

    @property
    @override
    def n_told(self) -> int | None:
        return self.logprobs


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

    def as_message(self) -> dict[str, str]:
        """The message as runs take it, its parts joined."""
        parts = [self.content] if isinstance(self.content, str) else [p.text for p in self.content]
        return {"role": self.role, "content": "".join(parts)}


class ChatRequest(SamplingRequest):
    """A conversation to go on with."""

    messages: Annotated[list[Turn], Field(min_length=1, max_length=MAX_TURNS)]
    max_tokens: int | None = Field(
        None, ge=1, le=MAX_NEW, description="Tokens of the answer at most."
    )
    max_completion_tokens: int | None = Field(
        None, ge=1, le=MAX_NEW, description="The same by its newer name, which counts."
    )
    logprobs: bool | None = Field(False, description="Tell how probable each token is.")
    top_logprobs: int | None = Field(
        None,
        ge=0,
        le=MAX_LOGPROBS["chat"],
        description="So many others in the place of each, where logprobs is true.",
    )

    @property
    @override
    def n_told(self) -> int | None:
        if self.top_logprobs and not self.logprobs:
            raise RefusedError(400, "top_logprobs needs logprobs true", param="top_logprobs")
        return (self.top_logprobs or 0) if self.logprobs else None


class ImageUrl(BaseModel):
    """Where a picture is: in the address itself. Nothing is fetched."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    url: Image


class ImagePart(BaseModel):
    """A picture in a message."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    type: Literal["image_url"]
    image_url: ImageUrl


class PictureTurn(BaseModel):
    """One message of a conversation about a picture."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    role: Literal["system", "user", "assistant"]
    content: (
        Text
        | Annotated[
            list[Annotated[TextPart | ImagePart, Field(discriminator="type")]],
            Field(max_length=MAX_TEXTS),
        ]
    )

    @property
    def images(self) -> list[str]:
        """The pictures, as data URLs."""
        parts = [] if isinstance(self.content, str) else self.content
        return [part.image_url.url for part in parts if isinstance(part, ImagePart)]

    @property
    def text(self) -> str:
        """All that is no picture."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content if isinstance(part, TextPart))


class PictureChatRequest(ChatRequest):
    """A conversation about one picture; the last message of the user is answered."""

    messages: Annotated[list[PictureTurn], Field(min_length=1, max_length=MAX_TURNS)]  # type: ignore[assignment]

    def asked(self) -> tuple[str, str]:
        """The last picture of the conversation, and the last text of the user."""
        turns = [turn for turn in self.messages if turn.role == "user"]
        if (most := max((len(turn.images) for turn in turns), default=0)) > 1:
            raise RefusedError(
                422, f"this run reads one picture a message, but there are {most}; send one of them"
            )
        images = [image for turn in turns for image in turn.images]
        if not images:
            raise RefusedError(
                422, 'there is no picture: send a part of the type "image_url" with a data URL'
            )
        return images[-1], turns[-1].text

    def search(self) -> dict[str, Any]:
        """How to write: as the run does by itself, unless a temperature or top_p is given."""
        given = {"temperature": self.temperature, "top_p": self.top_p, "seed": self.seed}
        most = self.max_completion_tokens or self.max_tokens
        told = {name: x for name, x in given.items() if name in self.model_fields_set}
        return {**told, **({} if most is None else {"max_len": most})}


class EmbeddingRequest(_OpenAIRequest):
    """Texts whose vectors are wanted."""

    input: Texts = Field(description="A text, or a list of texts.")
    encoding_format: Literal["float", "base64"] = Field(
        "float", description="Numbers, or their float32 bytes in base64."
    )
    dimensions: int | None = Field(
        None, ge=1, description="How many numbers a vector has, if you would like to be sure."
    )


# ------------------------------------------------------------------ paths

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
    created = int(service.run.folder.weights.stat().st_mtime)
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
            raise _unsupported("logprobs", "of what is said to a picture; leave it out")
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
            raise _unsupported("logprobs", "of a stream; leave out logprobs or stream")
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
