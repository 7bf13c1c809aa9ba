"""Without recurrence or self-attention step 2 cannot know step 1; recurrence tracks a state best.

Take the recurrent connections out of a network with attention to its source: the state of a step is
then a function of its own input, and nothing leads from one step to the next. Self-attention mends
that, and the lecture says that attention can in principle do all that recurrence can. Yet for a
state that changes with every symbol (parity; a ball under one of three cups that are swapped)
recurrence learns the rule of a single step, which holds at any length. A Transformer of a fixed
depth learns something that ends with the lengths it was trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.lab.result import Result, lines, percent, unmet
from regard.lab.small_models import KINDS, LEARNING_RATES, Kind, block_norms, fit, seeded, tagger
from regard.layers.attention import MultiHeadAttention
from regard.visual.charts import bars

Link = Literal["none", "recurrence", "self-attention"]

_WIDTH, _LONGER = 16, 4
_TRACKS, _LOST = 0.95, 0.7
Task = Callable[[int, int], tuple[Tensor, Tensor]]
"""How many and how long -> symbols and the state after each, both (N, T), below 3."""

_BATCH, _TESTED = 64, 500
_SWAPS = torch.tensor([[1, 0, 2], [0, 2, 1], [2, 1, 0]])  # where each place's cup goes, by swap


def recurrence(
    *,
    link: Link = "none",
    stateful: bool = True,
    length: int = 16,
    n_steps: int = 400,
    seed: int = 0,
) -> Result:
    """Whether step 2 depends on step 1, and who tracks a state beyond the trained ``length``.

    ``link`` ties the steps of the bare network, which should have no tie; without ``stateful`` the
    answer is the symbol itself, and there is no state to track.
    """
    linked: tuple[Link, ...] = ("recurrence", "self-attention")
    knows = {"bare": _knows(link, seed), **{str(one): _knows(one, seed) for one in linked}}
    tasks: dict[str, Task] = {"parity": parity, "cups": cups}
    right = {
        (name, kind): accuracy_by_position(
            kind, task if stateful else echo(task), length=length, n_steps=n_steps, seed=seed
        )
        for name, task in tasks.items()
        for kind in KINDS
    }
    within = {key: fmean(of[:length]) for key, of in right.items()}
    beyond = {key: fmean(of[length:]) for key, of in right.items()}
    best = min(share for (_, kind), share in beyond.items() if kind == "LSTM")
    worst = max(share for (_, kind), share in beyond.items() if kind == "attention")
    parts = {
        "nothing leads from step 1 to step 2 of the bare network": knows["bare"] == (0.0, 0.0),
        "recurrence leads there": min(knows["recurrence"]) > 0,
        "self-attention leads there": min(knows["self-attention"]) > 0,
        "the LSTM goes on tracking": best >= _TRACKS,
        "attention loses track": worst <= _LOST,
    }
    shares = "; ".join(
        f"{task}: {', '.join(f'{kind} {percent(beyond[task, kind])}' for kind in KINDS)}"
        for task in tasks
    )
    return Result(
        name="recurrence",
        verdict=all(parts.values()),
        finding=(
            f"The gradient of the decoder's step 2 with respect to the input of step 1 is "
            f"{knows['bare'][1]:.2f} in the bare network, {knows['recurrence'][1]:.2f} with "
            f"recurrence and {knows['self-attention'][1]:.2f} with self-attention. Right states "
            f"beyond the trained length: {shares}; within it attention is right in "
            f"{100 * within['parity', 'attention']:.0f} and "
            f"{percent(within['cups', 'attention'])}." + unmet(parts)
        ),
        numbers={
            **{f"step 2 of the encoder knows step 1: {n}": v for n, (v, _) in knows.items()},
            **{f"step 2 of the decoder knows step 1: {n}": v for n, (_, v) in knows.items()},
            **{f"{t}, {k}: right within the trained length": v for (t, k), v in within.items()},
            **{f"{t}, {k}: right beyond": v for (t, k), v in beyond.items()},
        },
        pictures=(
            bars({name: v for name, (_, v) in knows.items()}, title="What step 2 has of step 1"),
            *(_picture(task, right, length) for task in tasks),
        ),
    )


def _picture(task: str, right: Mapping[tuple[str, Kind], list[float]], length: int) -> str:
    """Means of half a trained length, for single places jitter."""
    half = max(1, length // 2)
    series = {
        kind: {float(i + half): fmean(of[i : i + half]) for i in range(0, len(of), half)}
        for (name, kind), of in right.items()
        if name == task
    }
    title = f"{task.capitalize()}, trained up to {length}"
    return lines(series, title, "symbols read", "right states")


def _knows(link: Link, seed: int) -> tuple[float, float]:
    """How strongly the encoder's, and the decoder's, second step depends on the first input."""
    with seeded(seed):
        read, write = _states(link), _states(link)
        cross = MultiHeadAttention(_WIDTH, 1).double()
        source, target = torch.randn(2, 8, 3, _WIDTH, dtype=torch.float64)
    memory = read(source).detach()
    encoder = block_norms(read, source)
    decoder = block_norms(lambda y: cross(write(y), memory), target)
    return encoder[:, 1, 0].mean().item(), decoder[:, 1, 0].mean().item()


def _states(link: Link) -> Callable[[Tensor], Tensor]:
    """Inputs (B, T, D) -> states (B, T, D)."""
    if link == "recurrence":
        inner = nn.RNN(_WIDTH, _WIDTH, batch_first=True).double()
        return lambda x: inner(x)[0]
    if link == "self-attention":
        look = MultiHeadAttention(_WIDTH, 1).double()
        return lambda x: look(x, causal=True)
    alone = nn.Linear(_WIDTH, _WIDTH).double()
    return lambda x: alone(x).tanh()


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
    kind: Kind, task: Task, *, length: int, n_steps: int, seed: int
) -> list[float]:
    """Shares of right states by place, up to four times the ``length`` that is trained on."""

    def loss() -> Tensor:
        symbols, states = task(_BATCH, length)
        return F.cross_entropy(network(symbols).flatten(0, 1), states.flatten())

    with seeded(seed):
        network = tagger(kind, n_symbols=3, n_answers=3, n_attentions=2)
        fit(network.parameters(), loss, steps=n_steps, lr=LEARNING_RATES[kind])
        symbols, states = task(_TESTED, _LONGER * length)
    with torch.no_grad():
        return (network(symbols).argmax(dim=-1) == states).double().mean(dim=0).tolist()
