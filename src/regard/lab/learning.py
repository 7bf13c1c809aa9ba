"""The least that learning needs, for models too small to deserve a run folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn


def fit(
    parameters: Iterable[nn.Parameter],
    loss: Callable[[], Tensor],
    *,
    steps: int,
    lr: float = 1e-3,
) -> list[float]:
    """Adam on ``loss``, which draws its own batch each time; returns the loss of every step.

    Gradients are clipped to norm 1, and the rate falls to zero, so that the end is a calm one.
    """
    learned = list(parameters)
    optimiser = torch.optim.Adam(learned, lr=lr)
    falling = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.01, total_iters=steps)
    losses = []
    for _ in range(steps):
        value = loss()
        optimiser.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(learned, 1.0)
        optimiser.step()
        falling.step()
        losses.append(value.item())
    return losses
