"""What clients of OpenAI's API send: the bodies of requests, checked.

Fields that are not known here are ignored; their clients send many.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from regard.server.fields import MAX_STOPS, Numbered, parts, stops, texts
from regard.server.limits import MAX_CHARACTERS, MAX_NAME, MAX_TEXTS

MAX_NEW = 4096
"""Tokens that may be asked for."""
MAX_ANSWER = 500
"""Tokens of an answer where nothing is said."""
MAX_TURNS = 256
MAX_CHOICES = 16

Text = Annotated[str, Field(max_length=MAX_CHARACTERS)]
Texts = Annotated[
    Text | Annotated[list[Text], Field(min_length=1, max_length=MAX_TEXTS)],
    BeforeValidator(texts(none=False)),
]
"""One or many."""
Name = Annotated[str, Field(max_length=MAX_NAME)]
Stop = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Stops = Annotated[
    Stop | Annotated[list[Stop], Field(max_length=MAX_STOPS)] | None, BeforeValidator(stops)
]
"""None, one or many."""


class _Asked(Numbered):
    model_config = ConfigDict(extra="ignore", frozen=True)

    model: Name = Field(description="The name of the run, as /v1/models tells it.")


class _Writing(_Asked):
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
    def warmth(self) -> float:
        """The temperature; 1 where nothing is said."""
        return 1.0 if self.temperature is None else self.temperature

    @property
    def share(self) -> float | None:
        """``top_p``; None where all tokens may be chosen."""
        return None if self.top_p == 1 else self.top_p


class CompletionRequest(_Writing):
    """A prompt to write on from."""

    prompt: Texts = Field("", description="A text, or a list of texts.")
    max_tokens: int | None = Field(16, ge=1, le=MAX_NEW, description="Tokens to write at most.")

    @property
    def prompts(self) -> list[str]:
        """One or many."""
        return [self.prompt] if isinstance(self.prompt, str) else self.prompt


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
        Text | Annotated[list[TextPart], Field(max_length=MAX_TEXTS)], BeforeValidator(parts)
    ]

    @property
    def words(self) -> str:
        """All parts."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content)


class ChatRequest(_Writing):
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
        return self.max_completion_tokens or self.max_tokens or MAX_ANSWER

    @property
    def turns(self) -> list[dict[str, str]]:
        """The messages as runs take them."""
        return [{"role": turn.role, "content": turn.words} for turn in self.messages]


class EmbeddingRequest(_Asked):
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
