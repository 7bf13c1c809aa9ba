"""The bodies of requests to runs that read one text, checked."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from regard.server.asking import Asked, Count, Key, LookRequest, Name, Text
from regard.server.fields import MAX_STOPS
from regard.server.limits import MAX_GUESSES, MAX_LINES
from regard.server.openai_bodies import MAX_NEW, Stop

Other = Annotated[
    Text | None, Field(description="The second text, where the run was trained on pairs.")
]


class ClassifyRequest(Asked):
    """A text, or a pair of texts, that is to get a label."""

    text: Text = Field(min_length=1, description="A text.")
    other: Other = None
    api_key: Key = None


class FillRequest(Asked):
    """A text in which words are left out."""

    text: Text = Field(min_length=1, description="A text with <mask> where a word is left out.")
    n: int = Field(5, ge=1, le=MAX_GUESSES, description="Guesses for each mask.")
    api_key: Key = None


class EmbedRequest(Asked):
    """Texts whose vectors are wanted."""

    texts: list[Text] = Field(min_length=1, max_length=MAX_LINES, description="Texts.")
    api_key: Key = None


class NearestRequest(Asked):
    """A text, and others that may say the same."""

    text: Text = Field(min_length=1, description="A text.")
    others: list[Text] = Field(
        min_length=1, max_length=MAX_LINES, description="Texts to compare it with."
    )
    api_key: Key = None


class GenerateRequest(Asked):
    """A prompt to write on from, and how."""

    prompt: Text = Field("", description="A text.")
    max_tokens: int = Field(40, ge=1, le=MAX_NEW, description="Tokens to write at most.")
    temperature: float = Field(
        1.0, ge=0, le=5, allow_inf_nan=False, description="0 takes the most probable token."
    )
    top_k: int | None = Field(
        None, ge=1, le=100_000, description="Only so many of the likeliest tokens."
    )
    top_p: float | None = Field(
        None, gt=0, le=1, allow_inf_nan=False, description="Only the likeliest of this share."
    )
    stop: list[Stop] = Field([], max_length=MAX_STOPS, description="Words before which it ends.")
    seed: int | None = Field(None, ge=0, lt=2**53, description="For the same text again.")
    api_key: Key = None


class Layer(Asked):
    """One layer of one attention."""

    name: Name
    layer: Count


class TextLookRequest(LookRequest):
    """A text to look at while it is read."""

    source: Text = Field(description="A text; of a language model the prompt.")
    other: Other = None
    target: Text | None = Field(
        None, description="Of a language model: how the text goes on; else it writes on itself."
    )
    max_tokens: int = Field(
        20, ge=1, le=MAX_NEW, description="So many tokens it writes on at most."
    )
    packed: Layer | None = Field(
        None, description="Send weights packed, as in saved files; those of this layer are exact."
    )
