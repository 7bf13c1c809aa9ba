"""A model of a few lines for tests of searches: logits are looked up, not computed.

It speaks ``regard.decoding.protocol`` in float64, knows the whole prefix of each row (so a state
that was reordered wrongly gives other logits), refuses a state that belongs to another source
than the memory beside it, and counts what it was asked.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import torch

from regard.text.specials import BEGIN_ID, END_ID, PAD_ID

Table = Callable[[tuple[int, ...], tuple[int, ...]], torch.Tensor]
"""Source without padding, prefix from the begin token on -> logits (V,)."""


@dataclass(frozen=True)
class Memory:
    source: torch.Tensor
    log: list[int]

    def select(self, rows):
        self.log.append(len(rows))
        return Memory(self.source[rows], self.log)


@dataclass(frozen=True)
class State:
    source: torch.Tensor
    prefix: torch.Tensor

    def select(self, rows):
        return State(self.source[rows], self.prefix[rows])


class TableModel:
    def __init__(self, table: Table):
        self.table = table
        self.n_encoded = 0
        self.memory_selects: list[int] = []
        """Rows of each selection from a memory."""
        self.rows: list[int] = []
        """Rows of each step."""

    def __call__(self, source, target):
        return torch.stack(
            [self._look_up(source, target[:, : t + 1]) for t in range(target.shape[1])], dim=1
        )

    def encode(self, source):
        assert torch.is_inference_mode_enabled()
        self.n_encoded += 1
        return Memory(source, self.memory_selects)

    def start(self, memory):
        return State(memory.source, torch.empty(len(memory.source), 0, dtype=torch.int64))

    def step(self, ids, memory, state):
        assert torch.is_inference_mode_enabled()
        assert torch.equal(memory.source, state.source)
        self.rows.append(len(ids))
        prefix = torch.cat((state.prefix, ids[:, None]), dim=1)
        return self._look_up(memory.source, prefix), State(state.source, prefix)

    def _look_up(self, source, prefix):
        without_pad = [tuple(i for i in row if i != PAD_ID) for row in source.tolist()]
        rows = zip(without_pad, prefix.tolist(), strict=True)
        return torch.stack([self.table(s, tuple(p)) for s, p in rows])


def random_table(seed: int, *, n_vocab: int, end: float = 0.0, spread: float = 1.5) -> Table:
    """Logits that are different for each source and prefix; ``end`` is added for the end token."""
    known: dict[tuple[tuple[int, ...], tuple[int, ...]], torch.Tensor] = {}

    def table(source, prefix):
        if (source, prefix) not in known:
            key = zlib.crc32(repr((seed, source, prefix)).encode())
            rng = torch.Generator().manual_seed(key)
            logits = spread * torch.randn(n_vocab, generator=rng, dtype=torch.float64)
            logits[END_ID] += end
            known[source, prefix] = logits
        return known[source, prefix]

    return table


def fixed_table(*probs: float) -> Table:
    """The same probabilities at each step, in the order of the ids."""
    logits = torch.tensor(probs, dtype=torch.float64).log()
    return lambda _source, _prefix: logits


def sources(*rows: tuple[int, ...]) -> torch.Tensor:
    """Rows of ids, padded to one length."""
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[PAD_ID] * (longest - len(row))] for row in rows])


def log_prob_by_forward(model, source_row: tuple[int, ...], hypothesis) -> float:
    """What a plain, teacher-forced forward says of a hypothesis."""
    written = [*hypothesis.ids, *([END_ID] if hypothesis.finished else [])]
    target = torch.tensor([[BEGIN_ID, *written[:-1]]])
    logits = model(torch.tensor([source_row]), target)[0]
    log_probs = logits.log_softmax(dim=-1)
    return sum(log_probs[t, token].item() for t, token in enumerate(written))
