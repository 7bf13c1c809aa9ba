"""Around eight heads seem to work: at a fixed width one head is too few, and sixteen too many.

More heads are more places to look at, but each is narrower: together they are as wide as one. A
small Transformer learns English to French with 1 to 16 heads, all else equal, and is asked how
probable it finds held-out translations; a difference counts where a bootstrap says that it is no
luck. This is a quick look, at a width of 64 after few steps; the
lecture's eight are of a width of 512. A sweep over Multi30k, for a GPU, is in docs/how-to/lab.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from regard.lab.differences import difference, of_trainings
from regard.lab.result import Result, lines, listed, unmet
from regard.lab.translators import Translator, sentence_losses, toy_translator, translator
from regard.visual.tables import Table

EIGHT, WIDTH = 8, 64
AS_GOOD = 0.05
"""Losses per token that lie no further apart count as equal."""
Losses = NDArray[np.float64]
"""Of each held-out sentence (N,): the mean of -log p of its tokens, the ones before being given."""
World = Literal["sentences", "copy"]


def eight(
    *,
    world: World = "sentences",
    counts: Sequence[int] = (1, 2, 4, 8, 16),
    steps: int = 200,
    seed: int = 1,
) -> Result:
    """Losses by the number of heads, of which 8 is one; a ``copy`` needs one look at a time."""
    found = {n: _losses(world, n, steps, seed) for n in sorted({*counts, EIGHT})}
    losses = {n: float(one.mean()) for n, one in found.items()}
    ends, best = (min(losses), max(losses)), min(losses, key=losses.__getitem__)
    saved = {n: difference(found[n] - found[EIGHT]) for n in found if n != EIGHT}
    better = {n for n, one in saved.items() if one.high < 0 and one.mean < -AS_GOOD}
    worse = {n for n, one in saved.items() if one.positive and one.mean > AS_GOOD}
    parts = {
        **{f"{EIGHT} heads are better than {n}": n in worse for n in ends},
        f"no number is clearly better than {EIGHT}": not better,
    }
    told = listed(f"{loss:.2f} with {n}" for n, loss in losses.items())
    return Result(
        name="eight",
        verdict=all(parts.values()),
        finding=(
            f"The loss of a held-out token is {told} heads, which are {WIDTH} wide together; "
            f"{best} are the best here, each {WIDTH // best} wide. {EIGHT} save "
            f"{listed(f'{saved[n]} beside {n}' for n in ends if n in saved)} "
            f"({of_trainings(1)}; {AS_GOOD:g} counts as equal)." + unmet(parts)
        ),
        numbers={
            "heads": list(losses),
            "loss by heads": list(losses.values()),
            "best": best,
            **{f"{EIGHT} save beside {n}": one.mean for n, one in saved.items()},
            **{f"{EIGHT} save beside {n}, 95 %": [one.low, one.high] for n, one in saved.items()},
        },
        pictures=(
            lines(
                {f"after {steps} steps": losses},
                f"Heads that are {WIDTH} wide together ({world})",
                "heads",
                "loss per token",
            ),
        ),
        tables=(
            Table(
                "At equal width and steps",
                ["Heads", "Width of a head", "Loss"],
                [(str(n), str(WIDTH // n), f"{loss:.3f}") for n, loss in losses.items()],
            ),
        ),
    )


def _losses(world: World, n_heads: int, steps: int, seed: int) -> Losses:
    run, data = _TRAINED[world](n_heads, steps, seed)
    return sentence_losses(run, data.splits["test"][:200])


def _sentences(n_heads: int, steps: int, seed: int) -> Translator:
    small = (f"d_model={WIDTH}", f"d_ff={2 * WIDTH}", "n_layers=2", f"n_heads={n_heads}")
    quick = ("lr=4e-3", "warmup_steps=30", "average=0.0", "batch_tokens=512", "n_train=8000")
    return translator("transformer", *small, *quick, f"max_steps={steps}", f"seed={seed}")


def _copy(n_heads: int, steps: int, seed: int) -> Translator:
    shape = (f"n_heads={n_heads}", f"d_model={WIDTH}")
    return toy_translator("copy", *shape, steps=steps, seed=seed)


_TRAINED: dict[World, Callable[[int, int, int], Translator]] = {
    "sentences": _sentences,
    "copy": _copy,
}
