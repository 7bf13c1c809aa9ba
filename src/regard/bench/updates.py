"""What training benchmarks share: a model's shape, and updates.

An update is written once as every reader would write it, for all peers; ours is the very one that
``regard train`` makes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.bench.contest import Work
from regard.core.settings import parse
from regard.data.batch import Batch
from regard.models.presets import ModelSettings, n_parameters, resolve
from regard.models.settings import TransformerConfig
from regard.training.losses import Objective
from regard.training.settings import TrainSettings
from regard.training.update import CapturedUpdate, Update, autocast

LENGTHS = (128, 512, 2048, 8192, 32768)
"""Of texts, in a series of longer and longer ones."""
DEFAULTS = {
    "cpu": {"size": "small", "vocab": 8000, "batch_tokens": 2048},
    "cuda": {"size": "base", "vocab": 32000, "batch_tokens": 24576},
}
"""What is trained where nothing is asked for."""

LR, CLIP = 1e-4, 1.0


def default(name: str, device: torch.device) -> Any:
    """A default of ``DEFAULTS``."""
    return DEFAULTS.get(device.type, DEFAULTS["cpu"])[name]


def shape(size: str, vocab: int, *, max_len: int = 512) -> TransformerConfig:
    """The Transformer that every contender has to be."""
    settings = parse(ModelSettings, {"size": size, "max_len": max_len}, "model")
    config = resolve(settings, n_source_vocab=vocab, n_target_vocab=vocab, shared_vocab=True)
    assert isinstance(config, TransformerConfig)
    return config


def plain_updates(
    model: nn.Module,
    batches: Sequence[Batch],
    loss: Callable[[Callable[..., Tensor], Batch], Tensor],
    device: torch.device,
    precision: str,
    *,
    compiled: bool,
    dynamic: bool,
) -> Work:
    """One update a batch, as every reader would write it."""
    model = model.to(device).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=LR, betas=(0.9, 0.98), eps=1e-9, fused=True)
    forward: Callable[..., Tensor] = torch.compile(model, dynamic=dynamic) if compiled else model

    def update(batch: Batch) -> None:
        with autocast(device, precision):
            mean = loss(forward, batch)
        mean.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return _updates(update, model, batches, device)


def our_updates(
    model: nn.Module,
    objective: Objective,
    batches: Sequence[Batch],
    settings: TrainSettings,
    device: torch.device,
    *,
    captured: bool,
) -> Work:
    """One update a batch, as ``regard train`` makes it."""
    make = CapturedUpdate if captured else Update
    update = make(model.to(device).train(), objective, settings, device)
    return _updates(lambda batch: update([batch], LR), model, batches, device)


def _updates(
    update: Callable[[Batch], object],
    model: nn.Module,
    batches: Sequence[Batch],
    device: torch.device,
) -> Work:
    """All batches once; the unit is a target token."""
    here = [batch.to(device) for batch in batches]
    n_tokens = sum(batch.count for batch in here)

    def run() -> float:
        for batch in here:
            update(batch)
        return n_tokens

    return Work(run, learned(model))


def learned(model: nn.Module) -> int:
    """Parameters that are learned; tables of positions that are kept as such are not."""
    frozen = sum(p.numel() for p in model.parameters() if not p.requires_grad)
    return n_parameters(model) - frozen
