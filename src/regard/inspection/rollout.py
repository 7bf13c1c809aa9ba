"""Attention rollout: where a layer's attention leads once the layers below it are followed.

Abnar & Zuidema 2020. The residual stream carries every position past an attention, so half of what
a layer passes on is taken to be the position itself; layers multiply. Feed-forward networks, values
and W_o are left out of it: a rough map of where information could have come from.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import ShapeError


def rollout(layers: Sequence[NDArray[np.floating]]) -> NDArray[np.float64]:
    """Self-attention weights (H, T, T) of each layer, lowest first -> (T, T); rows sum to 1."""
    shapes = {weights.shape[1:] for weights in layers}
    if len(shapes) != 1 or len(set(*shapes)) != 1:
        raise ShapeError(
            f"rollout follows self-attention, whose weights are (H, T, T); got {sorted(shapes)}"
        )
    n = layers[0].shape[-1]
    through = np.eye(n)
    for weights in layers:
        step = 0.5 * weights.mean(axis=0, dtype=np.float64) + 0.5 * np.eye(n)
        through = step / step.sum(axis=-1, keepdims=True) @ through
    return through
