"""Renaming tensors by a table, so that none is lost and none is made up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from pydantic import BaseModel
from torch import Tensor

from regard.core.errors import CheckpointError

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One tensor of a foreign format, and which of ours lie in it, one below the other."""

    theirs: str
    ours: tuple[str, ...]


def no_counterpart(
    config: BaseModel, known: Mapping[str, Collection[object]], of: str
) -> str | None:
    """Which settings of ours have values that a format does not know, or None."""
    wrong = [
        f"{name}={value!r}"
        for name, values in known.items()
        if (value := getattr(config, name)) not in values
    ]
    return f"{of} has no counterpart of {', '.join(wrong)}" if wrong else None


def renamed(rows: Iterable[Row], weights: Mapping[str, Tensor], to: str) -> dict[str, Tensor]:
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
    rows: Iterable[Row],
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


def _whole(row: Row, shapes: Mapping[str, Shape]) -> Shape:
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
