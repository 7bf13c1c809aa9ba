"""Without positions a Transformer cannot tell the order of its source; told in any way, it can.

Self-attention sees a set, so without positions the encoder hands on a bag of symbols. Copying needs
their order; sorting does not. The decoder is another matter: its causal mask tells it how much is
written, so what is lost is the order of the source alone. The same small Transformer is trained for
the same steps with each way of telling the order: the number t appended, sinusoids or learned
vectors, added to the embedding or concatenated with it (a projection brings the width back).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import factorial, prod
from statistics import fmean
from typing import NamedTuple

from regard.core.registry import Registry
from regard.data.records import Pair
from regard.evaluation.text_metrics import exact_match
from regard.lab.result import Result, lines, percent, share_bars
from regard.lab.translators import ByLength, exact_by_length, toy_translator
from regard.models.presets import n_parameters
from regard.visual.tables import Table

WAYS: Registry[tuple[str, ...]] = Registry("way to tell positions")
"""Each with the settings that ask for it."""
WAYS.add("append t")(("positions=index",))
WAYS.add("sinusoidal, added")(("positions=sinusoidal", "join=add"))
WAYS.add("sinusoidal, concatenated")(("positions=sinusoidal", "join=concat"))
WAYS.add("learned, added")(("positions=learned", "join=add", "model.max_len=32"))
WAYS.add("learned, concatenated")(("positions=learned", "join=concat", "model.max_len=32"))


class _Told(NamedTuple):
    """What a Transformer learned that was told positions in one way."""

    exact: float
    lengths: ByLength
    n_parameters: int
    guess: float
    """The exact match of copying a bag of symbols in an order that is guessed."""


def positions(
    *, task: str = "copy", ways: Sequence[str] = tuple(WAYS), steps: int = 400, seed: int = 1
) -> Result:
    """Exact match without positions and in every way; ``task="sort"`` has no need of order."""
    settings = {"none": ("positions=none",), **{way: WAYS[way] for way in ways}}
    told = {way: _told(task, some, steps, seed) for way, some in settings.items()}
    exact = {way: one.exact for way, one in told.items()}
    worst = min(ways, key=lambda way: exact[way])
    verdict = exact["none"] < exact[worst] / 2
    why = (
        f"Guessing the order of a bag of symbols gives {percent(told['none'].guess)}. The ways "
        "differ in how soon they are learned; so few steps say little about which is best in the "
        "end."
        if verdict
        else "Positions matter little where the task needs no order."
    )
    return Result(
        name="positions",
        verdict=verdict,
        finding=(
            f"Without positions {percent(exact['none'])} of the held-out sources come out right; "
            f"in the worst way of telling them ({worst}) {percent(exact[worst])}. {why}"
        ),
        numbers={
            **{f"exact match: {way}": share for way, share in exact.items()},
            "exact match: the order guessed": told["none"].guess,
        },
        pictures=(
            share_bars(exact, title=f"Exact match on {task}", digits=1),
            lines(
                {way: one.lengths for way, one in told.items()},
                "By the length of the source",
                "symbols",
                "exact match",
            ),
        ),
        tables=(
            Table(
                f"The same Transformer after {steps} steps of {task}",
                ["Positions", "Exact match", "Parameters"],
                [
                    (way, f"{100 * one.exact:.1f} %", f"{one.n_parameters:,}")
                    for way, one in told.items()
                ],
            ),
        ),
    )


def _told(task: str, settings: Sequence[str], steps: int, seed: int) -> _Told:
    run, data = toy_translator(task, *settings, steps=steps, seed=seed)
    pairs = data.splits["test"]
    texts = run.translate([pair.source for pair in pairs])
    return _Told(
        exact=exact_match(texts, [pair.target for pair in pairs]),
        lengths=exact_by_length(pairs, texts),
        n_parameters=n_parameters(run.model),
        guess=fmean(map(_guess, pairs)),
    )


def _guess(pair: Pair) -> float:
    """One over the number of orders in which the symbols of a source can stand."""
    counts = Counter(pair.source.split())
    return prod(map(factorial, counts.values())) / factorial(counts.total())
