"""Tensors under the names of a format and under ours, so that none is lost and none is made up.

A format is a table of ``Renaming``: one tensor of theirs, and which of ours lie in it. What shapes
ours must have is told by the model, built without numbers so that any size is cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from pydantic import BaseModel
from torch import Tensor, nn

from regard.core.errors import CheckpointError, ConfigError
from regard.interop.folders import CONFIG
from regard.models.presets import build
from regard.models.settings import ModelConfig

Shape = tuple[int, ...]
Names = tuple[str, ...]
"""A name of theirs, then those of ours that lie in it, one below the other."""

WEIGHT = {"weight": "weight"}
WEIGHT_AND_BIAS = {"weight": "weight", "bias": "bias"}
"""The tensors of a layer where theirs are called as ours."""

OURS: Mapping[str, Collection[object]] = {
    "score": ("scaled_dot",),
    "window": ("global",),
    "normaliser": ("softmax",),
    "join": (None, "add"),
    "d_positions": (None,),
    "memory": ("last",),
    "cross_after": ("attention",),
}
"""Settings that formats of others do not have, with what is computed there."""


@dataclass(frozen=True, slots=True)
class Renaming:
    """One tensor of a foreign format, and which of ours lie in it, one below the other."""

    theirs: str
    ours: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Imported:
    """A model of others, in our terms."""

    config: ModelConfig
    weights: dict[str, Tensor]
    """Float32, under the names of our model's parameters, each of them."""
    notes: tuple[str, ...] = ()
    """What a user should know about the way, a sentence each."""


def parts(
    table: Iterable[Names],
    kinds: Mapping[str, str],
    theirs: str = "",
    ours: str = "",
    *,
    between: str = ".",
) -> Iterator[Renaming]:
    """Rows for the tensors of each layer of a table.

    ``kinds`` are their names for a layer's tensors and ours; ``theirs`` and ``ours`` stand before
    the names, ``between`` before the kind of theirs.
    """
    for name, *others in table:
        for their_kind, our_kind in kinds.items():
            found = tuple(f"{ours}{one}.{our_kind}" for one in others)
            yield Renaming(f"{theirs}{name}{between}{their_kind}", found)


def table_rows(table: Iterable[Names]) -> Iterator[Renaming]:
    """Rows for tensors that stand alone, under their full names."""
    yield from (Renaming(theirs, tuple(ours)) for theirs, *ours in table)


def check_exportable(why_not: str | None) -> None:
    """Refuse a model that a format has no counterpart of."""
    if why_not:
        raise ConfigError(f"this model cannot be exported: {why_not}")


def no_counterpart(
    config: BaseModel, known: Mapping[str, Collection[object]], of: str
) -> str | None:
    """Which settings of ours have values that a format does not know, or None."""
    ours = {name: values for name, values in OURS.items() if hasattr(config, name)}
    wrong = [
        f"{name}={value!r}"
        for name, values in {**ours, **known}.items()
        if (value := getattr(config, name)) not in values
    ]
    return f"{of} has no counterpart of {', '.join(wrong)}" if wrong else None


def renamed(rows: Iterable[Renaming], weights: Mapping[str, Tensor], to: str) -> dict[str, Tensor]:
    """Our weights under the names of a format, float32 on the CPU.

    A tensor that the table wants and the model lacks is an error, and so is one of the model that
    the table does not want: all of them are named.
    """
    table = list(rows)
    wanted = dict.fromkeys(name for row in table for name in row.ours)
    problems = [f"missing {name}" for name in wanted if name not in weights]
    problems += [f"unused {name}" for name in weights if name not in wanted]
    if problems:
        raise CheckpointError(f"this model has no counterpart in {to}: {'; '.join(problems)}")
    return {row.theirs: _stacked([weights[name] for name in row.ours]) for row in table}


def _stacked(parts: list[Tensor]) -> Tensor:
    plain = [part.detach().float().cpu() for part in parts]
    return torch.cat(plain) if len(plain) > 1 else plain[0].contiguous()


def taken(
    rows: Iterable[Renaming],
    tensors: Mapping[str, Tensor],
    shapes: Mapping[str, Shape],
    of: str,
    *,
    passed_over: Collection[str] = (),
    deciding: Callable[[Sequence[str]], list[str]] = lambda names: [],
) -> dict[str, Tensor]:
    """The inverse of ``renamed``: their tensors under our names, float32.

    ``shapes`` are those of our model's tensors. What the table wants and ``of`` lacks, what it has
    beyond the table and ``passed_over`` (names, or beginnings of names that end with a dot), and
    what has another shape than the model asks for, with the settings ``deciding`` it, and what
    holds no numbers to compute with: all are named in one error.
    """
    table = list(rows)
    wanted = {row.theirs for row in table}
    problems = [f"missing {row.theirs}" for row in table if row.theirs not in tensors]
    problems += [
        f"unused {name}"
        for name in tensors
        if name not in wanted and not _passed_over(name, passed_over)
    ]
    there = [row for row in table if row.theirs in tensors]
    problems += [
        f"{row.theirs} is {tuple(tensors[row.theirs].shape)}, but its configuration asks for "
        f"{_whole(row, shapes)} ({', '.join(row.ours)}{_by(deciding(row.ours))})"
        for row in there
        if tuple(tensors[row.theirs].shape) != _whole(row, shapes)
    ]
    problems += _no_numbers({row.theirs: tensors[row.theirs] for row in there})
    if problems:
        raise CheckpointError(f"{of} does not fit its own description: {'; '.join(problems)}")
    found: dict[str, Tensor] = {}
    for row in table:
        theirs = tensors[row.theirs].float()
        if len(row.ours) == 1:
            found[row.ours[0]] = theirs
        else:
            parts = theirs.split([shapes[name][0] for name in row.ours])
            found |= dict(zip(row.ours, parts, strict=True))
    return found


def _whole(row: Renaming, shapes: Mapping[str, Shape]) -> Shape:
    """The shape of ours, one below the other."""
    first = shapes[row.ours[0]]
    if len(row.ours) == 1:
        return first
    return (sum(shapes[name][0] for name in row.ours), *first[1:])


def _by(settings: list[str]) -> str:
    return f", by {', '.join(settings)}" if settings else ""


def _no_numbers(tensors: Mapping[str, Tensor]) -> list[str]:
    """What cannot be a weight: whole numbers, for one, need a scale that nobody told us."""
    wrong: dict[str, list[str]] = {}
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            kind = str(tensor.dtype).removeprefix("torch.")
            wrong.setdefault(f"kept as {kind} (supported: floating point)", []).append(name)
        elif not tensor.isfinite().all():
            wrong.setdefault("with numbers that are not finite", []).append(name)
    return [f"{why}: {', '.join(names)}" for why, names in wrong.items()]


def _passed_over(name: str, others: Collection[str]) -> bool:
    return any(
        name == other or (other.endswith(".") and name.startswith(other)) for other in others
    )


def skeleton(config: ModelConfig) -> nn.Module:
    """The model with shapes and no numbers."""
    try:
        with torch.device("meta"):
            return build(config)
    except (RuntimeError, TypeError, OverflowError) as error:  # more than torch can count
        told = ", ".join(f"{name}={value}" for name, value in _sizes(config).items())
        reason = str(error).partition("\n")[0]
        raise CheckpointError(f"no model can have the sizes {told} ({reason})") from None


def shapes(config: ModelConfig, *, tied: bool = False) -> dict[str, Shape]:
    """What each parameter is called, and its shape; those that are ``tied`` under each name."""
    every = skeleton(config).named_parameters(remove_duplicate=not tied)
    return {name: tuple(one.shape) for name, one in every}


def fitted(
    config: ModelConfig,
    rows: Iterable[Renaming],
    tensors: Mapping[str, Tensor],
    of: str,
    *,
    passed_over: Collection[str] = (),
) -> dict[str, Tensor]:
    """Their tensors as the weights of our model, float32; tied ones may stand under each name."""
    check_layers(config, tensors, of)
    wanted = shapes(config, tied=True)
    return taken(
        rows, tensors, wanted, of, passed_over=passed_over, deciding=Deciding(config).settings
    )


def check_layers(config: ModelConfig, tensors: Collection[str], of: str) -> None:
    """A description may ask for any number of layers: one that cannot be there is not built."""
    n_layers = _sizes(config).get("n_layers", 0)
    if n_layers > len(tensors):
        raise CheckpointError(
            f"{of} does not fit its own description: it says {n_layers} layers, and holds "
            f"{len(tensors)} tensors"
        )


class Deciding:
    """Which settings decide the shape of a parameter: those with which it changes."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config

    @cached_property
    def _changed(self) -> dict[str, set[str]]:
        """For each size, written as ``d_model=512``, whose shapes change where it is doubled."""
        mine, found = shapes(self.config, tied=True), {}
        for name, value in _sizes(self.config).items():
            try:
                others = shapes(self.config.model_copy(update={name: 2 * value}), tied=True)
            except Exception:  # a size that cannot change alone decides nothing alone
                continue
            found[f"{name}={value}"] = {one for one in mine if mine[one] != others.get(one)}
        return found

    def settings(self, names: Iterable[str]) -> list[str]:
        """The settings that decide the shapes of these parameters, with their values."""
        wanted = set(names)
        return [setting for setting, changed in self._changed.items() if wanted & changed]


def _sizes(config: ModelConfig) -> dict[str, int]:
    settings = config.model_dump()
    return {name: value for name, value in settings.items() if type(value) is int and value > 0}


def imported(
    config: ModelConfig,
    rows: Iterable[Renaming],
    tensors: Mapping[str, Tensor],
    of: str,
    *,
    passed_over: Collection[str] = (),
    notes: Iterable[str | None] = (),
) -> Imported:
    """Their tensors as the weights of our model; the message names ``of`` where they do not fit."""
    weights = fitted(config, rows, tensors, of, passed_over=passed_over)
    return Imported(config, weights, tuple(note for note in notes if note))


def padding(pad: int | None, end: object, n_vocab: int) -> tuple[int, str | None]:
    """The id to pad with, and what to say where the model has none of its own.

    Nothing sees padding at the end of a text, so any token will do that is no target.
    """
    known = range(n_vocab)
    if pad is not None and pad in known:
        return pad, None
    stand_in = end[0] if isinstance(end, list) and end else end
    found = stand_in if isinstance(stand_in, int) and stand_in in known else 0
    return found, f"it has no token for padding; token {found} stands in"


def untied_rest(
    tensors: Mapping[str, Tensor], tied: bool, tokens: str, output: str, buffers: tuple[str, ...]
) -> set[str]:
    """Names that may be passed over: buffers by their endings, and a tied output's second copy.

    An output matrix that is said to be the embedding may be there twice, not differ from it.
    """
    found = {name for name in tensors if name.endswith(buffers)}
    if not tied:
        return found
    if {tokens, output} <= tensors.keys() and not torch.equal(tensors[tokens], tensors[output]):
        raise CheckpointError(
            f"tie_word_embeddings is true, but {output} is not {tokens}; set it to false in "
            f"{CONFIG} to take both"
        )
    return found | {output}
