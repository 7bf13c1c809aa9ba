"""Deeper is better and wider is better: at equal steps, each lowers the loss of a Transformer.

A small grid of depths and widths learns to reverse sequences, with the same learning rate and
LayerNorm before each sub-layer (after it, where the paper put it, four layers would need a longer
warm-up). Equal steps are not equal cost: a step of the largest is much the dearest. With
``equal_cost`` the same total is shared out evenly: the small ones take more steps, and win. A sweep
of widths over Multi30k, for a GPU, is in docs/how-to/lab.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from regard.lab.result import Result, lines, percent
from regard.lab.translators import toy_translator
from regard.models.presets import n_parameters
from regard.tasks.translation_scores import evaluate_pairs
from regard.training.flops import BACKWARD, count_forward
from regard.visual.tables import Table


class Size(NamedTuple):
    """Layers of encoder and of decoder, and the width of the residual stream."""

    n_layers: int
    d_model: int

    def __str__(self) -> str:
        return f"{self.n_layers} × {self.d_model}"

    @property
    def cost(self) -> int:
        """What a step costs, but for a factor: matrix products, which grow as layers · width²."""
        return self.n_layers * self.d_model**2


class _LearnedSize(NamedTuple):
    steps: int
    loss: float
    """Mean of -log p of a token of held-out targets, the ones before being given."""
    exact: float
    n_parameters: int
    flops: float
    """Of all steps, were each on 20 sources of ten symbols."""


def size(
    *,
    equal_cost: bool = False,
    depths: Sequence[int] = (1, 2, 4),
    widths: Sequence[int] = (32, 64),
    steps: int = 200,
    seed: int = 1,
) -> Result:
    """Loss of every size; depths and widths rise, and the first of each is set against the last."""
    sizes = [Size(n_layers, d_model) for n_layers in depths for d_model in widths]
    shares = _shared_out(sizes, steps) if equal_cost else dict.fromkeys(sizes, steps)
    grid = {size: _learned(size, shares[size], seed) for size in sizes}
    by_depth = {f"width {w}": [grid[Size(n, w)].loss for n in depths] for w in widths}
    by_width = {f"depth {n}": [grid[Size(n, w)].loss for w in widths] for n in depths}
    saved = {
        **{f"by depth at {width}": losses[0] - losses[-1] for width, losses in by_depth.items()},
        **{f"by width at {depth}": losses[0] - losses[-1] for depth, losses in by_width.items()},
    }
    small, large = grid[sizes[0]], grid[sizes[-1]]
    n_worse = sum(gain <= 0 for gain in saved.values())
    if n_worse:
        why = " For the same cost it takes fewer steps." if equal_cost else ""
        seen = f"In {n_worse} of {len(saved)} comparisons the larger is not better.{why}"
    else:
        price = "" if equal_cost else f", at {large.flops / small.flops:.0f} times the cost"
        seen = f"Depth helps at every width, and width at every depth{price}."
    return Result(
        name="size",
        verdict=not n_worse,
        finding=(
            f"The loss of the smallest (layers × width: {sizes[0]}) is {small.loss:.2f}, that of "
            f"the largest ({sizes[-1]}) {large.loss:.2f}; {100 * small.exact:.0f} and "
            f"{percent(large.exact)} of the held-out sequences come out right. {seen}"
        ),
        numbers={
            **{f"loss: {size}": one.loss for size, one in grid.items()},
            **{f"exact match: {size}": one.exact for size, one in grid.items()},
            **{f"loss saved {how}": gain for how, gain in saved.items()},
        },
        pictures=(
            lines(by_depth, "Loss by depth", "depth", "loss per token", xs=depths),
            lines(by_width, "Loss by width", "width", "loss per token", xs=widths),
            _by_cost(grid, widths),
        ),
        tables=(_table(grid),),
    )


def _shared_out(sizes: Sequence[Size], steps: int) -> dict[Size, int]:
    """Steps that cost all sizes the same, and all together as much as ``steps`` of each."""
    mean = steps * sum(size.cost for size in sizes) / len(sizes)
    return {size: max(1, round(mean / size.cost)) for size in sizes}


def _learned(size: Size, steps: int, seed: int) -> _LearnedSize:
    shape = (f"n_layers={size.n_layers}", f"d_model={size.d_model}", f"d_ff={2 * size.d_model}")
    how = ("norm_first=true", "lr=4e-3")
    run, data = toy_translator("reverse", *shape, *how, steps=steps, seed=seed)
    scores = evaluate_pairs(run, data.splits["test"][:200], split="test").scores
    return _LearnedSize(
        steps=steps,
        loss=math.log(scores["perplexity"]),
        exact=scores["exact_match"],
        n_parameters=n_parameters(run.model),
        flops=steps * 20 * BACKWARD * count_forward(run.model, 11, 11),
    )


def _by_cost(grid: Mapping[Size, _LearnedSize], widths: Sequence[int]) -> str:
    """A line for each width, on which depth grows."""
    points = {
        f"width {w}": {one.flops / 1e9: one.loss for size, one in grid.items() if size.d_model == w}
        for w in widths
    }
    return lines(points, "Loss by cost", "GFLOP of the training", "loss per token")


def _table(grid: Mapping[Size, _LearnedSize]) -> Table:
    header = ["Layers × width", "Steps", "Loss", "Exact match", "Parameters", "GFLOP in all"]
    rows = []
    for size, one in grid.items():
        shares = (f"{one.loss:.2f}", f"{100 * one.exact:.1f} %")
        cost = (f"{one.n_parameters:,}", f"{one.flops / 1e9:,.1f}")
        rows.append((str(size), f"{one.steps:,}", *shares, *cost))
    return Table("Learning to reverse", header, rows)
