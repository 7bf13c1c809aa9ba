"""One head that learns to repeat a sequence, or to mirror it, and where it then looks."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.inspection.capture import watch
from regard.lab.learning import fit
from regard.layers.attention import MultiHeadAttention
from regard.layers.positions import make_positions

_D = 32


class TrainedHead(NamedTuple):
    """What a head does with new sequences."""

    accuracy: float
    weights: Tensor
    """(B, 1, T, T)"""


def trained_head(n_tokens: int, *, mirrored: bool = False, steps: int, seed: int) -> TrainedHead:
    """Sequences hold no symbol twice, so that only one place has the answer.

    There is no residual: all that comes out went through the head.
    """
    rng = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = nn.Sequential(
            nn.Embedding(2 * n_tokens, _D),
            make_positions("sinusoidal", _D, join="add", max_len=n_tokens),
            MultiHeadAttention(_D, 1),
            nn.Linear(_D, 2 * n_tokens),
        )

    def examples(n: int) -> tuple[Tensor, Tensor]:
        ids = torch.rand(n, 2 * n_tokens, generator=rng).argsort(dim=1)[:, :n_tokens]
        return ids, ids.flip(1) if mirrored else ids

    def loss() -> Tensor:
        ids, wanted = examples(16)
        return F.cross_entropy(model(ids).transpose(1, 2), wanted)

    fit(model.parameters(), loss, steps=steps, lr=1e-2)
    ids, wanted = examples(100)
    with watch(model) as views, torch.no_grad():
        right = model(ids).argmax(dim=-1) == wanted
    (view,) = views.values()
    return TrainedHead(right.double().mean().item(), view.weights())
