"""Taken as printed, ten formulas and tables of the lectures do something else than is meant.

Slips of the pen, and each is repaired by a letter or two: but a reader who builds what is printed
should know what comes of it. Each is computed twice, as printed and as meant, and one number tells
the two apart. Lectures are numbered as their files are, from 000 on.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.worlds.sentences import build_sentences
from regard.functional.positions import BASE, sinusoid
from regard.kernels.attention import attention
from regard.lab.result import Result, listed, percent
from regard.lab.small_models import fit, seeded
from regard.visual.charts import bars
from regard.visual.grids import grids
from regard.visual.tables import Table

PERPLEXITIES = (5.04952, 2.46645, 2.22216, 2.05159, 1.92871, 1.90325)
"""A column of lecture 001, from the first system to the best."""
_D, _N = 64, 100
Measure = Callable[[bool, int], float]
"""Whether it is computed as printed, and a seed -> the number that tells the two apart."""


class Slip(NamedTuple):
    """One place in a lecture."""

    lecture: int
    printed: str
    meant: str
    what: str
    """What the number tells."""
    measure: Measure


class _Measured(NamedTuple):
    printed: float
    meant: float

    @property
    def matters(self) -> bool:
        """Whether the two numbers are far from rounding."""
        return abs(self.printed - self.meant) > 1e-3 * max(abs(self.printed), abs(self.meant))


def slips(*, corrected: bool = False, steps: int = 300, seed: int = 0) -> Result:
    """What follows from each; ``corrected``, what is meant stands where the printed one would.

    ``steps`` are those of the heads that are trained.
    """
    known = _slips(steps)
    found = {
        name: _Measured(*(slip.measure(printed, seed) for printed in (not corrected, False)))
        for name, slip in known.items()
    }
    same = [name for name, one in found.items() if not one.matters]
    tied = found["values from W_k"]
    return Result(
        name="slips",
        verdict=not same,
        finding=(
            (
                f"All {len(found)} make a difference. The position in the sinusoid's exponent "
                f"leaves {found['the sinusoid’s exponent'].printed:.0f} different columns of {_D}; "
                "a head whose values are its keys is right in "
                f"{percent(tied.printed)} of new texts, with values of its own in "
                f"{percent(tied.meant)}; and read as log-perplexities, the best system of the "
                f"table leads the first by a factor of {found['log-perplexity'].meant:.1f} and not "
                f"of {found['log-perplexity'].printed:.2f}."
            )
            if not same
            else f"No difference in {listed(same)}: as written here, nothing is off."
        ),
        numbers={
            f"{name}, as {how}: {known[name].what}": value
            for name, one in found.items()
            for how, value in one._asdict().items()
        },
        pictures=(
            grids(
                {
                    "as printed in lecture 000": _exponent(not corrected),
                    "as meant": _exponent(False),
                },
                title="The sinusoid with the position in its exponent",
                x_label="dimension",
                y_label="position",
            ),
            bars(
                {
                    "values W_k h": 100 * tied.printed,
                    "values W_v h": 100 * tied.meant,
                },
                title="Right answers of a narrow head",
                unit=" %",
                digits=0,
            ),
        ),
        tables=(_table(known, found), _perplexities()),
    )


def _slips(steps: int) -> dict[str, Slip]:
    return {
        "the sinusoid’s exponent": Slip(
            0, "sin(j / 10000^(j/d))", "sin(j / 10000^(i/d))",
            "different columns of 64", lambda printed, _: _columns(_exponent(printed)),
        ),
        "the first frequency": Slip(
            1, "i = 1 … d/2", "i = 0 … d/2 − 1",
            "positions for one turn of the fastest of 4 waves", lambda printed, _: _turn(printed),
        ),
        "a key’s index": Slip(
            1, "e_{l,t,i} = q_{l,i} · k_{l,i}", "e_{l,t,i} = q_{l,i} · k_{t,i}",
            "largest weight over 8 words", _largest_weight,
        ),
        "values from W_k": Slip(
            1, "v_t = W_k h_t", "v_t = W_v h_t",
            "share right", lambda printed, seed: _recalled(printed, steps, seed),
        ),
        "log-perplexity": Slip(
            1, "test perplexity 5.05 … 1.90", "test log-perplexity 5.05 … 1.90",
            "times less surprised is the best system", lambda printed, _: _lead(printed),
        ),
        "no softmax": Slip(
            2, "Z = Q × Kᵀ × V", "Z = softmax(Q Kᵀ / √d_k) V",
            "length of an output over that of the longest value", _length,
        ),
        "a context of weights": Slip(
            2, "C_1 = α_{1,1} + … + α_{1,N}", "C_1 = α_{1,1} a_1 + … + α_{1,N} a_N",
            "spread of a context over 100 texts", _spread,
        ),
        "W_o of one head’s width": Slip(
            2, "W_o is 512×64", "W_o is 512×512",
            "numbers of an output, to be added to 512", lambda printed, _: _width(printed),
        ),
        "a row too many": Slip(
            3, "K = X W_k, W_k of a + 1 rows", "K = [X, 1] W_k",
            "columns of X missing", _missing,
        ),
        "a softmax that is none": Slip(
            4, "95, 13, 35, 72 → .6, .05, .1, .25", "the softmax of the four scores",
            "ratio of the two largest weights", lambda printed, _: _ratio(printed),
        ),
    }  # fmt: skip


def _exponent(printed: bool) -> Tensor:
    """(N, D): sinusoids with the position where the dimension should stand, or as they are."""
    j = torch.arange(_N, dtype=torch.float64)
    if not printed:
        return sinusoid(j, _D).double()
    even, odd = (j / BASE ** (j / _D)).sin(), (j / BASE ** ((j - 1) / _D)).cos()
    return torch.stack((even, odd), dim=1).repeat(1, _D // 2)


def _columns(table: Tensor) -> float:
    """How many columns differ from all others."""
    return float(len({tuple(column) for column in table.T.tolist()}))


def _turn(printed: bool) -> float:
    return math.tau * BASE ** (2 * int(printed) / 8)


def _queries_keys(n: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v (n, 16) with normal entries."""
    rng = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(3, n, 16, generator=rng, dtype=torch.float64)
    return q, k, v


def _largest_weight(printed: bool, seed: int) -> float:
    """Where a score does not know which word it is of, all words weigh alike."""
    q, k, v = _queries_keys(8, seed)
    if printed:
        own = (q * k).sum(dim=-1, keepdim=True)
        return own.expand(8, 8).softmax(dim=-1).max().item()
    _, weights = attention(q, k, v, need_weights=True)
    return weights.max().item()


def _recalled(printed: bool, steps: int, seed: int) -> float:
    """The share of questions a head answers: items have a name and a content, names are asked.

    The head is 8 wide, which is enough for names or for contents. Where its values are its keys,
    what it looks for and what it brings home must share the room, and contents disturb the search.
    """
    n, d, narrow = 16, 32, 8
    rng = torch.Generator().manual_seed(seed)
    names, contents = torch.randn(2, n, d, generator=rng) / 2
    with seeded(seed):
        to_q, to_k, to_v = (nn.Linear(d, narrow, bias=False) for _ in range(3))
        answer = nn.Linear(narrow, n)

    def logits(count: int) -> tuple[Tensor, Tensor]:
        given = torch.rand(count, n, generator=rng).argsort(dim=1)[:, :8]  # names, none twice
        held = torch.randint(n, (count, 8), generator=rng)
        h = names[given] + contents[held]
        k = to_k(h)
        found = attention(to_q(names[given[:, :1]]), k, k if printed else to_v(h))
        return answer(found[:, 0]), held[:, 0]

    def loss() -> Tensor:
        return F.cross_entropy(*logits(64))

    learned = [p for part in (to_q, to_k, to_v, answer) for p in part.parameters()]
    fit([p for p in learned if p is not to_v.weight or not printed], loss, steps=steps, lr=1e-2)
    with torch.no_grad():
        told, wanted = logits(2000)
    return (told.argmax(dim=-1) == wanted).double().mean().item()


def _lead(printed: bool) -> float:
    first, best = PERPLEXITIES[0], PERPLEXITIES[-1]
    return first / best if printed else math.exp(first - best)


def _length(printed: bool, seed: int) -> float:
    """A mean of values is no longer than the longest of them; a sum of products may be."""
    q, k, v = _queries_keys(512, seed)
    z = q @ k.T @ v if printed else attention(q, k, v)
    return (z.norm(dim=-1).max() / v.norm(dim=-1).max()).item()


def _spread(printed: bool, seed: int) -> float:
    """The standard deviation of one number of a context over texts that have nothing in common."""
    found = []
    for text in range(100):
        q, k, v = _queries_keys(6, seed + text)
        out, weights = attention(q[:1], k, v, need_weights=True)
        found.append(weights.sum() if printed else out[0, 0])
    return round(torch.stack(found).std().item(), 12)


def _width(printed: bool) -> float:
    heads = torch.zeros(2, 8 * 64)
    w_o = torch.zeros(512, 64 if printed else 512)
    return float((heads @ w_o).shape[-1])


def _missing(printed: bool, seed: int) -> float:
    """A bias is a row of the matrix only if the words have a column of ones for it."""
    q, _, _ = _queries_keys(5, seed)
    x = q if printed else torch.cat((q, torch.ones(5, 1, dtype=q.dtype)), dim=1)
    rows = q.shape[1] + 1
    return float(rows - x.shape[1])


def _ratio(printed: bool) -> float:
    return 0.6 / 0.25 if printed else math.exp(95 - 72)


def _table(known: dict[str, Slip], found: dict[str, _Measured]) -> Table:
    rows = [
        (
            f"lecture {slip.lecture:03}: {slip.printed}",
            slip.meant,
            slip.what,
            f"{found[name].printed:.4g}",
            f"{found[name].meant:.4g}",
        )
        for name, slip in known.items()
    ]
    return Table(
        "What follows from what is printed",
        ["Printed", "Meant", "Measured", "As printed", "As meant"],
        rows,
    )


def _perplexities() -> Table:
    """The printed column as what it is; and, to see what is which, models whose chances are known.

    1/likelihood a word is the perplexity; its logarithm is the loss that is trained.
    """
    ends = {"first": PERPLEXITIES[0], "last": PERPLEXITIES[-1]}
    losses = {f"lecture 001’s table, {end} row": loss for end, loss in ends.items()}
    rows = [
        (name, f"{loss:.2f}", f"{math.exp(loss):.1f}")
        for name, loss in (losses | word_losses()).items()
    ]
    return Table(
        "Log-perplexity is the loss, perplexity is 1/likelihood a word",
        ["Model", "Log-perplexity", "Perplexity"],
        rows,
    )


def word_losses() -> dict[str, float]:
    """−log p a word (nats) of new sentences, by models that only count."""
    splits = build_sentences(n_train=2000)
    train, test = ([pair.source.split() for pair in splits[name]] for name in ("train", "test"))
    singles = Counter(word for text in train for word in text)
    pairs = Counter(pair for text in train for pair in pairwise(text))
    firsts = Counter(word for text in train for word in text[:-1])
    n = len(singles)
    asked = [pair for text in test for pair in pairwise(text)]

    def mean(chance: Callable[[str, str], float]) -> float:
        return -sum(math.log(chance(*pair)) for pair in asked) / len(asked)

    return {
        f"all {n} words alike": mean(lambda _before, _word: 1 / n),
        "how often a word comes": mean(lambda _b, w: (singles[w] + 1) / (singles.total() + n)),
        "how often it follows the last one": mean(
            lambda b, w: (pairs[b, w] + 0.1) / (firsts[b] + 0.1 * n)
        ),
    }
