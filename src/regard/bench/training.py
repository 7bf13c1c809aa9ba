"""``regard bench train``: target tokens a second, padding not counted.

Our other systems do different work, so their speeds tell what a system costs, not how well it is
written. To give a measure, a translator of two plain GRUs without attention, of as many parameters
as ``bahdanau2015``, stands beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch

from regard.bench.contest import LENGTHS, Contender, Plan, Work, Workload, compete, grow
from regard.bench.measures import limit
from regard.bench.results import OURS, Bench, BenchRow
from regard.bench.run import BenchRequest, chosen, default, measure
from regard.bench.training_peers import PEERS, Peer, plain_gru
from regard.bench.work import (
    Sentences,
    our_training,
    packs,
    padded_training,
    sentences,
    shape,
    training_flops,
)
from regard.core.errors import ConfigError
from regard.models.presets import ModelSettings, build, n_parameters, resolve
from regard.models.settings import SequenceConfig, TransformerConfig
from regard.tasks.opening import pick_device

N_BATCHES = {"cpu": 4, "cuda": 8}
"""Batches of a round."""
UNIT = "target tokens/s"

MEASURE = "bahdanau2015"
SYSTEMS: Mapping[str, ModelSettings] = {
    "transformer, score additive": ModelSettings(score="additive"),
    "transformer, window local_p": ModelSettings(window="local_p"),
    "sutskever2014": ModelSettings(preset="sutskever2014"),
    "cs224n2019": ModelSettings(preset="cs224n2019"),
    MEASURE: ModelSettings(preset=MEASURE),
    "luong2015": ModelSettings(preset="luong2015"),
    "luong2015, window local_p": ModelSettings(preset="luong2015", window="local_p"),
    "graves2014": ModelSettings(preset="graves2014"),
    "cheng2016": ModelSettings(preset="cheng2016"),
}


def train_bench(
    asked: BenchRequest,
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
    field = TrainField(
        precisions=asked.precisions,
        who=chosen(asked.only, {peer.name: peer.package for peer in PEERS}),
        size=size or default("size", device),
        vocab=vocab or default("vocab", device),
        batch_tokens=batch_tokens or default("batch_tokens", device),
        device=device,
    )
    config = shape(field.size, field.vocab)  # a wrong size is told before anything is measured

    text = field.text(field.batch_tokens)

    def work(plan: Plan) -> list[BenchRow]:
        task = Workload(what="training", unit=UNIT, flops=training_flops(config, text))
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
class TrainField:
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


def _by_batch(
    field: TrainField, config: TransformerConfig
) -> Iterator[tuple[Workload, list[Contender]]]:
    for factor in (0.25, 0.5, 1, 2, 4):
        n = max(16, round(field.batch_tokens * factor))
        text = field.text(n)
        yield _point(field, config, text, "batch tokens", n)


def _by_length(field: TrainField) -> Iterator[tuple[Workload, list[Contender]]]:
    for length in LENGTHS:
        config = shape(field.size, field.vocab, max_len=length + 2)
        text = field.text(max(field.batch_tokens, length), length)
        yield _point(field, config, text, "length", length)


def _point(
    field: TrainField, config: TransformerConfig, text: Sentences, by: str, at: int
) -> tuple[Workload, list[Contender]]:
    flops = training_flops(config, text)
    task = Workload(what=f"training by {by}, {at:,}", unit=UNIT, flops=flops, by=by, at=at)
    return task, field.contenders(config, text)


def systems_rows(
    text: Sentences, plan: Plan, *, size: str, vocab: int, precision: str
) -> list[BenchRow]:
    """One row a system."""
    limits: dict[str, str] = {}

    def start(name: str) -> Work:
        config = system(name, size, vocab)
        work = our_training(config, text, device=plan.device, precision=precision)
        work.run()
        limits[name] = limit(work.run, plan.device)
        return replace(work, flops=training_flops(config, text))

    def plain() -> Work:
        with torch.device("meta"):
            wanted = n_parameters(build(system(MEASURE, size, vocab)))
        model = plain_gru(vocab, wanted)
        return padded_training(model, text.batches, device=plan.device, precision=precision)

    contenders = [Contender(OURS, name, precision, partial(start, name)) for name in SYSTEMS]
    contenders.append(Contender("torch.nn.GRU", "no attention", precision, plain))
    task = Workload(what="training, our other systems", unit="target tokens/s")
    rows = compete(task, contenders, plan)
    return [replace(row, limit=limits.get(row.how)) for row in rows]


def system(name: str, size: str, vocab: int) -> SequenceConfig:
    """A system of the table in a size."""
    settings = SYSTEMS[name].model_copy(update={"size": size})
    return resolve(settings, n_source_vocab=vocab, n_target_vocab=vocab, shared_vocab=True)
