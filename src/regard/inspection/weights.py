"""The weights of every attention of a model for one sentence pair."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.inspection.capture import watch

Weights = NDArray[np.float32]
"""(H, T, S): row = who asks, column = who is looked at."""


@torch.inference_mode()
def attentions(model: nn.Module, source: Tensor, target: Tensor) -> dict[str, tuple[Weights, ...]]:
    """Every attention's weights for one pair: source ids (1, S), target ids (1, T), begin first."""
    with watch(model) as views:
        model(source, target)
    found: dict[str, dict[int, Weights]] = {}
    for (name, layer), view in views.items():
        found.setdefault(name, {})[layer] = view.weights()[0].float().cpu().numpy()
    return {name: tuple(layers[i] for i in sorted(layers)) for name, layers in found.items()}
