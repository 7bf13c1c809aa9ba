"""Attention written plainly needs memory that grows with J², the fused form needs J only.

Scores and weights are J × J. A fused kernel goes through them block by block, in a workspace of
fixed size, and keeps one number a query from which the backward pass finds them again. Counted, not
timed: the bytes of all tensors that operations hand out, and of those kept for the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from statistics import linear_regression
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard.kernels.attention import attention
from regard.kernels.call import reference_only
from regard.lab.result import Result, lines
from regard.visual.tables import Table

MIB = 2**20


def memory(*, fused: bool = True, longest: int = 2048) -> Result:
    """Four lengths up to ``longest``; without ``fused`` the second form is the plain one again."""
    lengths = [longest // 8, longest // 4, longest // 2, longest]
    forms = {"plain": False, "fused": fused}
    measured = {form: [_measure(n, fused=one) for n in lengths] for form, one in forms.items()}
    sizes = {
        f"{form}, {what}": [both[i] for both in measured[form]]
        for form in forms
        for i, what in enumerate(("made", "kept"))
    }
    mib = {name: [size / MIB for size in values] for name, values in sizes.items()}
    power = {name: _power(lengths, values) for name, values in sizes.items()}
    verdict = (
        min(power["plain, made"], power["plain, kept"]) > 1.75
        and max(power["fused, made"], power["fused, kept"]) < 1.25
    )
    why = (
        f"At {longest:,} words that is {mib['plain, made'][-1]:.1f} MiB against "
        f"{mib['fused, made'][-1]:.2f} a head, because the fused kernel never holds the J × J "
        "scores at once."
        if verdict
        else "Both hold the J × J scores where no fused kernel is allowed."
    )

    def picture(what: str, title: str) -> str:
        series = {form: mib[f"{form}, {what}"] for form in forms}
        return lines(series, title, "length J", "MiB a head", xs=lengths)

    rows = zip(map(str, lengths), *([f"{x:.3f}" for x in one] for one in mib.values()), strict=True)
    return Result(
        name="memory",
        verdict=verdict,
        finding=(
            f"What the plain form makes grows as J^{power['plain, made']:.2f}, what it keeps for "
            f"the gradient as J^{power['plain, kept']:.2f}; of the other form, as "
            f"J^{power['fused, made']:.2f} and J^{power['fused, kept']:.2f}. {why}"
        ),
        numbers={
            "lengths": lengths,
            **{f"power of J: {name}": value for name, value in power.items()},
            **{f"bytes: {name}": values for name, values in sizes.items()},
        },
        pictures=(
            picture("made", "Made in the forward pass"),
            picture("kept", "Kept for the backward pass"),
        ),
        tables=(Table("MiB a head, single precision", ["J", *sizes], list(map(list, rows))),),
    )


class _Counting(TorchDispatchMode):
    """Adds up the memory of every tensor that an operation makes; views make none."""

    def __init__(self) -> None:
        super().__init__()
        self.made = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run the operation, then count what it handed out."""
        out = func(*args, **(kwargs or {}))
        given = _storages(args)
        self.made += sum(size for at, size in _storages(out).items() if at not in given)
        return out


def _storages(tree: Any) -> dict[int, int]:
    """Where the tensors in any structure lie -> how many bytes lie there."""
    stored = [leaf.untyped_storage() for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]
    return {one.data_ptr(): one.nbytes() for one in stored}


def _measure(length: int, *, fused: bool) -> tuple[int, int]:
    """Bytes made and kept, beside its inputs, by one head of 32 numbers over ``length`` words."""
    q, k, v = (torch.zeros(1, 1, length, 32, requires_grad=True) for _ in range(3))
    given, kept = _storages((q, k, v)), dict[int, int]()

    def keep(tensor: Tensor) -> Tensor:
        kept.update(_storages(tensor))
        return tensor

    with (
        torch.enable_grad(),
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        nullcontext() if fused else reference_only(),
        _Counting() as counting,
    ):
        attention(q, k, v)
    return counting.made, sum(size for at, size in kept.items() if at not in given)


def _power(lengths: Sequence[int], sizes: Sequence[int]) -> float:
    """The p of bytes ∝ J^p: the slope on logarithmic scales."""
    return linear_regression([math.log(n) for n in lengths], [math.log(n) for n in sizes]).slope
