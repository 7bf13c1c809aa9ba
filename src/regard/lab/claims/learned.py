"""Learned positions translate as well as sinusoidal ones, over three trainings of each.

The same Transformer, data and steps; only the positions differ. Sentences are those in which order
is all: the same words in another order mean something else (without positions a third of them come
out right). Each pair of trainings shares a seed and is compared by a paired bootstrap. A bootstrap
knows the luck of the test sentences, not that of a training: it may call the luck of one seed
significant. So the verdict asks whether one way leads significantly in every seed, or by more than
ten points on average. Steps are few; the recipe's own 1,400 take minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from regard.core.errors import ConfigError
from regard.evaluation.systems import Bootstrap, paired_bootstrap
from regard.lab.result import Result, listed, percent, share_bars
from regard.lab.translators import translator
from regard.layers.positions import POSITIONS
from regard.visual.tables import Table

MARGIN = 0.1
"""Of exact match: two trainings of one kind may differ by as much, and no positions by far more."""
SURE = 0.05


def learned(
    *, beside: str = "sinusoidal", seeds: Sequence[int] = (1, 2, 3), steps: int = 400
) -> Result:
    """English to French with learned positions and with those ``beside`` them, for each seed."""
    if beside not in POSITIONS:
        raise ConfigError(f"no positions {beside!r}; known: {', '.join(POSITIONS)}")
    found = {seed: _compared(beside, seed, steps) for seed in seeds}
    leads = [one.difference for one in found.values()]
    same_side = len({lead > 0 for lead in leads}) == 1
    always = same_side and all(one.p_value < SURE for one in found.values())
    verdict = not always and abs(fmean(leads)) < MARGIN
    lucky = [seed for seed, one in found.items() if one.p_value < SURE]
    significant = f"for seed {listed(lucky)}" if lucky else "for no seed"
    pairs = {
        f"{way}, seed {seed}": score
        for seed, one in found.items()
        for way, score in (("learned", one.a), (beside, one.b))
    }
    return Result(
        name="learned",
        verdict=verdict,
        finding=(
            f"Of sentences whose order matters, positions learned and positions {beside} bring "
            f"{percent(fmean(one.a for one in found.values()))} and "
            f"{percent(fmean(one.b for one in found.values()))} out right; by seed learned ones "
            f"lead by {', '.join(f'{100 * lead:+.0f}' for lead in leads)} points. By itself the "
            f"difference is significant {significant}. "
            + (
                "Neither leads surely in every training, or by far."
                if verdict
                else "That is more than trainings differ by."
            )
        ),
        numbers={
            "seeds": list(seeds),
            "exact match: learned": [one.a for one in found.values()],
            f"exact match: {beside}": [one.b for one in found.values()],
            "difference": leads,
            "p": [one.p_value for one in found.values()],
            "mean difference": fmean(leads),
        },
        pictures=(share_bars(pairs, title="Sentences whose order matters, right", digits=1),),
        tables=(_table(found, beside, steps),),
    )


def _compared(beside: str, seed: int, steps: int) -> Bootstrap:
    """Learned positions against the others, after trainings from one seed."""
    first, references = _translations("learned", seed, steps)
    second, _ = _translations(beside, seed, steps)
    return paired_bootstrap(first, second, references, metric="exact_match")


def _translations(positions: str, seed: int, steps: int) -> tuple[list[str], list[str]]:
    """What a small Transformer writes for sources whose order matters, and what it should."""
    small = ("d_model=64", "d_ff=128", "n_layers=1", "n_train=8000", "model.max_len=64")
    quick = ("lr=6e-3", "batch_tokens=512", f"max_steps={steps}", f"seed={seed}")
    run, data = translator("transformer", *small, *quick, f"positions={positions}")
    pairs = data.splits["order"]
    return run.translate([pair.source for pair in pairs]), [pair.target for pair in pairs]


def _table(found: dict[int, Bootstrap], beside: str, steps: int) -> Table:
    rows = [
        (
            str(seed),
            percent(one.a),
            percent(one.b),
            f"{100 * one.difference:+.1f}",
            " to ".join(f"{100 * end:+.1f}" for end in one.interval),
            f"{one.p_value:.3f}",
        )
        for seed, one in found.items()
    ]
    header = ["Seed", "Learned", beside.capitalize(), "Points between", "95 %", "p"]
    return Table(f"Exact match after {steps} steps, and the paired bootstrap", header, rows)
