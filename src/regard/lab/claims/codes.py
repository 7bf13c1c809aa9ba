"""Each position has a sinusoidal code of its own, nearest to its neighbours'; learned codes follow.

The code is shown as the lectures show it: a row a position, a column a dimension, each pair of
columns a wave that is slower than the last. Products and distances of all pairs of rows tell which
positions are alike. Beside it stands a table of learned positions from a Transformer that was
trained to copy. It begins as noise; nobody tells it that 3 lies beside 4. Rows beyond the longest
source stay the noise they were.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor

from regard.core.errors import ConfigError
from regard.functional.positions import sinusoid
from regard.lab.result import Result, lines, percent, unmet
from regard.lab.translators import toy_translator
from regard.layers.positions import LearnedPositions
from regard.models.transformer import Transformer
from regard.visual.grids import grids
from regard.visual.tables import Table

Code = Literal["sinusoidal", "random"]
KINDS: tuple[Code, ...] = ("sinusoidal", "random")
D = 64
PLACES = 32
"""Rows of the learned table."""
USED = 11
"""Rows that training sees: sources have up to ten symbols and an end."""
MOST = 0.6
"""Of the learned rows; by chance it would be a fifth of them."""
_WAVES = (0, 8, 16, 24, 40)


class _Alike(NamedTuple):
    """Which positions of a table are alike."""

    closest: float
    """The smallest distance of two positions, as a share of the mean distance."""
    beside: float
    """The share of positions whose nearest other one stands beside them."""
    by_offset: list[float]
    """The mean distance of positions 1, 2, … apart."""


def codes(
    *, code: Code = "sinusoidal", n_positions: int = 64, steps: int = 400, seed: int = 1
) -> Result:
    """The code's pictures and measures; a ``random`` one has a row a position too, and no order."""
    if code not in KINDS:
        raise ConfigError(f"no code {code!r}; known: {', '.join(KINDS)}")
    table = _table(code, n_positions, seed)
    learned = learned_table(steps, seed)
    fixed, used = alike(table), alike(learned[:USED])
    parts = {
        "every two positions differ": fixed.closest > 0.05,
        "every position is nearest to a neighbour": fixed.beside == 1,
        "most learned positions are nearest to a neighbour": used.beside > MOST,
    }
    return Result(
        name="codes",
        verdict=all(parts.values()),
        finding=(
            f"Of {n_positions} positions, {percent(fixed.beside)} have their nearest code beside "
            f"them, and no two are closer than {fixed.closest:.2f} of the mean distance. Of the "
            f"{USED} learned rows that training used, {percent(used.beside)} do; of the others "
            f"{percent(alike(learned[USED:]).beside)}, as noise does.{unmet(parts)}"
        ),
        numbers={
            "code": code,
            "share nearest to a neighbour": fixed.beside,
            "closest two, of the mean distance": fixed.closest,
            "mean distance by offset": fixed.by_offset[:USED],
            "learned: share nearest to a neighbour": used.beside,
            "learned: closest two, of the mean distance": used.closest,
            "learned: mean distance by offset": used.by_offset,
            "learned, rows never used: share nearest to a neighbour": alike(learned[USED:]).beside,
        },
        pictures=_pictures(code, table, learned),
        tables=(_wavelengths(),),
    )


def _table(code: Code, n: int, seed: int) -> Tensor:
    if code == "sinusoidal":
        return sinusoid(torch.arange(n), D).double()
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(n, D, generator=rng, dtype=torch.float64)


def learned_table(steps: int, seed: int) -> Tensor:
    """(PLACES, D): the positions of an encoder that has learned to copy up to ten symbols."""
    told = ("positions=learned", f"model.max_len={PLACES}")
    run, _ = toy_translator("copy", *told, f"d_model={D}", steps=steps, seed=seed)
    embedding = cast("Transformer", run.model).encoder.embedding
    return cast("LearnedPositions", embedding.positions).table.detach().double()


def alike(table: Tensor) -> _Alike:
    """Distances of all pairs of rows (n, D), told in three numbers."""
    distances = torch.cdist(table, table)
    n = len(table)
    others = distances + torch.diag(torch.full((n,), torch.inf, dtype=table.dtype))
    nearest = others.argmin(dim=1)
    beside = (nearest - torch.arange(n)).abs() == 1
    mean = distances.sum().item() / (n * (n - 1))
    by_offset = [distances.diagonal(offset).mean().item() for offset in range(1, n)]
    return _Alike(others.min().item() / mean, beside.double().mean().item(), by_offset)


def _pictures(code: Code, table: Tensor, learned: Tensor) -> tuple[str, ...]:
    both = {code: table, "learned": learned}
    shown = {
        "The codes": (both, "dimension"),
        "Products of positions": ({k: one @ one.T for k, one in both.items()}, "position"),
        "Distances of positions": ({k: torch.cdist(x, x) for k, x in both.items()}, "position"),
    }
    return (
        *(
            grids(panels, title=title, x_label=x_label, y_label="position")
            for title, (panels, x_label) in shown.items()
        ),
        *(
            lines(
                {f"dimension {i}": rows[:, i].tolist() for i in _WAVES},
                f"Waves by dimension, {name}"
                + (f" (rows 0 to {USED - 1} trained)" if name == "learned" else ""),
                "position",
                "value",
                xs=range(len(rows)),
            )
            for name, rows in both.items()
        ),
    )


def _wavelengths() -> Table:
    """How many positions each of the drawn waves takes for one turn."""
    rows = [[str(i), f"{2 * torch.pi * 10_000 ** (i / D):,.1f}"] for i in _WAVES]
    return Table("Positions for one turn of a wave", ["Dimension", "Positions"], rows)
