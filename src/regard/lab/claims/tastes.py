"""The dot product of a user's and a film's features tells whether the user will like the film.

Each feature counts by its sign and its size: what is liked and there adds to the score, and so does
what is disliked and missing; what is disliked and there takes away; indifference adds nothing.
Where nobody wrote the features down, they are learned from some of the likes and tested on the
others: embeddings of users and films, trained so that their dot product tells a like, as a query's
and a key's tells a match. The likes come of hidden tastes that are products themselves; the
question is whether they can be found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.functional.scores import NamedScore
from regard.lab.result import Result, lines, percent
from regard.lab.small_models import fit
from regard.visual.matrix import matrix
from regard.visual.tables import Table

_TASTES = ("romance", "action", "comedy")
_USERS = {
    "loves romance": (1.0, 0.0, 0.0),
    "loathes romance": (-1.0, 0.0, 0.0),
    "action, no romance": (-1.0, 1.0, 0.0),
    "indifferent": (0.0, 0.0, 0.0),
}
_FILMS = {"love story": (1.0, -1.0, 0.0), "thriller": (-1.0, 1.0, 0.0), "farce": (0.5, 0.0, 1.0)}


def tastes(
    *,
    product: bool = True,
    n_users: int = 100,
    n_films: int = 80,
    widths: Sequence[int] = (1, 2, 3, 4, 6, 8),
    steps: int = 300,
    seed: int = 0,
) -> Result:
    """Learn tastes from 40 % of the likes; without ``product``, users and films only add up."""
    world = _world(n_users, n_films, seed)
    learned = {d: _learn(world, d, steps, seed, product=product) for d in widths}
    right = {d: _held_out(world, scores) for d, scores in learned.items()}
    added = _held_out(world, _learn(world, 1, steps, seed, product=False))
    sums = dict.fromkeys(widths, added)
    width = min(widths, key=lambda d: abs(d - len(_TASTES)))
    most = max(world.likes.double().mean().item(), 1 - world.likes.double().mean().item())
    return Result(
        name="tastes",
        verdict=right[width] > 0.85 and right[width] > most + 0.15,
        finding=(
            f"From 40 % of the likes of {n_users} users, {width} learned numbers a user and a film "
            f"foretell {percent(right[width])} of the others by their "
            f"{'dot product' if product else 'sum'}; the more frequent answer is right on "
            f"{percent(most)}, and a number a user plus a number a film on {percent(added)}. A sum "
            "can say who likes much and what many like; only a product says who likes what."
        ),
        numbers={
            "widths": list(widths),
            "share foretold by width": list(right.values()),
            "hidden tastes": len(_TASTES),
            "share foretold: sums": added,
            "share foretold: more frequent answer": most,
        },
        pictures=(
            lines(
                {"dot product" if product else "sum": right, "number + number": sums},
                "Likes foretold that were not seen",
                "learned numbers a user and a film",
                "share right",
            ),
            matrix(
                learned[width][:12, :12].sigmoid().tolist(),
                [f"user {i + 1}" for i in range(min(12, n_users))],
                [f"film {i + 1}" for i in range(min(12, n_films))],
                title="Chance of a like",
            ),
        ),
        tables=(_by_hand(),),
    )


class _World(NamedTuple):
    likes: Tensor
    """(users, films), boolean: whether hidden tastes and features agree more than they differ."""
    seen: Tensor
    """(users, films), boolean: what may be learned from."""


def _world(n_users: int, n_films: int, seed: int) -> _World:
    rng = torch.Generator().manual_seed(seed)
    users, films = (torch.randn(n, len(_TASTES), generator=rng) for n in (n_users, n_films))
    return _World(_dot(users, films) > 0, torch.rand(n_users, n_films, generator=rng) < 0.4)


def _dot(users: Tensor, films: Tensor) -> Tensor:
    return NamedScore("dot")(users, films)  # (users, films)


def _learn(world: _World, d: int, steps: int, seed: int, *, product: bool) -> Tensor:
    """Scores (users, films) of embeddings of width d that were trained on the likes seen."""
    rng = torch.Generator().manual_seed(seed + 1)
    users, films = (nn.Parameter(0.1 * torch.randn(n, d, generator=rng)) for n in world.likes.shape)

    def scores() -> Tensor:
        return _dot(users, films) if product else users.sum(1, keepdim=True) + films.sum(1)

    def loss() -> Tensor:
        wanted = world.likes[world.seen].float()
        return F.binary_cross_entropy_with_logits(scores()[world.seen], wanted)

    fit([users, films], loss, steps=steps, lr=0.05)
    return scores().detach()


def _held_out(world: _World, scores: Tensor) -> float:
    """The share of likes and dislikes told rightly, of those that were not seen."""
    return ((scores > 0) == world.likes)[~world.seen].double().mean().item()


def _by_hand() -> Table:
    users, films = (torch.tensor(list(group.values())) for group in (_USERS, _FILMS))
    scores = (_dot(users, films) + 0.0).tolist()  # + 0 turns -0 into 0
    taste, feature = (
        [f"{name} ({', '.join(f'{x:g}' for x in vector)})" for name, vector in group.items()]
        for group in (_USERS, _FILMS)
    )
    rows = [[who, *(f"{x:+g}" for x in row)] for who, row in zip(taste, scores, strict=True)]
    return Table(f"By hand, with features for {', '.join(_TASTES)}", ["", *feature], rows)
