"""What a run will cost before it is begun, and how many steps a budget buys.

Counted where it can be, tried out where it must be. The number of steps is known before the first
one, so that a falling learning rate reaches zero just when the budget is spent.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
import re
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

from regard.core.errors import ConfigError
from regard.data.batch import Batch
from regard.data.worlds.registry import WORLDS
from regard.models.presets import n_parameters
from regard.tasks.base import Prepared
from regard.tasks.opening import memory_told, peak_memory
from regard.tasks.recipe import Recipe
from regard.training.update import CapturedUpdate, Update

WARM_UP, LEAST, TRIES, SECONDS = 4, 4, 16, 4.0
"""Steps that are not timed; steps that are, at least, at most, and for how long. Of slow ones on a
CPU fewer will do: one that is not timed and one that is."""
COPIED = 1000
"""Records whose copy tells how much memory others take."""

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


def enough_to_estimate(recipe: Recipe) -> tuple[Recipe, float]:
    """A recipe that draws no more of a world than tells the cost, and how many times as much the
    recipe itself draws.
    """
    data = recipe.data
    enough = None if data.world is None else WORLDS[data.world].enough
    if enough is None or data.n_train is None or data.n_train <= enough:
        return recipe, 1.0
    fewer = data.model_copy(update={"n_train": enough})
    return recipe.model_copy(update={"data": fewer}), data.n_train / enough


def estimate(prepared: Prepared, times: float = 1.0) -> Estimate:
    """Count the FLOPs of some batches and time training steps on a copy of the model.

    It will be trained on ``times`` as many records as there are.
    """
    stream = prepared.stream()
    batches = [stream.next() for _ in range(SAMPLE)]
    tokens = sum(batch.count for batch in batches)
    flops_per_token = sum(prepared.flops(batch) for batch in batches) / tokens
    settings = prepared.recipe.train
    flops_per_step = tokens / len(batches) * settings.accumulate * flops_per_token
    with memory_told(prepared.device):
        seconds_per_step = _timed(prepared, batches[: WARM_UP + TRIES]) * flops_per_step
    steps = settings.max_steps
    if settings.max_minutes is not None:
        in_time = int(60 * settings.max_minutes / seconds_per_step)
        steps = in_time if steps is None else min(steps, in_time)
    seconds = None
    if steps is not None:
        validating = prepared.validation().rehearse(prepared.model.eval())
        prepared.model.train()
        seconds = steps * seconds_per_step + (steps // settings.eval_every) * validating
    memory = peak_memory(prepared.device)
    if times > 1 and prepared.device.type == "cpu":
        memory += round((times - 1) * _memory_of(prepared.learned_from()))
    return Estimate(
        parameters=n_parameters(prepared.model),
        flops_per_token=flops_per_token,
        steps=steps,
        flops=None if steps is None else steps * flops_per_step,
        memory_bytes=memory,
        seconds=seconds,
    )


def _timed(prepared: Prepared, batches: Sequence[Batch]) -> float:
    """Seconds a FLOP over some training steps: batches differ in size. Leaves nothing behind."""
    model = copy.deepcopy(prepared.model).train()
    make = CapturedUpdate if prepared.captured else Update
    update = make(model, prepared.objective(), prepared.recipe.train, prepared.device)
    # What is compiled, or recorded, is slow at first and fast then.
    steady = prepared.device.type == "cpu" and not prepared.compiled
    warming, seconds, flops, n_timed = 0.0, 0.0, 0.0, 0
    for n, batch in enumerate(batches):
        start = time.perf_counter()
        update([batch], 1e-6, lambda result: result.norm.item())  # waits for the device
        spent = time.perf_counter() - start
        if n < WARM_UP and not (steady and warming > SECONDS / 2):
            warming += spent
            continue
        seconds, flops, n_timed = seconds + spent, flops + prepared.flops(batch), n_timed + 1
        enough = n_timed >= LEAST and warming + seconds > SECONDS
        if enough or (steady and seconds > SECONDS):
            break
    return seconds / flops


def _memory_of(records: Sequence[Any]) -> float:
    """Bytes that records take: what a copy of some of them does."""
    some = records[:COPIED]
    if not some:
        return 0.0
    written = pickle.dumps(some)
    tracemalloc.start()
    copied = pickle.loads(written)
    taken, _peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken * len(records) / len(copied)


BudgetUnit = Literal["flops", "tokens", "min"]

COUNTED = 10_000
"""Steps that are added up one by one; a budget for more goes by their mean."""
ROOM = 0.95
"""Share of a time that steps are planned for: speed varies, and the clock stops without mercy."""
_BUDGET = re.compile(r"\s*(\d+\.?\d*(?:e[+-]?\d+)?)\s*(flops|tokens|min)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Budget:
    """An amount of FLOPs, of target tokens, or of minutes."""

    amount: float
    unit: BudgetUnit

    def share(self, part: float) -> Budget:
        """A part of it."""
        return Budget(self.amount * part, self.unit)

    @property
    def minutes(self) -> float | None:
        """Where the clock decides: when to stop, whatever the steps."""
        return self.amount if self.unit == "min" else None

    def __str__(self) -> str:
        if self.unit == "min":
            return f"{self.amount:.12g}min"
        digits, power = f"{self.amount:.11e}".split("e")
        return f"{digits.rstrip('0').rstrip('.')}e{int(power)}{self.unit}"


def parse_budget(text: str) -> Budget:
    """A budget as a user writes it.

    >>> parse_budget("3e12flops"), str(parse_budget("10 min"))
    (Budget(amount=3000000000000.0, unit='flops'), '10min')
    """
    found = _BUDGET.fullmatch(text)
    amount = float(found[1]) if found else 0.0
    if found is None or not 0 < amount < math.inf:
        raise ConfigError(
            f"a budget is an amount above 0 and its unit, such as 3e12flops, 5e6tokens or 10min, "
            f"but found {text!r}"
        )
    unit: BudgetUnit = found[2].lower()  # type: ignore[assignment]
    return Budget(amount, unit)


def steps_within(budget: Budget, prepared: Prepared, *, validations: int) -> int:
    """Steps of this very training, from its first batch on, that stay within the budget.

    Validations are free where FLOPs or tokens are counted, but take their time from a clock.
    """
    if budget.unit == "min":
        steps = _in_time(budget, prepared, validations)
    else:
        steps = _by_count(budget, prepared)
    if steps < 1:
        raise ConfigError(
            f"{budget} buys not one step of {prepared.recipe.model.preset}; raise the budget "
            "(where a learning rate is tried out, a part of it), or lower train.batch_tokens"
        )
    return steps


def _by_count(budget: Budget, prepared: Prepared) -> int:
    """FLOPs and tokens are known for every batch, and batches come in a known order."""
    cost_of = prepared.flops if budget.unit == "flops" else attrgetter("count")
    stream, spent = prepared.stream(), 0.0
    for steps in range(COUNTED):
        cost = sum(cost_of(stream.next()) for _ in range(prepared.recipe.train.accumulate))
        if spent + cost > budget.amount:
            return steps
        spent += cost
    return int(COUNTED * budget.amount / spent)


def changed(recipe: Recipe, **train: Any) -> Recipe:
    """The same recipe but for some settings of its training."""
    return recipe.model_copy(update={"train": recipe.train.model_copy(update=train)})


def _in_time(budget: Budget, prepared: Prepared, validations: int) -> int:
    """By the speed of some steps here and now."""
    # One validation a step, so that what they cost can be told from what steps cost.
    changes = {"max_minutes": budget.amount, "max_steps": 10**9, "eval_every": 1}
    recipe = changed(prepared.recipe, **changes)
    expected = estimate(dataclasses.replace(prepared, recipe=recipe))
    seconds = 60 * budget.amount
    if not expected.steps or expected.seconds is None:
        return 0
    of_a_step = seconds / expected.steps
    of_a_validation = max(0.0, expected.seconds / expected.steps - of_a_step)
    return int((ROOM * seconds - validations * of_a_validation) / of_a_step)
