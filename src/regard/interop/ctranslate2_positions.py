"""What CTranslate2 adds to its embeddings, in our terms.

Where a file holds no table of positions, CTranslate2 computes sinusoids of its own: all sines, then
all cosines, wavelengths spread over one step less than ours, places counted from 1. They become
learned positions here, with these numbers; so does a table that is not ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.functional.positions import sinusoid
from regard.models.transformer import TransformerConfig

SIDES = ("encoder", "decoder")
N_PLACES = 512
"""Rows of a table of positions that the file itself has not."""

_TABLE = "position_encodings/encodings"


def positions_of(tensors: Mapping[str, Tensor], d_model: int) -> dict[str, Any]:
    """Ours, where the table says so; else a table."""
    table = tensors.get(f"decoder/{_TABLE}")
    if table is None:
        return {"positions": "learned", "max_len": N_PLACES}
    n = len(table)
    same = torch.equal(table, tensors.get(f"encoder/{_TABLE}", table))
    if same and not table.any():
        return {"positions": "none", "max_len": n}
    ours = sinusoid(torch.arange(n), d_model)
    if (
        same
        and table.shape == ours.shape
        and torch.allclose(table.float(), ours, atol=1e-6, rtol=0)
    ):
        return {"positions": "sinusoidal", "max_len": n}
    return {"positions": "learned", "max_len": n}


def told_positions(tensors: Mapping[str, Tensor], config: TransformerConfig) -> tuple[str, ...]:
    """What a user should know of them."""
    if config.positions != "learned" or f"decoder/{_TABLE}" in tensors:
        return ()
    return (
        f"the sinusoids of CTranslate2 became learned positions: texts of up to {config.max_len} "
        "tokens can be read and written",
    )


def with_tables(tensors: Mapping[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """With exactly the tensors that the table of names wants, if nothing is strange."""
    found = dict(tensors)
    for side in SIDES:
        name = f"{side}/{_TABLE}"
        if config.positions != "learned":
            found.pop(name, None)
        elif name not in found:
            found[name] = _their_sinusoid(config.max_len, config.d_model)
    found.setdefault("decoder/projection/weight", found["decoder/embeddings/weight"])
    return found


def _their_sinusoid(n: int, d: int) -> Tensor:
    """(n, d): all sines, then all cosines, from place 1 on."""
    step = math.log(10_000.0) / (d // 2 - 1)
    rates = torch.exp(torch.arange(d // 2, dtype=torch.float32) * -step)
    angles = torch.arange(1, n + 1, dtype=torch.float32).unsqueeze(1) * rates
    return torch.cat((angles.sin(), angles.cos()), dim=1)
