"""Bahdanau's decoder step by step, and how much one of its tensors depends on another."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from regard.models.recurrent import BahdanauDecoder, RecurrentConfig, RecurrentTranslator


class Steps(NamedTuple):
    """What the decoder computed: one entry a step, but for the keys. Autograd ties it together."""

    keys: Tensor
    """The score's own projection of the encoder's states."""
    words: list[Tensor]
    """The words' part of gates and state."""
    contexts: list[Tensor]
    before: list[Tensor]
    """The state that asks: the query."""
    after: list[Tensor]
    logits: list[Tensor]


def bahdanau_steps(n_steps: int, seed: int) -> Steps:
    """A run of an untrained decoder over random words, watched."""
    config = RecurrentConfig(
        decoder="bahdanau",
        cell="gru",
        bidirectional=True,
        score="additive",
        d_model=8,
        n_source_vocab=10,
        n_target_vocab=10,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = RecurrentTranslator(config).double()
        source, target = torch.randint(1, 10, (1, 5)), torch.randint(1, 10, (1, n_steps))
    decoder = cast("BahdanauDecoder", model.decoder)
    cells: list[tuple[Any, ...]] = []
    decoder.cell.register_forward_hook(lambda _cell, given, out: cells.append((*given, out)))
    memory = model.encode(source)
    logits, _ = decoder(target, memory, model.start(memory))
    assert memory.keys_values is not None, "the configuration sees to it"
    words, contexts, before, after = (list(column) for column in zip(*cells, strict=True))
    return Steps(memory.keys_values.k, words, contexts, before, after, list(logits.unbind(1)))


def dependence(of: Tensor, by: Tensor) -> float:
    """The norm of the Jacobian ∂of/∂by; 0 where nothing leads from one to the other."""
    rows = [
        torch.autograd.grad(value, by, retain_graph=True, allow_unused=True)[0]
        for value in of.flatten()
    ]
    found = [row for row in rows if row is not None]
    return torch.stack(found).norm().item() if found else 0.0
