"""The six steps of attention for one query of one head, in the numbers that the model used.

query · each key · score · scaled score · softmax · value · weighted value · their sum; then what
W_o makes of the sum, which is what the head adds to the residual stream.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import ConfigError
from regard.inspection.records import Array, Record


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Steps:
    """What the token ``row`` asked, what each of ``columns`` answered, and what came of it."""

    name: str
    layer: int
    head: int
    token: int
    """The row, counted from 0."""
    row: str
    columns: tuple[str, ...]
    query: Array
    """(Dq,)"""
    keys: Array
    """(S, Dk)"""
    scores: Array
    """(S,), before scaling."""
    scale: float | None
    """What the scores are multiplied by; None where the score has no scale."""
    scaled: Array
    """(S,)"""
    visible: NDArray[np.bool_]
    """(S,)"""
    prior: Array | None
    """(S,): what multiplies the weights after the softmax; None where nothing does."""
    weights: Array
    """(S,)"""
    values: Array
    """(S, Dv)"""
    weighted: Array
    """(S, Dv)"""
    sum: Array
    """(Dv,)"""
    projected: Array | None
    """(D,): the sum through this head's part of W_o; its bias belongs to no head."""
    residual: Array | None
    """(D,): what the head added to the residual stream; None where there is no such stream."""

    def as_json(self) -> dict[str, Any]:
        """Plain numbers and lists; a score of -inf, which JSON has no word for, is null."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}


def steps_of(
    record: Record,
    *,
    name: str,
    layer: int,
    head: int,
    token: int,
    row: str,
    columns: tuple[str, ...],
) -> Steps:
    """One row of one head of a record, with its words."""
    n_heads = len(record.weights)
    if not 0 <= head < n_heads:
        raise ConfigError(f"{name} has heads 0 to {n_heads - 1}, not {head}")
    at = (head, token)
    weights, values, total = record.weights[at], record.v[head], record.outputs[at]
    projected = None if record.to_out is None else total @ record.to_out[head]
    return Steps(
        name=name,
        layer=layer,
        head=head,
        token=token,
        row=row,
        columns=columns,
        query=record.q[at],
        keys=record.k[head],
        scores=record.scores[at],
        scale=record.scale,
        scaled=record.scaled[at],
        visible=record.visible[at],
        prior=None if record.prior is None else record.prior[at],
        weights=weights,
        values=values,
        weighted=weights[:, None] * values,
        sum=total,
        projected=projected,
        residual=projected,  # the stream is added to as it is: dropout is off when we look
    )


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype != np.bool_ and not np.isfinite(value).all():
        return [_plain(part) if part.ndim else _number(float(part)) for part in value]
    return value.tolist()


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None
