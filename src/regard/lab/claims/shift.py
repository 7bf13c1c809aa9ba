"""Told sinusoids, a head finds the word before wherever *I walk my dog* stands; told t, it cannot.

What matters in *I walk my dog every day* and *every single day I walk my dog* is that *my dog* is
right after *I walk*, not where that is. One head is trained to look at the word before, in random
sentences. Without positions the words are a set. With the number t appended a score is linear in
the place of the key, so its largest is at one of the ends. A pair of sinusoids can be turned by one
step, the same step at every place.
"""

from __future__ import annotations

from statistics import fmean
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.core.errors import ConfigError
from regard.kernels.attention import attention
from regard.lab.result import Result, lines, percent, share_bars
from regard.lab.small_models import fit, seeded
from regard.layers.embeddings import token_embedding
from regard.layers.positions import Join, make_positions
from regard.visual.matrix import matrix

Words = tuple[str, ...]
FIRST: Words = ("I", "walk", "my", "dog", "every", "day")
SECOND: Words = ("every", "single", "day", "I", "walk", "my", "dog")
PHRASE = ("I", "walk", "my", "dog")
WORDS = tuple(dict.fromkeys(FIRST + SECOND))
WAYS = {"none": "none", "append t": "index", "sinusoidal": "sinusoidal", "learned": "learned"}
FOUND = 0.8
"""So much of its weight a head puts on the word before that has found it."""
_D, _LONGEST = 32, 8


class _Found(NamedTuple):
    weights: dict[Words, Tensor]
    """(T, T) for each of the two sentences."""
    losses: list[float]

    def on_before(self, sentence: Words) -> float:
        """The least weight that a word of the phrase puts on the one before it."""
        start = sentence.index(PHRASE[0])
        places = range(start + 1, start + len(PHRASE))
        return min(self.weights[sentence][t, t - 1].item() for t in places)


def shift(*, positions: str = "sinusoidal", steps: int = 250, seed: int = 0) -> Result:
    """A head told ``positions``, beside heads told others: where it looks in both sentences."""
    asked = next((way for way, kind in WAYS.items() if positions in (way, kind)), None)
    if asked is None:
        raise ConfigError(f"no positions {positions!r} here; known: {', '.join(WAYS)}")
    found = {way: looking_back(kind, steps, seed) for way, kind in WAYS.items()}
    least = {way: min(map(one.on_before, (FIRST, SECOND))) for way, one in found.items()}
    verdict = least[asked] > FOUND and max(least["append t"], least["none"]) < 0.5
    return Result(
        name="shift",
        verdict=verdict,
        finding=(
            f"From walk, my and dog, a head told positions {asked} puts at least "
            f"{percent(found[asked].on_before(FIRST))} of its weight on the word before in "
            f"“{' '.join(FIRST)}” and {percent(found[asked].on_before(SECOND))} in "
            f"“{' '.join(SECOND)}”. Told t it puts {percent(least['append t'])} there at worst, "
            f"told nothing {percent(least['none'])}, with a learned table "
            f"{percent(least['learned'])}."
        ),
        numbers={
            "positions": asked,
            **{f"least weight on the word before: {way}": one for way, one in least.items()},
            **{f"last loss: {way}": fmean(one.losses[-20:]) for way, one in found.items()},
        },
        pictures=(
            *(
                matrix(
                    found[way].weights[sentence].tolist(),
                    sentence,
                    sentence,
                    title=f"{way}: where words look",
                )
                for way in (asked, "append t")
                for sentence in (FIRST, SECOND)
            ),
            share_bars(least, title="Least weight on the word before"),
            lines(
                {way: _smooth(one.losses) for way, one in found.items()},
                "Learning to look at the word before",
                "step",
                "−log weight",
            ),
        ),
    )


class Head(nn.Module):
    """One head over words that know their positions: it tells only where it looks."""

    def __init__(self, positions: str) -> None:
        super().__init__()
        self.words = token_embedding(len(WORDS), _D)
        join: Join = "concat" if positions == "index" else "add"
        self.positions = make_positions(positions, _D, join=join, max_len=_LONGEST)
        self.to_q, self.to_k = (nn.Linear(self.positions.d_out, _D) for _ in range(2))

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> weights (B, T, T)."""
        x = self.positions(self.words(ids))
        k = self.to_k(x)
        _, weights = attention(self.to_q(x), k, k, need_weights=True)
        return weights


def looking_back(positions: str, steps: int, seed: int) -> _Found:
    """A head that was trained to look at the word before, and where it looks."""
    rng = torch.Generator().manual_seed(seed)
    with seeded(seed):
        head = Head(positions)

    def loss() -> Tensor:
        ids = torch.randint(len(WORDS), (32, _LONGEST), generator=rng)
        before = head(ids).diagonal(offset=-1, dim1=1, dim2=2)
        return -before.clamp(min=1e-9).log().mean()

    losses = fit(head.parameters(), loss, steps=steps, lr=1e-2)
    with torch.no_grad():
        shown = {
            words: head(torch.tensor([[WORDS.index(word) for word in words]]))[0]
            for words in (FIRST, SECOND)
        }
    return _Found(shown, losses)


def _smooth(losses: list[float], width: int = 10) -> dict[float, float]:
    """Means of ``width`` steps each."""
    return {
        float(start + width / 2): fmean(losses[start : start + width])
        for start in range(0, len(losses), width)
    }
