"""What one training may cost, and how many steps that buys.

The number of steps is known before the first one, so that a falling learning rate reaches zero
just when the budget is spent.
"""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from typing import Literal

from regard.core.errors import ConfigError
from regard.runs.estimate import estimate
from regard.runs.prepared import Prepared
from regard.training.update import TrainingBatch

Unit = Literal["flops", "tokens", "min"]

COUNTED = 10_000
"""Steps that are added up one by one; a budget for more goes by their mean."""
ROOM = 0.95
"""Share of a time that steps are planned for: speed varies, and the clock stops without mercy."""

_BUDGET = re.compile(r"\s*(\d+\.?\d*(?:e[+-]?\d+)?)\s*(flops|tokens|min)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Budget:
    """An amount of FLOPs, of target tokens, or of minutes."""

    amount: float
    unit: Unit

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
    unit: Unit = found[2].lower()  # type: ignore[assignment]
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
    stream, spent = prepared.stream(), 0.0
    for steps in range(COUNTED):
        batches = [stream.next() for _ in range(prepared.recipe.train.accumulate)]
        cost = sum(_cost(batch, budget.unit, prepared) for batch in batches)
        if spent + cost > budget.amount:
            return steps
        spent += cost
    return int(COUNTED * budget.amount / spent)


def _cost(batch: TrainingBatch, unit: Unit, prepared: Prepared) -> float:
    return prepared.flops(batch) if unit == "flops" else batch.n_target_tokens


def _in_time(budget: Budget, prepared: Prepared, validations: int) -> int:
    """By the speed of some steps here and now."""
    # One validation a step, so that what they cost can be told from what steps cost.
    changes = {"max_minutes": budget.amount, "max_steps": 10**9, "eval_every": 1}
    train = prepared.recipe.train.model_copy(update=changes)
    recipe = prepared.recipe.model_copy(update={"train": train})
    expected = estimate(dataclasses.replace(prepared, recipe=recipe))
    seconds = 60 * budget.amount
    if not expected.steps or expected.seconds is None:
        return 0
    of_a_step = seconds / expected.steps
    of_a_validation = max(0.0, expected.seconds / expected.steps - of_a_step)
    return int((ROOM * seconds - validations * of_a_validation) / of_a_step)
