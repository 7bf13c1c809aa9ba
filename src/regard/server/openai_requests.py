"""What OpenAI's clients ask: completions, conversations (with pictures, too) and embeddings.

Fields of requests that are not known here are ignored; their clients send many. Those that would
change what is written, and are not done here, are refused unless they ask for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from typing_extensions import override

from regard.server.errors import RefusedError
from regard.server.limits import MAX_TEXTS
from regard.server.schemas import listed, texts_check
from regard.tasks.requests import MAX_NAME, MAX_NEW, MAX_STOPS, Image, Name, Numbered, Stop, Text

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


def unsupported(name: str, where: str) -> RefusedError:
    """A field that asks for something which is not done there."""
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
                raise unsupported(name, "here; leave it out")
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
