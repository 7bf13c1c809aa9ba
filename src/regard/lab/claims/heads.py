"""One head can split its weight over two words, but cannot keep two different weightings apart.

A reader must tell the subject and the object of a sentence. Which two words they are, one head can
tell: it gives each half of its weight. Which is the subject and which the object, it cannot: it
brings home one mixture. Heads are swept at equal width; of a few trainings the best counts, since
the claim is about what can be done. A feed-forward network behind one head is tried as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from regard.inspection.capture import watch
from regard.lab.reader import WIDTH, Reader, best_reader
from regard.lab.result import Result
from regard.lab.wording import listed, percent
from regard.visual.charts import curves
from regard.visual.matrix import matrix

_NETWORK = {
    True: "a nonlinear reading can tell a large part of a mixture from a small one",
    False: "the network has not learned to tell a large part of the mixture from a small one",
}


def heads(
    *,
    ordered: bool = True,
    counts: Sequence[int] = (2, 4, 8, 16),
    steps: int = 300,
    n_models: int = 2,
    seed: int = 0,
) -> Result:
    """One head and more; unless ``ordered``, which word is which is not asked of them."""
    seeds = range(seed, seed + n_models)
    one = best_reader(1, ordered=ordered, steps=steps, seeds=seeds)
    split = best_reader(1, ordered=False, steps=steps, seeds=seeds)
    more = [best_reader(n, ordered=ordered, steps=steps, seeds=seeds) for n in counts]
    network = best_reader(1, ordered=True, network=True, steps=steps, seeds=seeds)
    swept = dict(zip((1, *counts), (reader.accuracy for reader in (one, *more)), strict=True))
    weights = _weights(network.model)[0]
    return Result(
        name="heads",
        verdict=split.accuracy > 0.95
        and one.accuracy < 0.75
        and min(list(swept.values())[1:]) > 0.95,
        finding=(
            f"Which two words they are, one head tells in {percent(split.accuracy)} of new "
            f"sentences. {'Which is which' if ordered else 'No more than that'} is told in "
            f"{listed(map(percent, swept.values()))} of them by {listed(swept)} heads, all of one "
            "total width. With a feed-forward network behind it, one head tells which is which in "
            f"{percent(network.accuracy)}, its weights on them {weights[1]:.2f} and "
            f"{weights[2]:.2f}: {_NETWORK[network.accuracy > 0.95]}."
        ),
        numbers={
            "heads": list(swept),
            "share right by heads": list(swept.values()),
            "one head, order not asked": split.accuracy,
            "one head and a feed-forward network": network.accuracy,
            "its weight on the subject": weights[1],
            "its weight on the object": weights[2],
        },
        pictures=(
            curves(
                {"best of the trainings": list(swept.items())},
                title="Subject and object found",
                x_label=f"heads, {WIDTH} wide together",
                y_label="share right",
            ),
            _picture(split.model, more[0].model, network.model),
        ),
    )


def _weights(model: Reader) -> list[list[float]]:
    """Of each head on the words of one sentence: first another one, then subject and object."""
    words, roles = torch.zeros(1, 8, dtype=torch.long), torch.tensor([[0, 1, 2, 0, 0, 0, 0, 0]])
    with watch(model) as views, torch.no_grad():
        model(words, roles)
    weights: list[list[float]] = views["attention", 0].weights()[0, :, 0].tolist()
    return weights


def _picture(split: Reader, apart: Reader, network: Reader) -> str:
    parts = _weights(apart)
    rows = {"1 head, which two": _weights(split)[0]}
    rows |= {f"head {i} of {len(parts)}, order": row for i, row in enumerate(parts, 1)}
    rows["1 head + network, order"] = _weights(network)[0]
    columns = ["other", "subject", "object", *["other"] * 5]
    return matrix(list(rows.values()), list(rows), columns, title="Where the heads look")
