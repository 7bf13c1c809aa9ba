"""Our own side of the training benchmark: the very update that ``regard train`` makes."""

from __future__ import annotations

import torch

from regard.bench.contest import Work
from regard.bench.shapes import Sentences
from regard.bench.steps import CLIP, LABEL_SMOOTHING, LR
from regard.data.batch import Batch
from regard.data.pair_batches import packed_stream
from regard.models.base import SequenceConfig
from regard.models.presets import build, n_parameters
from regard.runs.objective import TokenLoss
from regard.runs.prepared import SHORT
from regard.training.captured import CapturedUpdate
from regard.training.settings import TrainSettings
from regard.training.update import Update


def packs(config: SequenceConfig, device: torch.device) -> bool:
    """Whether a training there packs its batches, compiles its kernels and records its updates."""
    return device.type == "cuda" and config.packs


def our_training(
    config: SequenceConfig, text: Sentences, *, device: torch.device, precision: str
) -> Work:
    """Train on the sentences once, in batches of our own making."""
    torch.manual_seed(0)
    model = build(config).to(device).train()
    fast = packs(config, device)
    settings = TrainSettings.model_validate(
        {
            "max_steps": SHORT,
            "precision": precision,
            "label_smoothing": LABEL_SMOOTHING,
            "clip": CLIP,
        }
    )
    make = CapturedUpdate if fast else Update
    update = make(model, TokenLoss(settings, compiled=fast), settings, device)
    batches = _packed(text) if fast else text.batches
    here = [batch.to(device) for batch in batches]
    n_tokens = sum(batch.n_target_tokens for batch in here)
    assert n_tokens == text.n_target_tokens, "everybody learns from the same sentences"

    def run() -> float:
        for batch in here:
            update([batch], LR)
        return n_tokens

    return Work(run, n_parameters(model))


def _packed(text: Sentences) -> list[Batch]:
    """All sentences once, end to end."""
    stream = packed_stream(text.examples, batch_tokens=text.batch_tokens, seed=0)
    return [stream.next() for _ in range(stream.n_batches)]
