"""Without positions, self-attention with feed-forward and LayerNorm is blind to the order of words.

Each word's vector is a sum over all words, and a sum has no order; feed-forward and LayerNorm do
the same at every place; so more layers do not help. Positions do. A causal mask does too, without
positions, where layers are stacked: *mary* sees the same words in *john loves mary* and in *loves
john mary*, but one layer up, *loves* has seen *john* in one of them and not in the other.
"""

from __future__ import annotations

from itertools import permutations

import torch
from torch import Tensor

from regard.functional import masks
from regard.lab.result import Result, lines
from regard.lab.small_models import seeded, small_config
from regard.layers.embeddings import token_embedding
from regard.models.transformer import TransformerEncoder

BLIND = 1e-9
"""Vectors of unit variance in double precision: what differs by less differs by rounding."""
SEEN = 1e-3
"""What differs by more is told apart."""
_ORDERS = list(permutations(range(3)))  # of john, loves, mary


def permutation(*, positions: str = "none", n_layers: int = 4, seed: int = 0) -> Result:
    """*john loves mary* in all six orders, through an encoder with these positions."""
    change = _changes(_encoder(positions, n_layers, seed), _ORDERS)
    placed = _changes(_encoder("sinusoidal", n_layers, seed), _ORDERS)
    # Only the words before mary trade places, so that mary sees the same set of words.
    mary = _changes(_encoder("none", n_layers, seed), [(1, 0, 2)], causal=True)
    verdict = max(change) < BLIND and min(placed) > SEEN
    series = {
        f"positions {positions}": change,
        "positions sinusoidal": placed,
        "causal mask, positions none: mary": mary,
    }
    order = (
        f"After {n_layers} layers no word's vector changes by more than {change[-1]:.1g}, in any "
        f"of the six orders; with positions vectors change by up to {placed[-1]:.1f}."
        if verdict
        else f"With these positions words change by up to {change[-1]:.2g} when their order does."
    )
    deep = "tells orders apart" if mary[-1] > SEEN else "does not tell orders apart"
    return Result(
        name="permutation",
        verdict=verdict,
        finding=(
            f"{order} A causal mask without positions {deep} at this depth: after the same two "
            f"words in another order, mary changes by {mary[0]:.1g} after one layer and by "
            f"{mary[-1]:.2g} after {n_layers}."
        ),
        numbers={
            "positions": positions,
            "largest change of a word by depth": change,
            "with sinusoidal positions": placed,
            "of mary under a causal mask without positions": mary,
        },
        pictures=(
            lines(
                series,
                "How much words change when their order does",
                "layers",
                "largest change of a word's vector",
                xs=range(1, n_layers + 1),
            ),
        ),
    )


def _encoder(positions: str, n_layers: int, seed: int) -> TransformerEncoder:
    """The same weights for every kind of positions that has none of its own."""
    config = small_config(3, 32, n_layers, n_heads=4, positions=positions)
    with seeded(seed):
        return TransformerEncoder(config, token_embedding(3, config.d_model)).double()


@torch.no_grad()
def _vectors(encoder: TransformerEncoder, order: tuple[int, ...], mask: Tensor) -> Tensor:
    """(layer, word, D): what each layer makes of each word, wherever it stands."""
    x = encoder.embedding(torch.tensor([order]))
    depths = []
    for layer in encoder.layers:
        x = layer(x, mask)
        depths.append(x[0, torch.tensor(order).argsort()])
    return torch.stack(depths)


def _changes(
    encoder: TransformerEncoder, orders: list[tuple[int, ...]], *, causal: bool = False
) -> list[float]:
    """By depth, the most that a number of a word's vector changes from *john loves mary*.

    Under a causal mask only the vector of *mary* counts.
    """
    mask = masks.causal(3) if causal else torch.ones(3, 3, dtype=torch.bool)
    first = _vectors(encoder, (0, 1, 2), mask)
    others = torch.stack([_vectors(encoder, order, mask) for order in orders])
    changes = (others - first).abs().amax(dim=(0, 3))  # (layer, word)
    by_depth: list[float] = changes[:, 2 if causal else 0 :].amax(dim=1).tolist()
    return by_depth
