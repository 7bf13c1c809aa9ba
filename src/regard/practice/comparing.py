"""Whether two results are the same, how they differ in a line, and how a value is shown."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor

TOLERANCE = 1e-4
"""Relative or absolute: right solutions in another order of sums differ by some 1e-6."""
_MOST_NUMBERS = 48
"""That are shown of a tensor."""


@singledispatch
def difference(wanted: Any, got: Any) -> str | None:
    """What is wrong with a result, in words, or None where it is right."""
    if type(got) is not type(wanted):
        return f"you return {_kind(got)}, not {_kind(wanted)}"
    return None if got == wanted else f"you return {shown(got)}, not {shown(wanted)}"


@difference.register
def _tensor(wanted: Tensor, got: Any) -> str | None:
    if not isinstance(got, Tensor):
        return f"you return {_kind(got)}, not a tensor"
    if got.shape != wanted.shape:
        return f"your result has the shape {_shape(got)}, not {_shape(wanted)}"
    if wanted.dtype is torch.bool and got.dtype is not torch.bool:
        return f"your result holds {_dtype(got)}: a boolean tensor is asked for"
    if wanted.dtype is torch.int64 and got.dtype is not torch.int64:
        return f"your result holds {_dtype(got)}: ids are whole numbers (torch.int64)"
    if got.is_complex() or got.layout is not torch.strided:
        return f"your result holds {_dtype(got)} numbers in the layout {got.layout}"
    return _numbers(wanted.detach().double(), got.detach().double())


def _numbers(wanted: Tensor, got: Tensor) -> str | None:
    if torch.allclose(got, wanted, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
        return None
    n_nan = int((got.isnan() & ~wanted.isnan()).sum())
    if n_nan:
        return f"{n_nan} of your {got.numel()} numbers are NaN"
    n_wrong = int((~torch.isclose(got, wanted, rtol=TOLERANCE, atol=TOLERANCE)).sum())
    return f"{n_wrong} of your {got.numel()} numbers are not right"


@difference.register
def _number(wanted: float, got: Any) -> str | None:
    if isinstance(got, Tensor) and got.numel() == 1:
        got = got.item()
    if not isinstance(got, int | float):
        return f"you return {_kind(got)}, not a number"
    if math.isclose(got, wanted, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
        return None
    return f"you return {shown(float(got))}, not {shown(wanted)}"


@difference.register(list)
@difference.register(tuple)
def _sequence(wanted: Any, got: Any) -> str | None:
    if not isinstance(got, list | tuple):
        return f"you return {_kind(got)}, not {_kind(wanted)}"
    if len(got) != len(wanted):
        return f"you return {len(got)} things, not {len(wanted)}"
    for number, (one, other) in enumerate(zip(wanted, got, strict=True), start=1):
        if problem := difference(one, other):
            return f"number {number} of what you return: {problem}"
    return None


@difference.register(dict)
def _mapping(wanted: Any, got: Any) -> str | None:
    if not isinstance(got, Mapping):
        return f"you return {_kind(got)}, not a dictionary"
    if missing := [key for key in wanted if key not in got]:
        return f"what you return has no {missing[0]!r}"
    if extra := [key for key in got if key not in wanted]:
        return f"what you return has a {extra[0]!r} that is not asked for"
    for key, one in wanted.items():
        if problem := difference(one, got[key]):
            return f"{key!r}: {problem}"
    return None


def _kind(value: Any) -> str:
    if value is None or value is ...:
        return "nothing"
    spoken = {"dict": "dictionary", "str": "text", "Tensor": "tensor"}
    return f"a {spoken.get(type(value).__name__, type(value).__name__)}"


def _shape(value: Tensor) -> str:
    return str(tuple(value.shape))


def _dtype(value: Tensor) -> str:
    return str(value.dtype).removeprefix("torch.")


def shown(value: Any) -> str:
    """A value in a line: numbers with up to four digits; of large tensors the shape.

    >>> shown(torch.tensor([[1.0, 0.5]]))
    '[[1, 0.5]]'
    """
    if isinstance(value, Tensor):
        if value.numel() > _MOST_NUMBERS:
            return f"a tensor {_shape(value)}"
        return shown(value.tolist()) if value.numel() else f"an empty tensor {_shape(value)}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        inside = ", ".join(map(shown, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {shown(one)}" for key, one in value.items()) + "}"
    return repr(value)


def copied(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a call's own, which it may change."""
    return copy.deepcopy(dict(arguments))
