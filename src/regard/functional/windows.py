"""Luong's predicted window: where to look is itself computed from the query (``local_p``)."""

from __future__ import annotations

import torch
from torch import Tensor


def predicted_centre(q: Tensor, lengths: Tensor, *, weight: Tensor, v: Tensor) -> Tensor:
    """p = S · sigmoid(vᵀ tanh(W q)), a real-valued position in (0, S).

    q (…, T, Dq), lengths broadcastable to (…, T), weight (…, Dq, A), v (…, A) -> (…, T).
    """
    return lengths * torch.sigmoid(((q @ weight).tanh() @ v[..., None]).squeeze(-1))


def around(centre: Tensor, n_keys: int, *, half_width: int) -> tuple[Tensor, Tensor]:
    """The keys within D of the centre, and the Gaussian of σ = D/2 that multiplies their weights.

    centre (…, T) -> mask (…, T, S) and Gaussian (…, T, S). The Gaussian is what carries gradients
    back to the centre; it is applied after the softmax, so rows sum to less than 1.
    """
    distance = torch.arange(n_keys, device=centre.device) - centre.unsqueeze(-1)
    sigma = half_width / 2
    return distance.abs() <= half_width, torch.exp(-(distance**2) / (2 * sigma**2))
