"""What may be asked about the inside of a model: the bodies of requests, checked."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from regard.server.fields import Numbered, no_flag
from regard.server.limits import MAX_BEAMS, MAX_CHARACTERS, MAX_EDITS, MAX_NAME

Text = Annotated[str, Field(max_length=MAX_CHARACTERS)]
Name = Annotated[str, Field(max_length=MAX_NAME)]
Count = Annotated[int, Field(ge=0, le=100_000), BeforeValidator(no_flag)]
"""A layer, a head or a position, from 0."""
Key = Annotated[str | None, Field(max_length=MAX_NAME, description="If the server has one.")]
"""The server's own; who checks it has read it before."""


def _row(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("must be a token or the number of its row")
    return value


class Asked(Numbered):
    """What is not known here is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Change(BaseModel):
    """A what-if; its kind says which."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Ablate(Change):
    """A head brings nothing home."""

    kind: Literal["ablate"]
    name: Name
    layer: Count
    head: Count


class Force(Change):
    """A head looks at one key and nowhere else."""

    kind: Literal["force"]
    name: Name
    layer: Count
    head: Count
    key: Count


class Temperature(Change):
    """Scores are divided by a value, in one kind of attention or all."""

    kind: Literal["temperature"]
    value: Annotated[float, Field(ge=0.01, le=100, allow_inf_nan=False), BeforeValidator(no_flag)]
    name: Name | None = None


class NoPositions(Change):
    """The model is not told where words stand."""

    kind: Literal["no_positions"]


class Swap(Change):
    """Two words of the source change places."""

    kind: Literal["swap"]
    first: Count
    second: Count


class ForceToken(Change):
    """The target has this token at a position, and is written on from there."""

    kind: Literal["force_token"]
    position: Count
    token: Name


Edit = Annotated[
    Ablate | Force | Temperature | NoPositions | Swap | ForceToken, Field(discriminator="kind")
]


class StepsRequest(Asked):
    """One row of one head, step by step."""

    name: Name
    layer: Count
    head: Count
    token: Annotated[Name | Count, BeforeValidator(_row)] = Field(
        description="The row: a token, its first occurrence, or a number."
    )


class LookRequest(Asked):
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


class BeamRequest(Asked):
    """A sentence whose beam search is to be seen."""

    source: Text = Field(min_length=1, description="A sentence.")
    n_beams: int = Field(4, ge=1, le=MAX_BEAMS, description="Hypotheses kept open.")
    prefix: list[Name] = Field([], max_length=MAX_EDITS * 8, description="Target tokens to begin.")
    edits: list[Edit] = Field([], max_length=MAX_EDITS, description="What if?")
    api_key: Key = None
