"""What clients of OpenAI's API send: the bodies of requests, checked.

Fields that are not known here are ignored; their clients send many.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from regard.server.limits import MAX_TEXTS
from regard.server.schemas import texts_check
from regard.tasks.requests import MAX_NAME, MAX_NEW, MAX_STOPS, Name, Numbered, Stop, Text

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
