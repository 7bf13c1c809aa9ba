"""What a run will cost, before it is begun: counted where it can be, tried out where it must be."""

from __future__ import annotations

import copy
import resource
import statistics
import sys
import time
from dataclasses import dataclass

import torch

from regard.data.batches import Batch
from regard.models.presets import n_parameters
from regard.runs.prepare import Prepared
from regard.runs.translation import TokenLoss
from regard.training.precision import autocast
from regard.training.state import load_rng, rng_tensors

WARM_UP, TRIES, SECONDS = 2, 16, 4.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """Expected cost of a run."""

    parameters: int
    flops_per_token: float
    """Of training, for one target token and its share of the source."""
    steps: int | None
    """None where only time or patience ends the run."""
    flops: float | None
    memory_bytes: int
    """The most that the process, or on a GPU the device, will hold."""
    seconds: float | None


def estimate(prepared: Prepared) -> Estimate:
    """Count the FLOPs of some batches and time training steps on a copy of the model."""
    stream = prepared.stream()
    batches = [stream.next() for _ in range(WARM_UP + TRIES)]
    tokens = sum(batch.n_target_tokens for batch in batches)
    flops_per_token = sum(prepared.flops(batch) for batch in batches) / tokens
    settings = prepared.recipe.train
    flops_per_step = tokens / len(batches) * settings.accumulate * flops_per_token
    seconds_per_step = _timed(prepared, batches) * flops_per_step
    steps = settings.max_steps
    if settings.max_minutes is not None:
        in_time = int(60 * settings.max_minutes / seconds_per_step)
        steps = in_time if steps is None else min(steps, in_time)
    tokens_per_step = tokens / len(batches) * settings.accumulate
    return Estimate(
        parameters=n_parameters(prepared.model),
        flops_per_token=flops_per_token,
        steps=steps,
        flops=None if steps is None else steps * tokens_per_step * flops_per_token,
        memory_bytes=peak_memory(prepared.device),
        seconds=None if steps is None else steps * seconds_per_step + _validating(prepared, steps),
    )


def _validating(prepared: Prepared, steps: int) -> float:
    """Seconds of all validations, but for their translations, whose length nobody knows yet."""
    began = time.perf_counter()
    prepared.validation().loss(prepared.model.eval())
    prepared.model.train()
    return (time.perf_counter() - began) * (steps // prepared.recipe.train.eval_every)


def peak_memory(device: torch.device) -> int:
    """The most memory held so far, in bytes: the device's on a GPU, else the process's."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024  # kilobytes everywhere else
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _timed(prepared: Prepared, batches: list[Batch]) -> float:
    """Median seconds a FLOP of training steps: batches differ in size. Leaves nothing behind."""
    rng = rng_tensors(prepared.device)
    model = copy.deepcopy(prepared.model).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-6, fused=True)
    loss_of = TokenLoss(prepared.recipe.train.label_smoothing)
    times: list[float] = []
    began = time.perf_counter()
    for batch in batches:
        start = time.perf_counter()
        with autocast(prepared.device, prepared.recipe.train.precision):
            loss = loss_of(model, batch.to(prepared.device)) / batch.n_target_tokens
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        loss.item()  # wait for the device
        times.append((time.perf_counter() - start) / prepared.flops(batch))
        if len(times) > WARM_UP and time.perf_counter() - began > SECONDS:
            break
    load_rng(rng, prepared.device)
    return statistics.median(times[WARM_UP:])
