"""The bodies of requests about the inside of a model, checked field by field.

Those of verbs come from the tasks (``regard.tasks.requests``). Fields whose mistakes pydantic would
tell in words about its types have checks of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING
from dataclasses import fields as dataclass_fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from regard.server.limits import MAX_BEAMS, MAX_EDITS, MAX_TEXTS
from regard.tasks.edits import KINDS
from regard.tasks.requests import (
    MAX_CHARACTERS,
    MAX_NEW,
    Image,
    Name,
    Numbered,
    Other,
    Request,
    Text,
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


def listed(value: str | list[str] | None) -> list[str]:
    """None, one or many texts as a list."""
    return [value] if isinstance(value, str) else list(value or ())


def _not_a_flag(value: Any) -> Any:
    """A check for a number: pydantic takes true for 1."""
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


def _row(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("must be a token or the number of its row")
    return value


# A layer, a head or a position, from 0.
Index = Annotated[int, Field(ge=0, le=100_000), BeforeValidator(_not_a_flag)]

# ------------------------------------------------------------------ what-ifs

_TEMPERATURE = Field(ge=0.01, le=100, allow_inf_nan=False)
_BOUNDED: dict[Any, Any] = {
    int: Index,
    str: Name,
    str | None: Name | None,
    float: Annotated[float, _TEMPERATURE, BeforeValidator(_not_a_flag)],
}
"""What a field of an edit may hold when it comes over the net."""


def _edit_schema(kind: str, edit: type[Any]) -> type[BaseModel]:
    """An edit of ``regard.tasks.edits`` as a body, told apart by its kind."""
    types = get_type_hints(edit)
    fields: dict[str, Any] = {"kind": (Literal[kind], ...)}
    for field in dataclass_fields(edit):
        default = ... if field.default is MISSING else field.default
        fields[field.name] = (_BOUNDED[types[field.name]], default)
    config = ConfigDict(extra="forbid", frozen=True)
    return create_model(edit.__name__, __config__=config, __doc__=edit.__doc__, **fields)


if TYPE_CHECKING:
    Edit = BaseModel
else:
    Edit = Annotated[
        Union[tuple(_edit_schema(*one) for one in KINDS.items())],  # noqa: UP007
        Field(discriminator="kind"),
    ]

# ------------------------------------------------------------------ looking inside


class LayerChoice(Numbered):
    """One layer of one attention."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name
    layer: Index


class StepsChoice(LayerChoice):
    """One row of one head, step by step."""

    head: Index
    token: Annotated[Name | Index, BeforeValidator(_row)] = Field(
        description="The row: a token, its first occurrence, or a number."
    )


class ExplainRequest(Request):
    """A source to look at while a model reads it, and perhaps writes."""

    source: Text = Field(description="A sentence, a text or a prompt.")
    other: Other = None
    target: Text | None = Field(
        None, description="What a model that writes is to write; else it writes by itself."
    )
    max_tokens: int | None = Field(
        None, ge=1, le=MAX_NEW, description="Number of tokens a language model writes at most."
    )
    edits: list[Edit] = Field([], max_length=MAX_EDITS, description="What if?")
    steps: StepsChoice | None = Field(None, description="Show the six steps of this row, too.")
    rollout: Name | None = Field(
        None, description="Show where this self-attention leads through all its layers, too."
    )
    packed: LayerChoice | None = Field(
        None, description="Send weights packed, as in saved files; those of this layer are exact."
    )


class NonemptyExplainRequest(ExplainRequest):
    """The same of a task that makes nothing of an empty source."""

    source: Text = Field(min_length=1, description="A sentence or a text.")


class PictureExplainRequest(ExplainRequest):
    """The same of a task that reads pictures."""

    source: Image


class ReadRequest(Request):
    """A text as it is being typed."""

    text: Text = Field(description="A sentence, a text or a prompt.")


class ImportanceRequest(ExplainRequest):
    """A source to look at, and one token of its answer."""

    step: Index = Field(description="Which written token, counted from 0; a label is number 0.")


class NonemptyImportanceRequest(ImportanceRequest, NonemptyExplainRequest):
    """The same of a task that makes nothing of an empty source."""


class PictureImportanceRequest(ImportanceRequest, PictureExplainRequest):
    """The same of a task that reads pictures."""


class BeamRequest(Request):
    """A sentence whose beam search is to be seen."""

    source: Text = Field(min_length=1, description="A sentence.")
    n_beams: int = Field(4, ge=1, le=MAX_BEAMS, description="Hypotheses kept open.")
    prefix: list[Name] = Field([], max_length=MAX_EDITS * 8, description="Target tokens to begin.")
    edits: list[Edit] = Field([], max_length=MAX_EDITS, description="What if?")


class PictureBeamRequest(BeamRequest):
    """A picture whose caption is searched for."""

    source: Image
