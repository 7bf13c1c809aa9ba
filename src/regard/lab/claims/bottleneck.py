"""A vector of fixed size forgets long sources of lengths it was trained on; attention does not.

Sutskever's LSTMs copy through one vector; they read in reverse, as their paper does. Beside them
stand the same LSTMs that may also look back at every state of the encoder, and Bahdanau's system.
All see the same sources of up to ten symbols for the same steps. An exact match falls with length
for everybody, since there is more to get wrong, so the verdict rests on the share of right tokens,
the ones before being given. A vector twice as wide, or four times the steps, lessens the fall; it
stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import NamedTuple

from regard.lab.result import Result, lines
from regard.lab.translators import ByLength, accuracy_by_length, exact_by_length, translator
from regard.models.presets import n_parameters
from regard.visual.tables import Table

SHORT, LONG = 4, 8
"""Sources of up to 4 symbols are short, those of 8 to 10 long."""
CLEARLY = 0.1
"""So much further must the share of right tokens fall from short to long without attention."""

SAME = "Sutskever's LSTMs with attention"
ATTENDING = {
    SAME: ("cs224n2019", "n_layers=2", "reverse_source=true"),
    "bahdanau2015": ("bahdanau2015",),
}


class _LearnedLengths(NamedTuple):
    exact: ByLength
    accuracy: ByLength
    n_parameters: int

    @property
    def fall(self) -> float:
        """How much the share of right tokens is lower in long sources than in short ones."""
        return _short(self.accuracy) - _long(self.accuracy)


def bottleneck(*, fixed_vector: bool = True, steps: int = 250, seed: int = 1) -> Result:
    """Right tokens by the length of the source; without ``fixed_vector`` all may look back."""
    first = "sutskever2014" if fixed_vector else "luong2015"
    systems = {first: (first, "reverse_source=true"), **ATTENDING}
    learned = {name: _learned(*system, steps=steps, seed=seed) for name, system in systems.items()}
    accuracy = {name: one.accuracy for name, one in learned.items()}
    exact = {name: one.exact for name, one in learned.items()}
    alone, *others = learned.values()
    verdict = alone.fall > max(one.fall for one in others) + CLEARLY
    by_length = "by the length of the source"
    return Result(
        name="bottleneck",
        verdict=verdict,
        finding=_finding(first, learned, verdict),
        numbers={
            **{f"right tokens, short: {name}": _short(x) for name, x in accuracy.items()},
            **{f"right tokens, long: {name}": _long(x) for name, x in accuracy.items()},
            **{f"exact match, short: {name}": _short(x) for name, x in exact.items()},
            **{f"exact match, long: {name}": _long(x) for name, x in exact.items()},
        },
        pictures=(
            lines(accuracy, f"Right tokens {by_length}", "symbols", "share"),
            lines(exact, f"Exact match {by_length}", "symbols", "share"),
        ),
        tables=(_table(learned, steps),),
    )


def _learned(recipe: str, *overrides: str, steps: int, seed: int) -> _LearnedLengths:
    small = ("data.world=copy", "n_train=4000", "d_model=64", f"max_steps={steps}", f"seed={seed}")
    quick = ("lr=1e-2", "warmup_steps=30", "batch_tokens=512", "average=0.0")
    run, data = translator(recipe, *small, *quick, *overrides)
    pairs = data.splits["test"]
    texts = run.translate([pair.source for pair in pairs])
    accuracy = accuracy_by_length(run, pairs)
    return _LearnedLengths(exact_by_length(pairs, texts), accuracy, n_parameters(run.model))


def _short(scores: ByLength) -> float:
    return fmean(score for length, score in scores.items() if length <= SHORT)


def _long(scores: ByLength) -> float:
    return fmean(score for length, score in scores.items() if length >= LONG)


def _finding(first: str, learned: Mapping[str, _LearnedLengths], verdict: bool) -> str:
    alone, same = (learned[name].accuracy for name in (first, SAME))
    seen = (
        f"From sources of up to {SHORT} symbols to those of {LONG} and more, the share of right "
        f"tokens goes from {100 * _short(alone):.0f} to {100 * _long(alone):.0f} % with {first}, "
        f"and from {100 * _short(same):.0f} to {100 * _long(same):.0f} % with {SAME}. "
    )
    if verdict:
        return seen + "All that was read must pass through one vector, however much that was."
    return seen + f"What {first} writes does not get clearly worse with length than the others'."


def _table(learned: Mapping[str, _LearnedLengths], steps: int) -> Table:
    rows = []
    for name, one in learned.items():
        shares = [
            share(by_length) for by_length in (one.accuracy, one.exact) for share in (_short, _long)
        ]
        rows.append((name, f"{one.n_parameters:,}", *(f"{100 * share:.1f} %" for share in shares)))
    header = ["Tokens, short", "Tokens, long", "Exact, short", "Exact, long"]
    return Table(f"After {steps} steps of copying", ["System", "Parameters", *header], rows)
