"""A Transformer trains on all positions at once, an RNN does not; both write word by word.

What matters is how many operations must wait for one another: the longest chain, which no number of
processors shortens. It is counted, not timed: each operation of a real step on real tensors stands
one after the last of those whose results it reads. Training is forward and backward on whole texts;
writing takes each word from the logits before it. FLOPs are counted as well, for the work of all is
of one order: it is the waiting that differs. Times are drawn beside the counts, as ratios of
measurements that take turns, and decide nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from regard.kernels.call import reference_only
from regard.lab.result import Result, lines, listed, unmet
from regard.lab.small_models import seeded
from regard.models.base import NoMemory
from regard.models.decoder import LanguageModel
from regard.models.settings import DecoderConfig
from regard.visual.tables import Table

FLAT = 1.2
"""A chain that grows by less from the shortest to the longest text does not depend on length."""
_WORDS, _WIDTH = 50, 64

Step = Callable[[Tensor], Any]
"""ids (B, T) -> whatever; training or writing as many words."""


class _Counted(NamedTuple):
    chain: int
    """Operations that wait for one another."""
    flops: int


def parallel(
    *,
    forced: bool = True,
    lengths: Sequence[int] = (8, 16, 32, 64),
    n_rounds: int = 3,
    seed: int = 0,
) -> Result:
    """Chains by length; unless ``forced``, training reads the model's own words as writing does."""
    with seeded(seed):
        size = {"d_model": _WIDTH, "n_layers": 2, "n_heads": 4, "d_ff": 2 * _WIDTH}
        config = DecoderConfig(n_vocab=_WORDS, **size, dropout=0.0)
        models: dict[str, nn.Module] = {
            "RNN": RecurrentWriter(_WORDS, _WIDTH),
            "Transformer": AttentiveWriter(LanguageModel(config)),
        }
        texts = {n: torch.randint(1, _WORDS, (4, n)) for n in lengths}
    steps: dict[str, Step] = {}
    for name, model in models.items():
        steps[f"{name}, training"] = partial(_train, model, forced=forced)
        steps[f"{name}, writing"] = torch.no_grad()(partial(_write, model))
    counts = {what: [count(step, texts[n]) for n in lengths] for what, step in steps.items()}
    chains = {what: [one.chain for one in some] for what, some in counts.items()}
    work = {what: [one.flops for one in some] for what, some in counts.items()}
    growth = {what: some[-1] / some[0] for what, some in chains.items()}
    longer = lengths[-1] / lengths[0]
    parts = {
        "the Transformer trains in a chain of one length": growth["Transformer, training"] < FLAT,
        **{
            f"the chain of {what} grows with the text": growth[what] > longer / 2
            for what in growth
            if what != "Transformer, training"
        },
    }
    ratios = _ratios(steps, texts, n_rounds)
    grown = listed(f"{what} {value:.1f}" for what, value in growth.items())
    return Result(
        name="parallel",
        verdict=all(parts.values()),
        finding=(
            f"From {lengths[0]} to {lengths[-1]} words ({longer:g} times as many) the chain of "
            f"operations that wait for one another grows so many times: {grown}. At "
            f"{lengths[-1]} words the RNN's training waits {_waits(chains):.0f} times as long as "
            f"the Transformer's." + unmet(parts)
        ),
        numbers={
            "words": list(lengths),
            **{f"chain: {what}": some for what, some in chains.items()},
            **{f"FLOPs: {what}": some for what, some in work.items()},
            **{f"seconds, RNN / Transformer: {what}": some for what, some in ratios.items()},
        },
        pictures=(
            lines(
                chains,
                "The longest chain of operations",
                "words",
                "operations",
                xs=lengths,
                log_y=True,
            ),
            lines(
                ratios,
                "Time here (other machines differ)",
                "words",
                "RNN / Transformer",
                xs=lengths,
            ),
        ),
        tables=(_table(counts, lengths[-1]),),
    )


def _waits(chains: Mapping[str, Sequence[int]]) -> float:
    return chains["RNN, training"][-1] / chains["Transformer, training"][-1]


def _train(model: nn.Module, ids: Tensor, *, forced: bool) -> None:
    """Forward and backward over texts, of which each word is to be told from those before it."""
    logits = model(ids) if forced else _write(model, ids)
    F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).backward()
    model.zero_grad()


def _write(model: Any, ids: Tensor) -> Tensor:
    """Logits (B, T, V) of texts as long as ids (B, T), of which the first words alone are read."""
    word, state, written = ids[:, :1], model.start(len(ids)), []
    for _ in range(ids.shape[1]):
        logits, state = model.step(word, state)
        written.append(logits)
        word = logits.argmax(dim=-1)
    return torch.cat(written, dim=1)


class RecurrentWriter(nn.Module):
    """An LSTM that writes: each state is made of the last one."""

    def __init__(self, n_words: int, d: int) -> None:
        super().__init__()
        self.words, self.cell = nn.Embedding(n_words, d), nn.LSTMCell(d, d)
        self.to_logits = nn.Linear(d, n_words)

    def start(self, n_rows: int) -> tuple[Tensor, Tensor]:
        """Nothing is read yet: h and c (B, D)."""
        zeros = torch.zeros(n_rows, self.cell.hidden_size)
        return zeros, zeros

    def step(self, word: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Any]:
        """Words (B, 1) -> logits (B, 1, V) of the next, and the state after them."""
        state = self.cell(self.words(word[:, 0]), state)
        return self.to_logits(state[0])[:, None], state

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> logits (B, T, V); what needs no state is done for all words at once."""
        state, states = self.start(len(ids)), []
        for x in self.words(ids).unbind(1):
            state = self.cell(x, state)
            states.append(state[0])
        return self.to_logits(torch.stack(states, dim=1))


class AttentiveWriter(nn.Module):
    """A language model that keeps the keys and values of what it has read."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = model

    def start(self, n_rows: int) -> Any:
        """Nothing is read yet."""
        return self.model.start(NoMemory(n_rows))

    def step(self, word: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Words (B, 1) -> logits (B, 1, V) of the next, and the state after them."""
        x, state = self.model.read(word, NoMemory(len(word)), state)
        return self.model.logits(x), state

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> logits (B, T, V), at all positions at once."""
        return self.model.logits(self.model.states(ids))


def count(step: Step, ids: Tensor) -> _Counted:
    """The chain and the FLOPs of a step, in readable kernels, where no operation hides a loop."""
    with reference_only(), FlopCounterMode(display=False) as work, Chain() as waits:
        step(ids)
    return _Counted(waits.longest, work.get_total_flops())


class Chain(TorchDispatchMode):
    """Inside the block: how many of torch's operations wait for one another at most.

    Results are known by their memory, so that a view, and what is written in place, stand where
    that memory was last written. Views themselves do no work and count nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0
        self._written: dict[int, int] = {}
        self._held: list[Any] = []  # memory that is freed might come again as another tensor's

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called for every operation: do it, and note where in the chain its results stand."""
        out = func(*args, **(kwargs or {}))
        given = [self._written.get(key, 0) for key in map(_memory, _tensors((args, kwargs)))]
        place = max(given, default=0) + (not func.is_view)
        self.longest = max(self.longest, place)
        for tensor in _tensors(out):
            self._held.append(tensor)
            self._written[_memory(tensor)] = place
        return out


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _ratios(
    steps: Mapping[str, Step], texts: Mapping[int, Tensor], n_rounds: int
) -> dict[str, list[float]]:
    """The RNN's seconds by the Transformer's, which take turns: the median over rounds.

    The first round is not counted, in which torch makes ready what it keeps.
    """
    found: dict[str, list[float]] = {"training": [], "writing": []}
    for what, some in found.items():
        for ids in texts.values():
            rounds = [
                _seconds(steps[f"RNN, {what}"], ids) / _seconds(steps[f"Transformer, {what}"], ids)
                for _ in range(n_rounds + 1)
            ]
            some.append(median(rounds[1:]))
    return found


def _seconds(step: Step, ids: Tensor) -> float:
    start = time.perf_counter()
    step(ids)
    return time.perf_counter() - start


def _table(counts: Mapping[str, Sequence[_Counted]], length: int) -> Table:
    header = ["What", "Chain", "MFLOP", "FLOPs a link"]
    rows = [
        (what, f"{one.chain:,}", f"{one.flops / 1e6:,.1f}", f"{one.flops / one.chain:,.0f}")
        for what, (*_, one) in counts.items()
    ]
    return Table(f"Four texts of {length} words", header, rows)
