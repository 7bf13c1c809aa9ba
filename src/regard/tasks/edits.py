"""What-ifs of a look: those of the model, of the texts and of pictures; as objects and as JSON.

{"kind": "force_token", "position": 1, "token": "aime"} is ``ForceToken(1, "aime")``.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model

from regard.core.errors import ConfigError
from regard.core.registry import Registry
from regard.core.settings import parse
from regard.data.pictures import GREY, Pixels
from regard.inspection.edits import Ablate, Force, NoPositions, Temperature
from regard.inspection.records import Record
from regard.text import words


@dataclass(frozen=True, slots=True)
class Swap:
    """Two words of the source change places; they are counted from 0."""

    first: int
    second: int

    def __call__(self, source: str) -> str:
        """The source with its two words swapped; all between them stays."""
        spans = words.spans(source)
        for field, at in (("first", self.first), ("second", self.second)):
            if not 0 <= at < len(spans):
                raise ConfigError(
                    f"swap.{field}: the source has words 0 to {len(spans) - 1}, not {at}"
                )
        if self.first == self.second:
            raise ConfigError(f"swap: first and second are both {self.first}; name two words")
        (a, b), (c, d) = sorted((spans[self.first], spans[self.second]))
        return source[:a] + source[c:d] + source[b:c] + source[a:b] + source[d:]


@dataclass(frozen=True, slots=True)
class ForceToken:
    """The target's token at ``position`` is this one; the rest is decoded on."""

    position: int
    token: str


@dataclass(frozen=True, slots=True)
class Occlude:
    """A patch of the picture is painted grey before the model reads it; both count from 0."""

    row: int
    column: int

    def __call__(self, pixels: Pixels, grid: tuple[int, int]) -> Pixels:
        """The picture (H, W, 3) of so many rows and columns of patches with one of them grey."""
        for field, at, n in zip(("row", "column"), (self.row, self.column), grid, strict=True):
            if not 0 <= at < n:
                raise ConfigError(
                    f"occlude.{field}: the picture has {field}s 0 to {n - 1}, not {at}"
                )
        (top, bottom), (left, right) = (
            (at * size // n, (at + 1) * size // n)
            for at, n, size in zip((self.row, self.column), grid, pixels.shape, strict=False)
        )
        painted = pixels.copy()
        painted[top:bottom, left:right] = GREY
        return painted


ModelEdit = Ablate | Force | Temperature | NoPositions

AnyEdit = ModelEdit | Swap | ForceToken | Occlude

KINDS: Registry[type[AnyEdit]] = Registry("edit")
KINDS.add("ablate")(Ablate)
KINDS.add("force")(Force)
KINDS.add("temperature")(Temperature)
KINDS.add("no_positions")(NoPositions)
KINDS.add("swap")(Swap)
KINDS.add("force_token")(ForceToken)
KINDS.add("occlude")(Occlude)


def edit_from(raw: Mapping[str, Any]) -> AnyEdit:
    """An edit from its JSON; one ConfigError names every field that is wrong."""
    if not isinstance(raw, Mapping) or not isinstance(raw.get("kind"), str):
        raise ConfigError(
            f'an edit is an object with a "kind", one of {", ".join(KINDS)}; got {raw!r}'
        )
    kind = raw["kind"]
    made = KINDS[kind]
    given = {key: value for key, value in raw.items() if key != "kind"}
    return made(**parse(_fields(made), given, kind).model_dump())


def edits_from(edit: Any) -> tuple[AnyEdit, ...]:
    """One edit or several, as objects or JSON, as objects."""
    several = isinstance(edit, Iterable) and not isinstance(edit, Mapping | str)
    found = edit if several else [edit]
    return tuple(one if isinstance(one, AnyEdit) else edit_from(one) for one in found)


def as_json(edit: AnyEdit) -> dict[str, Any]:
    """What ``edit_from`` reads back."""
    kind = next(kind for kind, made in KINDS.items() if made is type(edit))
    return {"kind": kind, **dataclasses.asdict(edit)}


def of_model(edits: Sequence[AnyEdit]) -> list[ModelEdit]:
    """Those that change the model, in their order."""
    return [edit for edit in edits if not isinstance(edit, Swap | ForceToken | Occlude)]


def swapped(source: str, edits: Sequence[AnyEdit]) -> str:
    """The source after all swaps."""
    for edit in edits:
        if isinstance(edit, Swap):
            source = edit(source)
    return source


def occluded(pixels: Pixels, grid: tuple[int, int], edits: Sequence[AnyEdit]) -> Pixels:
    """The picture after all patches are painted over that are to be."""
    for edit in edits:
        if isinstance(edit, Occlude):
            pixels = edit(pixels, grid)
    return pixels


def refuse_patches(edits: Sequence[AnyEdit]) -> None:
    """Refuse what changes a picture, where texts go in."""
    if any(isinstance(edit, Occlude) for edit in edits):
        raise ConfigError("occlude: this run reads texts, which have no patches")


def refuse_words(edits: Sequence[AnyEdit]) -> None:
    """Refuse what changes words, where a picture goes in and no text comes out."""
    if any(isinstance(edit, Swap | ForceToken) for edit in edits):
        raise ConfigError(
            "swap and force_token change words, and this run neither reads nor writes"
        )


def forced_tokens(edits: Sequence[AnyEdit]) -> list[ForceToken]:
    """Those that force a token, the first position first."""
    tokens = [edit for edit in edits if isinstance(edit, ForceToken)]
    return sorted(tokens, key=lambda one: one.position)


def force_keys(edits: Sequence[AnyEdit]) -> bool:
    """Whether one of them forces a head to a key, which only a whole target can prove to exist."""
    return any(isinstance(edit, Force) for edit in edits)


def check_keys(edits: Sequence[AnyEdit], found: Mapping[str, tuple[Record, ...]]) -> None:
    """Refuse a forced key that never came; while a decoder writes, nobody can know."""
    for edit in edits:
        if isinstance(edit, Force):
            n_keys = found[edit.name][edit.layer].k.shape[1]
            if edit.key >= n_keys:
                raise ConfigError(f"{edit.name} has keys 0 to {n_keys - 1}, not {edit.key}")


def _fields(made: type[AnyEdit]) -> type[BaseModel]:
    """The fields of an edit as settings, so that mistakes are told as those of a recipe are."""
    types = typing.get_type_hints(made)
    wanted: dict[str, Any] = {}
    for field in dataclasses.fields(made):
        default = ... if field.default is dataclasses.MISSING else field.default
        wanted[field.name] = types[field.name], default
    strict = ConfigDict(extra="forbid", strict=True)
    return create_model(made.__name__, __config__=strict, **wanted)
