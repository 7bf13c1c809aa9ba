"""Feeding the right words while training teaches faster than letting the model run free.

With teacher forcing every position is trained on a right beginning, all of them at once. Running
free, the model reads its own words, which at first are wrong, so most of what it learns from is
noise, and steps cannot be done at once. The price of forcing is that training never shows the
model its own mistakes: right beginnings given, it scores better than on its own.
"""

from __future__ import annotations

from statistics import fmean

from regard.evaluation.text_metrics import exact_match
from regard.lab.result import Result, percent, share_bars
from regard.lab.translators import translator
from regard.visual.tables import Table

_SMALL = ("d_model=48", "size=null", "n_train=4000")
_QUICK = ("lr=1e-2", "warmup_steps=20", "batch_tokens=256", "label_smoothing=0.0", "average=0.0")


def forcing(*, share: float = 1.0, steps: int = 200, n_test: int = 300, seed: int = 1) -> Result:
    """``share`` of the words shown are right; with 0 there is no teacher."""
    schedule = f"{{start: 1.0, end: 0.0, steps: {steps}}}"
    ways = {"forced": str(share), "scheduled": schedule, "free": "0.0"}
    found = {name: _trained(way, steps, n_test, seed) for name, way in ways.items()}
    given, alone = ({name: both[i] for name, both in found.items()} for i in range(2))
    return Result(
        name="forcing",
        verdict=alone["forced"] - alone["free"] > 0.1,
        finding=(
            f"After {steps} steps the model shown {percent(share)} right words copies "
            f"{percent(alone['forced'])} of new sequences, the one whose share fell to none "
            f"{percent(alone['scheduled'])}, the one that ran free "
            f"{percent(alone['free'])}. With right words given, their tokens are right to "
            f"{percent(given['forced'])}, {percent(given['scheduled'])} and "
            f"{percent(given['free'])}."
        ),
        numbers={
            f"{what}, {name}": value
            for name, both in found.items()
            for what, value in zip(("tokens right, words given", "whole, alone"), both, strict=True)
        },
        pictures=(share_bars(alone, title="Sequences copied without a mistake"),),
        tables=(
            Table(
                "Trained with",
                ["Words shown", "Tokens right, words given", "Whole targets right, alone"],
                [(name, *map(percent, both)) for name, both in found.items()],
            ),
        ),
    )


def _trained(way: str, steps: int, n_test: int, seed: int) -> tuple[float, float]:
    """Bahdanau's system learns to copy.

    The share of right tokens, right words before them being given; and the share of whole targets
    written right with nothing given.
    """
    length = (f"max_steps={steps}", f"seed={seed}", f"teacher_forcing={way}")
    run, data = translator("bahdanau2015", "world=copy", *_SMALL, *_QUICK, *length)
    pairs = data.splits["test"][:n_test]
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    judged = run.token_scores(sources, targets)
    given = fmean(float(one.right.float().mean()) for one in judged)
    return given, exact_match(run.translate(sources), targets)
