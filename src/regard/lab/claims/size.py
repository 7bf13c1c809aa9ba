"""Deeper is better and wider is better: at equal steps, each lowers the loss of a Transformer.

A small grid of depths and widths learns to reverse sequences, with the same learning rate and
LayerNorm before each sub-layer (after it, where the paper put it, four layers would need a longer
warm-up). Each size is trained from several seeds, and the larger must be better in a bootstrap over
trainings and held-out sequences. Equal steps are not equal cost: a step of the largest is much the
dearest. With ``equal_cost`` the same total is shared out evenly: the small ones take more steps,
and win. A sweep of widths over Multi30k, for a GPU, is in docs/how-to/lab.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.lab.differences import difference, of_trainings
from regard.lab.result import Result, lines, percent
from regard.lab.translators import sentence_losses, toy_translator
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
    losses: NDArray[np.float64]
    """Of each training and held-out target (R, N): the mean of -log p of its tokens."""
    exact: float
    """Share of the targets that come out right, over all trainings."""
    n_parameters: int
    flops: float
    """Of all steps, were each on 20 sources of ten symbols."""

    @property
    def loss(self) -> float:
        """The mean over trainings and targets."""
        return float(self.losses.mean())


def size(
    *,
    equal_cost: bool = False,
    depths: Sequence[int] = (1, 2, 4),
    widths: Sequence[int] = (32, 64),
    steps: int = 120,
    seeds: Sequence[int] = (1, 2, 3),
) -> Result:
    """Loss of every size; depths and widths rise, and the first of each is set against the last."""
    sizes = [Size(n_layers, d_model) for n_layers in depths for d_model in widths]
    shares = _shared_out(sizes, steps) if equal_cost else dict.fromkeys(sizes, steps)
    grid = {size: _learned(size, shares[size], seeds) for size in sizes}
    by_depth = {f"width {w}": [grid[Size(n, w)].loss for n in depths] for w in widths}
    by_width = {f"depth {n}": [grid[Size(n, w)].loss for w in widths] for n in depths}
    first, last = sizes[0], sizes[-1]
    ends = {
        **{
            f"by depth at width {w}": (Size(first.n_layers, w), Size(last.n_layers, w))
            for w in widths
        },
        **{
            f"by width at depth {n}": (Size(n, first.d_model), Size(n, last.d_model))
            for n in depths
        },
    }
    saved = {how: difference(grid[a].losses - grid[b].losses) for how, (a, b) in ends.items()}
    small, large = grid[first], grid[last]
    n_worse = sum(not gain.positive for gain in saved.values())
    if n_worse:
        why = " For the same cost it takes fewer steps." if equal_cost else ""
        seen = f"In {n_worse} of {len(saved)} comparisons the larger is not surely better.{why}"
    else:
        price = "" if equal_cost else f", at {large.flops / small.flops:.0f} times the cost"
        least = min(saved.values(), key=lambda gain: gain.low)
        seen = f"Depth helps at every width, and width at every depth{price}; the least is {least}."
    return Result(
        name="size",
        verdict=not n_worse,
        finding=(
            f"The loss of the smallest (layers × width: {first}) is {small.loss:.2f}, that of "
            f"the largest ({last}) {large.loss:.2f}; {100 * small.exact:.0f} and "
            f"{percent(large.exact)} of the held-out sequences come out right. {seen} "
            f"({of_trainings(len(seeds)).capitalize()}.)"
        ),
        numbers={
            **{f"loss: {size}": one.loss for size, one in grid.items()},
            **{f"exact match: {size}": one.exact for size, one in grid.items()},
            **{f"loss saved {how}": gain.mean for how, gain in saved.items()},
            **{f"loss saved {how}, 95 %": [gain.low, gain.high] for how, gain in saved.items()},
            "seeds": list(seeds),
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


def _learned(size: Size, steps: int, seeds: Sequence[int]) -> _LearnedSize:
    shape = (f"n_layers={size.n_layers}", f"d_model={size.d_model}", f"d_ff={2 * size.d_model}")
    how = ("norm_first=true", "lr=4e-3")
    losses, exact = [], []
    for seed in seeds:
        run, data = toy_translator("reverse", *shape, *how, steps=steps, seed=seed)
        test = data.splits["test"][:200]
        losses.append(sentence_losses(run, test))
        exact.append(evaluate_pairs(run, test, split="test").scores["exact_match"])
    return _LearnedSize(
        steps=steps,
        losses=np.array(losses),
        exact=float(np.mean(exact)),
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
