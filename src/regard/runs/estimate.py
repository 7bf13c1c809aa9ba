"""What a run will cost, before it is begun: counted where it can be, tried out where it must be."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass

from regard.models.presets import n_parameters
from regard.runs.memory import memory_told, peak_memory
from regard.runs.prepared import Prepared
from regard.training.loop import load_rng, rng_tensors
from regard.training.update import CapturedUpdate, TrainingBatch, Update

WARM_UP, LEAST, TRIES, SECONDS = 4, 4, 16, 4.0
"""Steps that are not timed; steps that are, at least, at most, and for how long."""
SAMPLE = 100
"""Batches whose FLOPs are counted: sizes differ, and counting costs nothing."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Expected cost of a run."""

    parameters: int
    flops_per_token: float
    """Of training, for one target token and its share of the source; for encoders, one text, pair
    or guess (``Prepared.unit``)."""
    steps: int | None
    """None where only time or patience ends the run."""
    flops: float | None
    memory_bytes: int
    """The most that the process, or on a GPU the device, will hold."""
    seconds: float | None


def estimate(prepared: Prepared) -> Estimate:
    """Count the FLOPs of some batches and time training steps on a copy of the model."""
    stream = prepared.stream()
    batches = [stream.next() for _ in range(SAMPLE)]
    tokens = sum(batch.n_target_tokens for batch in batches)
    flops_per_token = sum(prepared.flops(batch) for batch in batches) / tokens
    settings = prepared.recipe.train
    flops_per_step = tokens / len(batches) * settings.accumulate * flops_per_token
    with memory_told(prepared.device):
        seconds_per_step = _timed(prepared, batches[: WARM_UP + TRIES]) * flops_per_step
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
    """Seconds of all validations."""
    validation = prepared.validation()
    began = time.perf_counter()
    validation.rehearse(prepared.model.eval())
    prepared.model.train()
    return (time.perf_counter() - began) * (steps // prepared.recipe.train.eval_every)


def _timed(prepared: Prepared, batches: Sequence[TrainingBatch]) -> float:
    """Seconds a FLOP over some training steps: batches differ in size. Leaves nothing behind."""
    rng = rng_tensors(prepared.device)
    model = copy.deepcopy(prepared.model).train()
    make = CapturedUpdate if prepared.captured else Update
    update = make(model, prepared.objective(), prepared.recipe.train, prepared.device)
    seconds, flops = 0.0, 0.0
    began = time.perf_counter()
    for n, batch in enumerate(batches):
        start = time.perf_counter()
        update([batch], 1e-6, lambda result: result.norm.item())  # waits for the device
        if n >= WARM_UP:
            seconds += time.perf_counter() - start
            flops += prepared.flops(batch)
        if n + 1 >= WARM_UP + LEAST and time.perf_counter() - began > SECONDS:
            break
    load_rng(rng, prepared.device)
    return seconds / flops
