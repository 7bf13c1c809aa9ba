"""In plain self-attention, without any projections, each token attends most to itself.

The score of a token with itself is its squared length. Among tokens of one length nothing can beat
it; a longer one in nearly the same direction can. So the width of the tokens counts, for in few
dimensions directions are few, and so does how much their lengths differ. Queries and keys of
their own end all this: random ones look anywhere, trained ones where the task needs them to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.inspection.capture import watch
from regard.kernels.attention import attention
from regard.lab.result import Result, lines, percent, share_bars
from regard.lab.small_models import fit, seeded
from regard.layers.attention import MultiHeadAttention
from regard.layers.positions import make_positions
from regard.visual.matrix import matrix

_SPREADS = (0.0, 0.25, 0.5, 1.0)
_LENGTHS = (0.5, 1.0, 2.0, 4.0, 8.0)
_D = 32


def itself(
    *,
    projected: bool = False,
    widths: Sequence[int] = (2, 4, 8, 16, 64),
    n_tokens: int = 16,
    n_sets: int = 200,
    steps: int = 400,
    seed: int = 0,
) -> Result:
    """How often tokens look at themselves most; ``projected`` gives them random queries and keys.

    Tokens have normal entries, as embeddings have before training.
    """
    rng = torch.Generator().manual_seed(seed)
    tokens = {
        d: torch.randn(n_sets, n_tokens, d, generator=rng, dtype=torch.float64) for d in widths
    }
    wide = widths[-1]
    copying = trained_head(n_tokens, steps=steps, seed=seed)
    reversing = trained_head(n_tokens, mirrored=True, steps=steps, seed=seed)
    shares = {
        "plain": _share(_plain(tokens[wide])),
        "random queries and keys": _share(_projected(tokens[wide], rng)),
        "trained to copy": _share(copying.weights),
        "trained to reverse": _share(reversing.weights),
    }
    normal = {d: _share(_plain(tokens[d])) for d in widths}
    spread = {
        f"{d} dimensions": [_share(_plain(_with_lengths(x, s, rng))) for s in _SPREADS]
        for d, x in tokens.items()
    }
    own = {
        f"{d} dimensions": [_own(_plain(F.normalize(x, dim=-1) * n)) for n in _LENGTHS]
        for d, x in tokens.items()
    }
    deciding = shares["random queries and keys" if projected else "plain"]
    return Result(
        name="itself",
        verdict=deciding > 0.99,
        finding=(
            f"With {wide} dimensions, {percent(shares['plain'])} of tokens attend most to "
            f"themselves, with {widths[0]} only {percent(normal[widths[0]])} (chance: "
            f"{percent(1 / n_tokens)}): of tokens of one length all do, but a longer one in nearly "
            "the same direction wins. Behind random queries and keys "
            f"{percent(shares['random queries and keys'])} do; behind trained ones "
            f"{percent(shares['trained to copy'])} if the task is to copy and "
            f"{percent(shares['trained to reverse'])} if it is to reverse."
        ),
        numbers={
            **{f"share: {name}": share for name, share in shares.items()},
            "accuracy: trained to copy": copying.accuracy,
            "accuracy: trained to reverse": reversing.accuracy,
            "dimensions": list(widths),
            "share by dimensions, normal entries": list(normal.values()),
            "deviations of log length": list(_SPREADS),
            **{f"share by deviation, {d}": shares for d, shares in spread.items()},
            "lengths": list(_LENGTHS),
            **{f"weight on itself by length, {d}": weights for d, weights in own.items()},
        },
        pictures=(
            share_bars(shares, title="Tokens that attend most to themselves"),
            matrix(
                list(spread.values()),
                list(spread),
                [f"spread {s:g}" for s in _SPREADS],
                title="Share by spread of length",
            ),
            lines(
                own,
                "Mean weight on itself, all tokens of one length",
                "length",
                "weight",
                xs=_LENGTHS,
            ),
        ),
    )


def _plain(x: Tensor) -> Tensor:
    """softmax(x xᵀ): weights (B, T, T) of tokens (B, T, D)."""
    return attention(x, x, x, score="dot", need_weights=True).weights


def _projected(x: Tensor, rng: torch.Generator) -> Tensor:
    """The same with queries and keys of random matrices, another pair for each set of tokens."""
    d = x.shape[-1]
    q, k = (x @ torch.randn(len(x), d, d, generator=rng, dtype=x.dtype) / d**0.5 for _ in range(2))
    return attention(q, k, x, need_weights=True).weights


def _share(weights: Tensor) -> float:
    """How often a row's largest weight (…, T, T) is that of the token itself."""
    own = torch.arange(weights.shape[-1])
    return (weights.argmax(dim=-1) == own).double().mean().item()


def _own(weights: Tensor) -> float:
    return weights.diagonal(dim1=-2, dim2=-1).mean().item()


def _with_lengths(x: Tensor, deviation: float, rng: torch.Generator) -> Tensor:
    """Tokens in the same directions, of log-normal lengths around √D."""
    lengths = (deviation * torch.randn(*x.shape[:-1], 1, generator=rng, dtype=x.dtype)).exp()
    return F.normalize(x, dim=-1) * lengths * x.shape[-1] ** 0.5


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
    with seeded(seed):
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
