"""``regard bench train``: target tokens a second, padding not counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch

from regard.bench.contest import Contender, Plan, Task, Work, compete
from regard.bench.growth import LENGTHS, grow
from regard.bench.ours import our_training, packs
from regard.bench.peers.listed import PEERS, Peer, chosen
from regard.bench.rows import OURS, Bench, Row
from regard.bench.run import Asked, default, measure
from regard.bench.shapes import Sentences, sentences, shape, training_flops
from regard.bench.steps import padded_training
from regard.bench.systems import systems_rows
from regard.core.errors import ConfigError
from regard.models.transformer import TransformerConfig
from regard.runs.device import pick_device

N_BATCHES = {"cpu": 4, "cuda": 8}
"""Batches of a round."""
UNIT = "target tokens/s"


def train_bench(
    asked: Asked,
    *,
    size: str | None = None,
    vocab: int | None = None,
    batch_tokens: int | None = None,
    systems: bool = False,
) -> Bench:
    """Everybody on the same sentences; with ``long`` on longer ones and larger batches too."""
    device = pick_device(asked.device)
    if "int8" in asked.precisions:
        raise ConfigError("training takes fp32 or bf16, not int8")
    field = Field(
        precisions=asked.precisions,
        who=chosen(asked.only, {peer.name: peer.package for peer in PEERS}),
        size=size or default("size", device),
        vocab=vocab or default("vocab", device),
        batch_tokens=batch_tokens or default("batch_tokens", device),
        device=device,
    )
    config = shape(field.size, field.vocab)  # a wrong size is told before anything is measured

    text = field.text(field.batch_tokens)

    def work(plan: Plan) -> list[Row]:
        task = Task(what="training", unit=UNIT, flops=training_flops(config, text))
        rows = compete(task, field.contenders(config, text), plan)
        if systems:
            first = field.precisions[0]
            rows += systems_rows(text, plan, size=field.size, vocab=field.vocab, precision=first)
        if asked.long:
            rows += grow(_by_batch(field, config), plan)
            rows += grow(_by_length(field), plan)
        return rows

    facts = {
        "shape": config.model_dump(include={"d_model", "n_layers", "n_heads", "d_ff", "dropout"}),
        "vocab": field.vocab,
        "batch_tokens": field.batch_tokens,
        "sentences": len(text.examples),
        "target_tokens": text.n_target_tokens,
        "padding_of_padded_batches": text.padding,
    }
    return measure(asked, work, facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Who takes part, and in what."""

    precisions: tuple[str, ...]
    who: set[str]
    size: str
    vocab: int
    batch_tokens: int
    device: torch.device

    def text(self, batch_tokens: int, length: int | None = None) -> Sentences:
        """The sentences of a round."""
        n_batches = N_BATCHES.get(self.device.type, 4)
        return sentences(self.vocab, batch_tokens=batch_tokens, n_batches=n_batches, length=length)

    def contenders(self, config: TransformerConfig, text: Sentences) -> list[Contender]:
        """Ourselves first, then the peers, in each precision."""
        found = []
        for precision in self.precisions:
            if OURS in self.who:
                start = partial(our_training, config, text, device=self.device, precision=precision)
                how = "packed, compiled" if packs(config, self.device) else ""
                found.append(Contender(OURS, how, precision, start))
            for peer in PEERS:
                if peer.name in self.who:
                    found += _ways(peer, config, text, self.device, precision)
        return found


def _ways(
    peer: Peer, config: TransformerConfig, text: Sentences, device: torch.device, precision: str
) -> list[Contender]:
    """A peer as it comes and, where that is usual, compiled."""

    def start(compiled: bool) -> Work:
        torch.manual_seed(0)
        return padded_training(
            peer.make(config), text.batches, device=device, precision=precision, compiled=compiled
        )

    ways = (False, True) if peer.compiles and device.type == "cuda" else (False,)
    return [
        Contender(peer.name, "compiled" if way else "", precision, partial(start, way))
        for way in ways
    ]


def _by_batch(field: Field, config: TransformerConfig) -> Iterator[tuple[Task, list[Contender]]]:
    for factor in (0.25, 0.5, 1, 2, 4):
        n = max(16, round(field.batch_tokens * factor))
        text = field.text(n)
        yield _point(field, config, text, "batch tokens", n)


def _by_length(field: Field) -> Iterator[tuple[Task, list[Contender]]]:
    for length in LENGTHS:
        config = shape(field.size, field.vocab, max_len=length + 2)
        text = field.text(max(field.batch_tokens, length), length)
        yield _point(field, config, text, "length", length)


def _point(
    field: Field, config: TransformerConfig, text: Sentences, by: str, at: int
) -> tuple[Task, list[Contender]]:
    flops = training_flops(config, text)
    task = Task(what=f"training by {by}, {at:,}", unit=UNIT, flops=flops, by=by, at=at)
    return task, field.contenders(config, text)
