"""Renaming tensors by a table, so that none is lost and none is made up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.errors import CheckpointError


@dataclass(frozen=True, slots=True)
class Row:
    """One tensor of a foreign format, and which of ours lie in it, one below the other."""

    theirs: str
    ours: tuple[str, ...]


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
