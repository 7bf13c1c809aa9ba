"""The bodies of requests, checked field by field.

Fields whose mistakes pydantic would tell in words about its types have checks of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)

from regard.server.limits import (
    MAX_BEAMS,
    MAX_CHARACTERS,
    MAX_EDITS,
    MAX_GUESSES,
    MAX_LINES,
    MAX_NAME,
    MAX_NEW,
    MAX_STOPS,
    MAX_TEXTS,
)

# ------------------------------------------------------------------ checks of single fields


def texts_check(
    most: int = MAX_TEXTS, characters: int = MAX_CHARACTERS, *, may_be_empty: bool = True
) -> Callable[[Any], Any]:
    """A check for a text or a list of at most ``most`` texts."""

    def checked(value: Any) -> Any:
        many = value if isinstance(value, list) else [value]
        if not all(isinstance(one, str) for one in many) or len(many) > most:
            raise ValueError(f"must be a text or a list of at most {most} texts")
        if any(len(one) > characters for one in many):
            raise ValueError(f"may have at most {characters:,} characters a text")
        if not many and not may_be_empty:
            raise ValueError("must not be empty")
        return value

    return checked


def not_a_flag(value: Any) -> Any:
    """A check for a number: pydantic takes true for 1."""
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


def _row(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("must be a token or the number of its row")
    return value


Text = Annotated[str, Field(max_length=MAX_CHARACTERS)]
Name = Annotated[str, Field(max_length=MAX_NAME)]
Index = Annotated[int, Field(ge=0, le=100_000), BeforeValidator(not_a_flag)]
"""A layer, a head or a position, from 0."""
StopWord = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Key = Annotated[str | None, Field(max_length=MAX_NAME, description="If the server has one.")]
"""The server's own; who checks it has read it before."""
SecondText = Annotated[
    Text | None, Field(description="The second text, where the run was trained on pairs.")
]


class Numbered(BaseModel):
    """Requests whose numbers are numbers, and not flags."""

    @field_validator("*", mode="before")
    @classmethod
    def _numbers(cls, value: Any, info: ValidationInfo) -> Any:
        kind = cls.model_fields[info.field_name or ""].annotation
        return not_a_flag(value) if {int, float} & {kind, *get_args(kind)} else value


class StrictRequest(Numbered):
    """What is not known here is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


# ------------------------------------------------------------------ what-ifs


class WhatIf(BaseModel):
    """A change of the model or of its words; its kind says which."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Ablate(WhatIf):
    """A head brings nothing home."""

    kind: Literal["ablate"]
    name: Name
    layer: Index
    head: Index


class Force(WhatIf):
    """A head looks at one key and nowhere else."""

    kind: Literal["force"]
    name: Name
    layer: Index
    head: Index
    key: Index


class Temperature(WhatIf):
    """Scores are divided by a value, in one kind of attention or all."""

    kind: Literal["temperature"]
    value: Annotated[
        float, Field(ge=0.01, le=100, allow_inf_nan=False), BeforeValidator(not_a_flag)
    ]
    name: Name | None = None


class NoPositions(WhatIf):
    """The model is not told where words stand."""

    kind: Literal["no_positions"]


class Swap(WhatIf):
    """Two words of the source change places."""

    kind: Literal["swap"]
    first: Index
    second: Index


class ForceToken(WhatIf):
    """The target has this token at a position, and is written on from there."""

    kind: Literal["force_token"]
    position: Index
    token: Name


Edit = Annotated[
    Ablate | Force | Temperature | NoPositions | Swap | ForceToken, Field(discriminator="kind")
]

# ------------------------------------------------------------------ looking inside


class StepsRequest(StrictRequest):
    """One row of one head, step by step."""

    name: Name
    layer: Index
    head: Index
    token: Annotated[Name | Index, BeforeValidator(_row)] = Field(
        description="The row: a token, its first occurrence, or a number."
    )


class PackedLayer(StrictRequest):
    """One layer of one attention."""

    name: Name
    layer: Index


class LookRequest(StrictRequest):
    """What may be asked of every look."""

    edits: list[Edit] = Field([], max_length=MAX_EDITS, description="What if?")
    steps: StepsRequest | None = Field(None, description="Show the six steps of this row, too.")
    rollout: Name | None = Field(
        None, description="Show where this self-attention leads through all its layers, too."
    )
    api_key: Key = None


class ExplainRequest(LookRequest):
    """A sentence to look at while it is translated."""

    source: Text = Field(min_length=1, description="A sentence.")
    target: Text | None = Field(None, description="A translation to look at; else the model's own.")


class TextLookRequest(LookRequest):
    """A text to look at while it is read."""

    source: Text = Field(description="A text; of a language model the prompt.")
    other: SecondText = None
    target: Text | None = Field(
        None, description="Of a language model: how the text goes on; else it writes on itself."
    )
    max_tokens: int = Field(
        20, ge=1, le=MAX_NEW, description="So many tokens it writes on at most."
    )
    packed: PackedLayer | None = Field(
        None, description="Send weights packed, as in saved files; those of this layer are exact."
    )


class BeamRequest(StrictRequest):
    """A sentence whose beam search is to be seen."""

    source: Text = Field(min_length=1, description="A sentence.")
    n_beams: int = Field(4, ge=1, le=MAX_BEAMS, description="Hypotheses kept open.")
    prefix: list[Name] = Field([], max_length=MAX_EDITS * 8, description="Target tokens to begin.")
    edits: list[Edit] = Field([], max_length=MAX_EDITS, description="What if?")
    api_key: Key = None


# ------------------------------------------------------------------ what runs say of texts


class ClassifyRequest(StrictRequest):
    """A text, or a pair of texts, that is to get a label."""

    text: Text = Field(min_length=1, description="A text.")
    other: SecondText = None
    api_key: Key = None


class FillRequest(StrictRequest):
    """A text in which words are left out."""

    text: Text = Field(min_length=1, description="A text with <mask> where a word is left out.")
    n: int = Field(5, ge=1, le=MAX_GUESSES, description="Guesses for each mask.")
    api_key: Key = None


class AnswerRequest(StrictRequest):
    """A question, and the text that has its answer in it."""

    question: Text = Field(min_length=1, description="What to ask.")
    text: Text = Field(min_length=1, description="A text that has the answer in it.")
    n: int = Field(1, ge=1, le=MAX_GUESSES, description="Answers, the likeliest first.")
    api_key: Key = None


class EmbedRequest(StrictRequest):
    """Texts whose vectors are wanted."""

    texts: list[Text] = Field(min_length=1, max_length=MAX_LINES, description="Texts.")
    api_key: Key = None


class NearestRequest(StrictRequest):
    """A text, and others that may say the same."""

    text: Text = Field(min_length=1, description="A text.")
    others: list[Text] = Field(
        min_length=1, max_length=MAX_LINES, description="Texts to compare it with."
    )
    api_key: Key = None


class GenerateRequest(StrictRequest):
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
    stop: list[StopWord] = Field(
        [], max_length=MAX_STOPS, description="Words before which it ends."
    )
    seed: int | None = Field(None, ge=0, lt=2**53, description="For the same text again.")
    api_key: Key = None
