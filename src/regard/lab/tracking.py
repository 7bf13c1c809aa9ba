"""Tasks in which every symbol changes a state, and how well a network keeps track of it."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.lab.learning import fit
from regard.lab.taggers import LEARNING_RATES, Kind, tagger

Task = Callable[[int, int], tuple[Tensor, Tensor]]
"""How many and how long -> symbols and the state after each, both (N, T), below 3."""

_BATCH, _TESTED = 64, 500
_SWAPS = torch.tensor([[1, 0, 2], [0, 2, 1], [2, 1, 0]])  # where each place's cup goes, by swap


def parity(n: int, length: int) -> tuple[Tensor, Tensor]:
    """Bits, and whether the ones so far are odd in number."""
    bits = torch.randint(2, (n, length))
    return bits, bits.cumsum(dim=1) % 2


def cups(n: int, length: int) -> tuple[Tensor, Tensor]:
    """Swaps of two of three cups, and where the ball is that began under the first."""
    swaps, place = torch.randint(3, (n, length)), torch.zeros(n, dtype=torch.long)
    places = []
    for t in range(length):
        place = _SWAPS[swaps[:, t], place]
        places.append(place)
    return swaps, torch.stack(places, dim=1)


def echo(task: Task) -> Task:
    """The same symbols, but the state is the symbol: there is nothing to keep track of."""

    def echoed(n: int, length: int) -> tuple[Tensor, Tensor]:
        symbols, _ = task(n, length)
        return symbols, symbols

    return echoed


def accuracy_by_position(
    kind: Kind, task: Task, *, length: int, longest: int, n_steps: int, seed: int
) -> list[float]:
    """The share of right states at each place up to ``longest``, after training on ``length``."""

    def loss() -> Tensor:
        symbols, states = task(_BATCH, length)
        return F.cross_entropy(network(symbols).flatten(0, 1), states.flatten())

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = tagger(kind, n_symbols=3, n_answers=3, n_attentions=2)
        fit(network.parameters(), loss, steps=n_steps, lr=LEARNING_RATES[kind])
        symbols, states = task(_TESTED, longest)
    with torch.no_grad():
        return (network(symbols).argmax(dim=-1) == states).double().mean(dim=0).tolist()
