"""Sinusoids, defined at every position, still translate what is longer than training showed.

Learned positions are a table, and a text that is longer than the table is refused. A longer table
does not help: its last rows were never trained. Sinusoids need no table. But that a position has a
code does not mean that the model has learned what to do with it. Copying is learned from sources of
up to ten symbols and then tried on longer ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from regard.core.errors import ShapeError
from regard.data.records import Pair
from regard.data.worlds import toys
from regard.evaluation.text_metrics import exact_match
from regard.lab.result import Result, lines, percent
from regard.lab.translators import ByLength, accuracy_by_length, exact_by_length, toy_translator
from regard.tasks.translator import Run
from regard.visual.tables import Table

SHOWN = 10
"""Symbols of the longest source in training."""
TABLE = f"learned, {SHOWN + 1} places"
SINUSOIDAL = "sinusoidal"
WAYS = {
    TABLE: ("positions=learned", f"model.max_len={SHOWN + 1}"),  # the end token takes one
    "learned, 32 places": ("positions=learned", "model.max_len=32"),
    SINUSOIDAL: ("positions=sinusoidal",),
    "append t": ("positions=index",),
}


class _Tried(NamedTuple):
    """How one way of telling positions fared."""

    shown: float
    """Exact match on sources as long as those in training."""
    asked: float
    """Exact match on those of the lengths that were asked for; what is refused is not right."""
    exact: ByLength
    accuracy: ByLength
    example: str
    """What is written for the longest source; or why it is refused."""


def extrapolation(
    *, shortest: int = SHOWN + 1, longest: int = SHOWN + 5, steps: int = 600, seed: int = 1
) -> Result:
    """Exact match on sources of ``shortest`` to ``longest`` symbols; training showed up to 10."""
    sizes = {"n_train": 1, "n_test": 40 * longest, "max_symbols": longest}
    pairs = toys.build_toy("copy", seed=1, **sizes)["test"]
    tried = {way: _tried(settings, pairs, shortest, steps, seed) for way, settings in WAYS.items()}
    longest_source = max(pairs, key=_length).source
    examples = [(way, one.example) for way, one in tried.items()]
    waves, table = tried[SINUSOIDAL], tried[TABLE]
    verdict = waves.asked > waves.shown / 2
    why = (
        "At lengths that training showed, every position is a known one."
        if verdict
        else "The formula goes on, but training never showed what its values there mean. Learned "
        f"positions get {percent(table.asked)}, for what is longer than the table is refused."
    )
    symbols = f"symbols (up to {SHOWN} in training)"
    right = "Right tokens, the ones before being given"
    numbers: dict[str, float | str] = {}
    for way, one in tried.items():
        numbers[f"exact match, up to {SHOWN} symbols: {way}"] = one.shown
        numbers[f"exact match, {shortest} to {longest} symbols: {way}"] = one.asked
    numbers[f"longest source: {TABLE}"] = table.example
    return Result(
        name="extrapolation",
        verdict=verdict,
        finding=(
            f"With sinusoids {percent(waves.shown)} of new sources of up to {SHOWN} symbols come "
            f"out right, and {percent(waves.asked)} of those of {shortest} to {longest}. {why}"
        ),
        numbers=numbers,
        pictures=(
            lines({way: one.exact for way, one in tried.items()}, "Exact match", symbols, "share"),
            lines({way: one.accuracy for way, one in tried.items()}, right, symbols, "share"),
        ),
        tables=(Table("The longest source", ["Positions", longest_source], examples),),
    )


def _tried(
    settings: Sequence[str], pairs: Sequence[Pair], shortest: int, steps: int, seed: int
) -> _Tried:
    run, data = toy_translator("copy", *settings, steps=steps, seed=seed)
    known = {pair.source for pair in data.splits["train"]}
    new = [pair for pair in pairs if pair.source not in known]
    readable = [pair for pair in new if run.fits(pair.source, pair.target)]
    texts = dict(zip(readable, run.translate([pair.source for pair in readable]), strict=True))
    return _Tried(
        shown=_exact([pair for pair in new if _length(pair) <= SHOWN], texts),
        asked=_exact([pair for pair in new if _length(pair) >= shortest], texts),
        exact=exact_by_length(readable, list(texts.values())),
        accuracy=accuracy_by_length(run, readable),
        example=_written(run, max(pairs, key=_length).source),
    )


def _length(pair: Pair) -> int:
    return len(pair.source.split())


def _exact(pairs: Sequence[Pair], texts: dict[Pair, str]) -> float:
    return exact_match([texts.get(pair, "") for pair in pairs], [pair.target for pair in pairs])


def _written(run: Run, source: str) -> str:
    try:
        text: str = run.translate(source)
    except ShapeError as refusal:
        return f"refused: {refusal}"
    return text
