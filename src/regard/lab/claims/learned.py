"""Learned positions translate as well as sinusoidal ones, over three trainings of each.

The same Transformer, data and steps; only the positions differ. Sentences are those in which order
is all: the same words in another order mean something else (without positions a third of them come
out right). That no difference was found would show little: few sentences find none either. So the
verdict asks for equivalence: the difference, with the luck of trainings and of sentences, must lie
within ten points on either side. Steps are few; the recipe's own 1,400 take minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import ConfigError
from regard.lab.differences import difference, of_trainings
from regard.lab.result import Result, percent, share_bars
from regard.lab.translators import translator
from regard.layers.positions import POSITIONS
from regard.visual.tables import Table

MARGIN = 0.1
"""Of exact match: two trainings of one kind may differ by as much, and no positions by far more."""


class _Compared(NamedTuple):
    """Which sentences (N,) come out right with learned positions, and with those beside them."""

    learned: NDArray[np.bool_]
    beside: NDArray[np.bool_]

    @property
    def leads(self) -> NDArray[np.float64]:
        """(N,): 1 where learned positions alone are right, −1 where the others are, else 0."""
        return self.learned.astype(np.float64) - self.beside


def learned(
    *, beside: str = "sinusoidal", seeds: Sequence[int] = (1, 2, 3), steps: int = 400
) -> Result:
    """English to French with learned positions and with those ``beside`` them, for each seed."""
    if beside not in POSITIONS:
        raise ConfigError(f"no positions {beside!r}; known: {', '.join(POSITIONS)}")
    found = {seed: _compared(beside, seed, steps) for seed in seeds}
    apart = difference([one.leads for one in found.values()])
    shares = {
        way: [float(getattr(one, field).mean()) for one in found.values()]
        for way, field in (("learned", "learned"), (beside, "beside"))
    }
    pairs = {
        f"{way}, seed {seed}": share
        for i, seed in enumerate(seeds)
        for way, share in ((way, some[i]) for way, some in shares.items())
    }
    low, high = (f"{100 * end:+.1f}".replace("-", "−") for end in (apart.low, apart.high))
    equal = apart.within(MARGIN)
    return Result(
        name="learned",
        verdict=equal,
        finding=(
            f"Of sentences whose order matters, positions learned and positions {beside} bring "
            f"{percent(float(np.mean(shares['learned'])))} and "
            f"{percent(float(np.mean(shares[beside])))} out right. The difference lies between "
            f"{low} and {high} points with 95 % ({of_trainings(len(found))}), "
            f"{'within' if equal else 'not within'} the {100 * MARGIN:.0f} points on either side "
            "that count as equal."
        ),
        numbers={
            "seeds": list(seeds),
            **{f"exact match: {way}": some for way, some in shares.items()},
            "difference": [float(one.leads.mean()) for one in found.values()],
            "mean difference": apart.mean,
            "95 % interval": [apart.low, apart.high],
            "margin of equivalence": MARGIN,
        },
        pictures=(share_bars(pairs, title="Sentences whose order matters, right", digits=1),),
        tables=(_table(found, beside, steps),),
    )


def _compared(beside: str, seed: int, steps: int) -> _Compared:
    """Learned positions against the others, after trainings from one seed."""
    return _Compared(*(_right(one, seed, steps) for one in ("learned", beside)))


def _right(positions: str, seed: int, steps: int) -> NDArray[np.bool_]:
    """Which of the sources whose order matters a small Transformer translates as it should."""
    small = ("d_model=64", "d_ff=128", "n_layers=1", "n_train=8000", "model.max_len=64")
    quick = ("lr=6e-3", "batch_tokens=512", f"max_steps={steps}", f"seed={seed}")
    run, data = translator("transformer", *small, *quick, f"positions={positions}")
    pairs = data.splits["order"]
    written = run.translate([pair.source for pair in pairs])
    return np.array([one == pair.target for one, pair in zip(written, pairs, strict=True)])


def _table(found: dict[int, _Compared], beside: str, steps: int) -> Table:
    rows = []
    for seed, one in found.items():
        apart = difference(one.leads)
        ends = " to ".join(f"{100 * end:+.1f}" for end in (apart.low, apart.high))
        shares = (percent(float(some.mean())) for some in one)
        rows.append((str(seed), *shares, f"{100 * apart.mean:+.1f}", ends))
    header = ["Seed", "Learned", beside.capitalize(), "Points between", "95 %"]
    return Table(f"Exact match after {steps} steps, and its difference by seed", header, rows)
