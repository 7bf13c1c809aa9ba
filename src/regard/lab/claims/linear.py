"""With its weights frozen, stacked self-attention is linear in its input; feed-forward ends that.

Values, weighted sums and W_o are matrix products, so with the weights A held fixed any number of
layers is one matrix. Two things are not linear: A itself, which a softmax makes of the input, and
the relu of the feed-forward network. Tested by superposition: f(2x - 3y) should be 2f(x) - 3f(y).
There are no biases, which alone would end it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from regard.inspection.capture import watch
from regard.lab.result import Result, lines, percent, share_bars
from regard.lab.small_models import seeded
from regard.layers.attention import MultiHeadAttention
from regard.layers.feed_forward import FeedForward

Function = Callable[[Tensor], Tensor]
_D = 16
LINEAR = 1e-9
"""Of the size of the output, in double precision: rounding."""


def linear(
    *, frozen: bool = True, feed_forward: bool = False, n_layers: int = 3, seed: int = 0
) -> Result:
    """``frozen`` holds the weights at those of another input; else each input makes its own."""
    with seeded(seed):
        stack = _Stack(n_layers).double().requires_grad_(False)
        x, y, other = torch.randn(3, 1, 5, _D, dtype=torch.float64)
    cases: dict[tuple[bool, bool], Function] = {
        (True, False): partial(stack, fed=False, weights=stack.weights(other, fed=False)),
        (True, True): partial(stack, fed=True, weights=stack.weights(other, fed=True)),
        (False, False): partial(stack, fed=False),
        (False, True): partial(stack, fed=True),
    }
    errors = {case: _error(function, x, y) for case, function in cases.items()}
    named = {_name(case): value for case, value in errors.items()}
    error, fed = errors[frozen, feed_forward], errors[frozen, True]
    verdict = error < LINEAR and fed > 1e-3
    return Result(
        name="linear",
        verdict=verdict,
        finding=(
            f"With the weights frozen superposition holds to {error:.1g}, so the layers are one "
            f"matrix. A feed-forward network makes it fail by {percent(errors[True, True])}; so do "
            f"weights that each input makes itself, by {percent(errors[False, False])}, for their "
            "softmax is not linear."
            if verdict
            else f"Superposition fails by {percent(error)} of the output: a softmax of the input, "
            "or a relu, stands between it and the output."
        ),
        numbers={
            **{f"error of superposition: {name}": value for name, value in named.items()},
            "frozen and one matrix differ by": _from_matrix(cases[True, False], x),
        },
        pictures=(
            share_bars(named, title="Error of superposition"),
            lines(
                {_name(case): _along(function, x, y) for case, function in cases.items()},
                "One number of the output along a line",
                "t in f(x + ty)",
                "output, scaled to its largest",
            ),
        ),
    )


class _Stack(nn.Module):
    """Layers of self-attention, with a feed-forward network after each if asked for."""

    def __init__(self, n_layers: int) -> None:
        super().__init__()
        layers = range(n_layers)
        self.attentions = nn.ModuleList(MultiHeadAttention(_D, 2, bias=False) for _ in layers)
        self.feeds = nn.ModuleList(FeedForward(_D, 4 * _D, bias=False) for _ in layers)

    def forward(self, x: Tensor, *, fed: bool, weights: Sequence[Tensor] | None = None) -> Tensor:
        """x (B, T, D) -> (B, T, D); ``weights`` are one (B, H, T, T) a layer."""
        attentions = cast("Iterable[MultiHeadAttention]", self.attentions)
        for i, (attention, feed) in enumerate(zip(attentions, self.feeds, strict=True)):
            if weights is None:
                x = attention(x)
            else:
                heads = weights[i] @ attention.project(x).v  # (B, H, T, D / H)
                x = attention.to_out(heads.transpose(1, 2).flatten(2))
            x = feed(x) if fed else x
        return x

    def weights(self, x: Tensor, *, fed: bool) -> list[Tensor]:
        """Those that x itself makes."""
        with watch(self) as views:
            self(x, fed=fed)
        return [views["attentions", i].weights() for i in range(len(self.attentions))]


def _error(f: Function, x: Tensor, y: Tensor) -> float:
    """How far f is from linear, as a share of what linear would give."""
    expected = 2 * f(x) - 3 * f(y)
    return ((f(2 * x - 3 * y) - expected).norm() / expected.norm()).item()


def _from_matrix(f: Function, x: Tensor) -> float:
    """How far f(x) is from M x, where M is read off column by column."""
    basis = torch.eye(x.numel(), dtype=x.dtype).unflatten(1, x.shape[1:])
    columns = torch.cat([f(one[None]).flatten(1) for one in basis])
    return ((x.flatten() @ columns - f(x).flatten()).norm() / f(x).norm()).item()


def _along(f: Function, x: Tensor, y: Tensor) -> dict[float, float]:
    values = {t / 10: f(x + t / 10 * y)[0, 0, 0].item() for t in range(-30, 31)}
    largest = max(map(abs, values.values()))
    return {t: value / largest for t, value in values.items()}


def _name(case: tuple[bool, bool]) -> str:
    frozen, fed = case
    return ("frozen" if frozen else "own weights") + (", feed-forward" if fed else "")
