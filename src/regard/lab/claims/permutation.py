"""Without positions, self-attention with feed-forward and LayerNorm is blind to the order of words.

Each word's vector is a sum over all words, and a sum has no order; feed-forward and LayerNorm do
the same at every place; so more layers do not help. Positions do. A causal mask does too, without
positions, where layers are stacked: *mary* sees the same words in *john loves mary* and in *loves
john mary*, but one layer up, *loves* has seen *john* in one of them and not in the other.

The lectures' proof goes step by step, and so do the numbers of one attention: the words' vectors x
are the same, so are their values v, then the scores e of all pairs, then the weights α, since a sum
has no order, and then the outputs o.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import torch
from torch import Tensor

from regard.functional import masks
from regard.functional.positions import dense_bias
from regard.lab.result import Result, lines
from regard.lab.small_models import seeded, small_config
from regard.layers.embeddings import token_embedding
from regard.layers.positions import Join, is_relative, make_positions, make_relative
from regard.models.transformer import TransformerEncoder
from regard.visual.matrix import matrix
from regard.visual.tables import Table

BLIND = 1e-9
"""Vectors of unit variance in double precision: what differs by less differs by rounding."""
SEEN = 1e-3
"""What differs by more is told apart."""
_ORDERS = list(permutations(range(3)))  # of john, loves, mary
SENTENCES = {
    "john loves mary": ("mary loves john",),
    "I want to sleep": ("Sleep to I want",),
    "he hit me with a pie": (
        "a pie hit me with he",
        "a hit with me he pie",
        "he pie me with a hit",
    ),
}
"""The lectures' sentences, each with other orders of its words."""
_D = 32

Steps = dict[str, Tensor]
"""x, v, e, α and o of one attention: a row a word, and a column a word where it is of pairs."""


def permutation(*, positions: str = "none", n_layers: int = 4, seed: int = 0) -> Result:
    """*john loves mary* in all six orders, through an encoder with these positions."""
    change = _changes(_encoder(positions, n_layers, seed), _ORDERS)
    placed = _changes(_encoder("sinusoidal", n_layers, seed), _ORDERS)
    # Only the words before mary trade places, so that mary sees the same set of words.
    mary = _changes(_encoder("none", n_layers, seed), [(1, 0, 2)], causal=True)
    proof = _proof(positions, seed)
    most = {step: max(row[step] for row in proof.values()) for step in STEPS}
    verdict = max(change) < BLIND and min(placed) > SEEN and max(most.values()) < BLIND
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
            f"{order} In one attention the largest changes of x, v, e, α and o are "
            f"{', '.join(f'{one:.1g}' for one in most.values())}, over the lectures' sentences and "
            f"their shuffles. A causal mask without positions {deep} at this depth: after the same "
            f"two words in another order, mary changes by {mary[0]:.1g} after one layer and by "
            f"{mary[-1]:.2g} after {n_layers}."
        ),
        numbers={
            "positions": positions,
            "largest change of a word by depth": change,
            "with sinusoidal positions": placed,
            "of mary under a causal mask without positions": mary,
            **{f"largest change of {step} in one attention": one for step, one in most.items()},
        },
        pictures=(
            lines(
                series,
                "How much words change when their order does",
                "layers",
                "largest change of a word's vector",
                xs=range(1, n_layers + 1),
            ),
            *(
                _weights(sentence, positions, seed)
                for sentence in ("I want to sleep", "Sleep to I want")
            ),
        ),
        tables=(
            _proof_table(f"The proof in numbers: changes with positions {positions}", proof),
            _proof_table("The same with sinusoidal positions", _proof("sinusoidal", seed)),
        ),
    )


STEPS = ("x", "v", "e", "α", "o")


def one_attention(sentence: str, positions: str, seed: int) -> Steps:
    """A sentence through an embedding and one self-attention, step by step.

    The same word, small or large, has the same vector in every sentence.
    """
    words = sorted({word for text in SENTENCES for word in text.lower().split()})
    ids = torch.tensor([[words.index(word) for word in sentence.lower().split()]])
    join: Join = "concat" if positions == "index" else "add"
    with seeded(seed):
        told = make_positions(positions, _D, join=join, max_len=16).double()
        table = torch.randn(len(words), _D, dtype=torch.float64)
        w_q, w_k, w_v = torch.randn(3, told.d_out, _D, dtype=torch.float64) / _D**0.5
    with torch.no_grad():
        x = told(table[ids])[0]
    v = x @ w_v
    e = _scores(x @ w_q, x @ w_k, positions)
    weights = e.softmax(dim=-1)
    return {"x": x, "v": v, "e": e, "α": weights, "o": weights @ v}


def _scores(q: Tensor, k: Tensor, positions: str) -> Tensor:
    """(T, T) of q and k (T, D), which positions that are told inside attention know of."""
    inside = make_relative(positions if is_relative(positions) else "none", n_heads=1)
    told = inside(q[None, None], k[None, None], 0)
    bias = dense_bias(told.bias, len(q), len(k))
    scores = (told.q @ told.k.mT)[0, 0] / _D**0.5
    return scores if bias is None else scores + bias[0]


def _proof(positions: str, seed: int) -> dict[str, dict[str, float]]:
    """For each other order of a sentence's words, the largest change in each step of the proof."""
    return {
        f"{sentence} → {other}": {
            step: (rows - shuffled[step]).abs().max().item()
            for step, rows in one_attention(sentence, positions, seed).items()
        }
        for sentence, others in SENTENCES.items()
        for other in others
        for shuffled in [_in_order_of(sentence, other, one_attention(other, positions, seed))]
    }


def _in_order_of(sentence: str, other: str, steps: Steps) -> Steps:
    """What was found for the words of ``other``, in the order in which ``sentence`` has them."""
    places = other.lower().split()
    g = torch.tensor([places.index(word) for word in sentence.lower().split()])
    pairs = ("e", "α")
    return {name: one[g][:, g] if name in pairs else one[g] for name, one in steps.items()}


def _proof_table(caption: str, proof: dict[str, dict[str, float]]) -> Table:
    rows: Sequence[Sequence[str]] = [
        (pair, *(f"{one:.1g}" for one in steps.values())) for pair, steps in proof.items()
    ]
    return Table(caption, ["Largest change of a number", *STEPS], rows)


def _weights(sentence: str, positions: str, seed: int) -> str:
    words = sentence.split()
    found = one_attention(sentence, positions, seed)["α"].tolist()
    return matrix(found, words, words, title=f"α in “{sentence}”")


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
