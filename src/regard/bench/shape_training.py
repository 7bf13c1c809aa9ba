"""Training at sizes that others are known by: what is learned, by whom, and how it is counted.

All contenders learn from the same random batches. Ours makes the very updates of ``regard train``;
a peer and its loss are compiled together, as nanoGPT does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.bench.contest import BenchRequest, Contender, Work, Workload, compete
from regard.bench.results import OURS, Bench
from regard.bench.training_peers import Peer
from regard.bench.updates import our_updates, plain_updates
from regard.core.errors import ConfigError
from regard.data.batch import Batch
from regard.tasks.opening import pick_device
from regard.training.losses import Objective
from regard.training.settings import TrainSettings

N_BATCHES = 4
"""Batches of a round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeBench:
    """What is learned, by whom."""

    unit: str
    """What is counted, in the plural."""
    shape: Any
    """The sizes of a model and of its batches: a data class with ``n_units`` of a round, and
    ``resized(vocab, batch_tokens)``."""
    on_cpu: Mapping[str, int]
    """Sizes of the shape that are other ones where there is no GPU."""
    batch: Callable[[Any, torch.Generator], Batch]
    inputs: Callable[[Batch], tuple[Tensor, Tensor]]
    """What a peer reads, and what it should predict."""
    ours: Mapping[str, Callable[[Any], tuple[nn.Module, float]]]
    """In which way -> of a shape, our model, and FLOPs of training for one unit. Peers are charged
    those of the first."""
    objective: Callable[[TrainSettings, bool], Objective]
    """(settings, compiled) -> our loss."""
    peers: tuple[Peer, ...]

    def batches(self, shape: Any) -> list[Batch]:
        """Those of a round; the same at each call."""
        rng = torch.Generator().manual_seed(0)
        return [self.batch(shape, rng) for _ in range(N_BATCHES)]


class WithLoss(nn.Module):
    """A peer and its loss in one module, so that both are compiled together."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, given: Tensor, targets: Tensor) -> Tensor:
        """What the peer reads, targets (…) -> the mean over all targets but those of -100."""
        out = self.inner(given)
        logits = getattr(out, "logits", out)  # where a model of transformers has them
        return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def train_shape(
    asked: BenchRequest,
    name: str,
    bench: ShapeBench,
    *,
    vocab: int | None = None,
    batch_tokens: int | None = None,
) -> Bench:
    """Everybody on the same batches, of the shape's sizes where no others are asked for."""
    device = pick_device(asked.device)
    if asked.long:
        raise ConfigError("--long goes without --shape: a shape has its own length and batch")
    if "int8" in asked.precisions:
        raise ConfigError("training takes fp32 or bf16, not int8")
    shape = bench.shape if device.type == "cuda" else replace(bench.shape, **bench.on_cpu)
    shape = shape.resized(vocab, batch_tokens)
    who = asked.chosen({peer.name: peer.package for peer in bench.peers})
    found = [
        contender
        for precision in asked.precisions
        for contender in contenders(bench, shape, device, precision)
        if contender.who in who
    ]
    plan = asked.plan()
    rows = compete(Workload(what=f"training {name}", unit=f"{bench.unit}/s"), found, plan)
    return plan.bench(rows, {"shape": asdict(shape), bench.unit: shape.n_units})


def contenders(
    bench: ShapeBench, shape: Any, device: torch.device, precision: str
) -> Iterator[Contender]:
    """Ourselves first, in each of our ways, then the peers; compiled on a GPU."""
    on_gpu = device.type == "cuda"
    batches = bench.batches(shape)

    def counted(work: Work, flops: float) -> Work:
        """In units that are read."""
        return replace(work, run=lambda: work.run() and shape.n_units, flops=flops)

    def loss(forward: Callable[..., Tensor], batch: Batch) -> Tensor:
        return forward(*bench.inputs(batch))

    def ours(way: str) -> Work:
        torch.manual_seed(0)
        model, flops = bench.ours[way](shape)
        how = {"max_steps": 1, "precision": precision, "label_smoothing": 0.0}
        settings = TrainSettings.model_validate(how)
        objective = bench.objective(settings, on_gpu)
        work = our_updates(model, objective, batches, settings, device, captured=on_gpu)
        return counted(work, flops)

    def theirs(peer: Peer, compiled: bool) -> Work:
        torch.manual_seed(0)
        model, how = WithLoss(peer.make(shape)), {"compiled": compiled, "dynamic": False}
        work = plain_updates(model, batches, loss, device, precision, **how)
        first, *_ = bench.ours.values()
        return counted(work, first(shape)[1])

    for way in bench.ours:
        how = ", ".join(filter(None, (way, "compiled" if on_gpu else "")))
        yield Contender(OURS, how, precision, partial(ours, way))
    for peer in bench.peers:
        for way in reversed(peer.ways(device)):
            yield Contender(peer.name, way, precision, partial(theirs, peer, bool(way)))
