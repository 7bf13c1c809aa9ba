"""Attention reaches all tokens in one step, the alike most; CNN and RNN go from place to place.

A step is what can be computed at all positions at once. An MLP over the whole sequence needs one as
well, but its weights belong to places, not to what stands there; a position-wise one reaches no
other token. Each layer of a CNN goes as far as its kernel, and an RNN's state walks one position a
step, forward only. Whether an input reaches an output is read from the gradient between the two.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from regard.functional.masks import Near
from regard.kernels.attention import attention
from regard.lab.result import Result, percent, unmet
from regard.lab.small_models import block_norms, seeded
from regard.layers.feed_forward import FeedForward
from regard.visual.matrix import matrix
from regard.visual.tables import Table

_WIDTH, _BATCH = 8, 32
BY_ITSELF = "position-wise MLP"
_ALIKE, _STRANGE = 0.5, 0.25  # correlations that count as one, and as none

After = Callable[[int, Tensor], Tensor]  # a number of steps, x (B, T, D) -> y (B, T, D)


def reach(
    *, n_tokens: int = 7, kernel: int = 3, window: int | None = None, seed: int = 0
) -> Result:
    """Steps from each input to each output in five networks; ``kernel`` is the CNN's, and odd.

    ``window`` is how far to both sides attention may look; without one, everywhere.
    """
    with seeded(seed):
        x = torch.randn(_BATCH, n_tokens, _WIDTH, dtype=torch.float64)
        networks = _networks(n_tokens, kernel, window)
    steps = {name: _steps(after, x) for name, after in networks.items()}
    likeness = {name: _likeness(networks[name], x) for name in ("MLP", "attention")}
    t, s = torch.arange(n_tokens)[:, None], torch.arange(n_tokens)
    parts = {
        "the MLP needs one step to all": bool((steps["MLP"] == 1).all()),
        "the position-wise MLP never leaves a token": bool((steps[BY_ITSELF] == (t == s)).all()),
        "the CNN reaches neighbours first": bool(steps["CNN"].max() > 1),
        "the RNN walks on, a step for each": torch.equal(steps["RNN"], (t - s + 1).clamp(min=0)),
        "attention needs one step to all": bool((steps["attention"] == 1).all()),
        "attention is strongest between the alike": likeness["attention"] > _ALIKE,
        "the MLP does not mind likeness": abs(likeness["MLP"]) < _STRANGE,
    }
    share = {name: (of > 0).double().mean().item() for name, of in steps.items()}
    farthest = {name: int(of.max()) for name, of in steps.items()}
    ends = [[f"{side} {i + 1}" for i in range(n_tokens)] for side in ("out", "in")]
    rows = [(name, percent(share[name]), str(farthest[name])) for name in steps]
    return Result(
        name="reach",
        verdict=all(parts.values()),
        finding=(
            f"Steps to the farthest token that each one reaches: attention {farthest['attention']},"
            f" MLP {farthest['MLP']}, CNN {farthest['CNN']}, RNN {farthest['RNN']}, and an RNN "
            f"never hears what comes later ({percent(share['RNN'])} of pairs). How strongly a "
            f"token reaches another goes with their dot product in attention (correlation "
            f"{likeness['attention']:.2f}), not in the MLP ({likeness['MLP']:.2f})." + unmet(parts)
        ),
        numbers={
            **{f"{name}: share of pairs that are reached": value for name, value in share.items()},
            **{f"{name}: steps to the farthest": value for name, value in farthest.items()},
            **{f"{name}: correlation with likeness": value for name, value in likeness.items()},
        },
        pictures=tuple(
            # Full ink for one step, half for two; none where nothing arrives.
            matrix(torch.where(of > 0, 1 / of, 0).tolist(), *ends, title=f"{name}: 1 / steps")
            for name, of in steps.items()
        ),
        tables=(
            Table("Who is heard", ["Network", "Pairs reached", "Steps to the farthest"], rows),
        ),
    )


def _steps(after: After, x: Tensor) -> Tensor:
    """(T, S): the fewest steps in which input s moves output t; 0 where it never does."""
    n = x.shape[1]
    fewest = torch.zeros(n, n, dtype=torch.long)
    for k in range(n, 0, -1):
        moved = block_norms(partial(after, k), x).amax(dim=0) > 0
        fewest = torch.where(moved, k, fewest)
    return fewest


def _likeness(after: After, x: Tensor) -> float:
    """How one step's gradient between two tokens goes with their dot product."""
    others = ~torch.eye(x.shape[1], dtype=torch.bool)
    strength, alike = block_norms(partial(after, 1), x), x @ x.mT
    both = torch.stack([strength[:, others].flatten(), alike[:, others].flatten()])
    return torch.corrcoef(both)[0, 1].item()


def _networks(n_tokens: int, kernel: int, window: int | None) -> dict[str, After]:
    whole = nn.Linear(n_tokens * _WIDTH, n_tokens * _WIDTH).double()
    single = FeedForward(_WIDTH, 4 * _WIDTH).double()
    convolution = nn.Conv1d(_WIDTH, _WIDTH, kernel, padding=kernel // 2).double()
    cell = nn.RNNCell(_WIDTH, _WIDTH).double()
    mask = None if window is None else Near(window).dense(n_tokens, n_tokens)
    return {
        "MLP": _stacked(lambda y: whole(y.flatten(1)).tanh().view_as(y)),
        BY_ITSELF: _stacked(single),
        "CNN": _stacked(lambda y: convolution(y.mT).mT.tanh()),
        "RNN": partial(_walked, cell),
        "attention": _stacked(lambda y: attention(y, y, y, mask=mask)),
    }


def _stacked(layer: Callable[[Tensor], Tensor]) -> After:
    def after(n_steps: int, x: Tensor) -> Tensor:
        for _ in range(n_steps):
            x = layer(x)
        return x

    return after


def _walked(cell: nn.RNNCell, n_steps: int, x: Tensor) -> Tensor:
    """All states at once from their neighbours'; after T steps these are the RNN's own."""
    h = torch.zeros_like(x)
    for _ in range(n_steps):
        before = nn.functional.pad(h, (0, 0, 1, 0))[:, :-1]
        h = cell(x.flatten(0, 1), before.flatten(0, 1)).view_as(x)
    return h
