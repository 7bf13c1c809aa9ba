"""The permutation proof in numbers: attention alone does not know the order of words.

Two sentences have the same words in another order: word j of the first, x_j, stands at place g_j of
the second (*john loves mary*, *mary loves john*: g = 2, 1, 0). Self-attention without positions
brings each word the same, wherever it stands. Show it step by step, as a proof would:

    shuffled(x, g)                 the second sentence                            (J, d)
    steps(x, w_q, w_k, w_v)        values v, scores e, weights a, outputs o of a sentence
    disagreement(first, second, g) the largest difference between v_j and v_{g_j} of the other
                                   sentence, e_{j,j'} and e_{g_j,g_j'}, and so on
    shuffled_in_place(x, g, p)     the second sentence, with positions p added    (J, d)

All numbers of disagreement are then 0, but no longer when positions are added.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from regard.practice.sheet import Arguments, Sheet

sheet = Sheet()


@sheet.blank(
    "Word j goes to row g[j] of the result.",
    "Make an empty tensor like x, and assign: result[g] = x.",
)
def shuffled(x: Tensor, g: Tensor) -> Tensor:
    """x (J, d), g (J,) a permutation of 0 … J-1 -> (J, d), whose row g_j is x_j."""
    result = torch.empty_like(x)
    result[g] = x
    return result


@sheet.blank(
    "Queries, keys and values are x @ w_q, x @ w_k, x @ w_v.",
    "e = q @ k.mT / √d_k; a is its softmax over the keys; o = a @ v.",
)
def steps(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> dict[str, Tensor]:
    """Self-attention of x (J, d), each w (d, d_k): {"v": …, "e": …, "a": …, "o": …}.

    v and o are (J, d_k), the scores e and the weights a (J, J).
    """
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    e = q @ k.mT / math.sqrt(k.shape[-1])
    a = e.softmax(dim=-1)
    return {"v": v, "e": e, "a": a, "o": a @ v}


@sheet.blank(
    "Pick rows of the second sentence's v and o by g: second['v'][g] lines up with first['v'].",
    "e and a have a word on both axes: second['e'][g][:, g].",
)
def disagreement(
    first: dict[str, Tensor], second: dict[str, Tensor], g: Tensor
) -> dict[str, float]:
    """The largest absolute difference of v, e, a and o, word by word: {"v": …, …, "o": …}."""
    lined_up = {
        "v": second["v"][g],
        "e": second["e"][g][:, g],
        "a": second["a"][g][:, g],
        "o": second["o"][g],
    }
    return {name: (first[name] - one).abs().max().item() for name, one in lined_up.items()}


@sheet.blank(
    "A position belongs to a place, not to a word: which comes first, shuffling or adding?",
    "shuffled(x, g) + p",
)
def shuffled_in_place(x: Tensor, g: Tensor, p: Tensor) -> Tensor:
    """The second sentence with p (J, d) added, whose row j is the code of place j."""
    return shuffled(x, g) + p


# ------------------------------------------------------------------ examples

_ORDERS = ([1, 0], [1, 2, 0], [3, 1, 0, 2, 4])


@sheet.cases(shuffled)
def _sentences() -> Iterator[Arguments]:
    for order in _ORDERS:
        n = len(order)
        yield {"x": torch.arange(2.0 * n).view(n, 2), "g": torch.tensor(order)}


@sheet.cases(shuffled_in_place)
def _sentences_and_places() -> Iterator[Arguments]:
    for case in _sentences():
        yield {**case, "p": 10.0 * torch.arange(len(case["g"])).unsqueeze(1).expand_as(case["x"])}


@sheet.cases(steps)
def _projected() -> Iterator[Arguments]:
    one = torch.eye(2)
    yield {"x": one, "w_q": 2 * one, "w_k": one, "w_v": 3 * one}
    rng = torch.Generator().manual_seed(1)
    drawn = {name: torch.randn(5, 4, generator=rng) for name in ("w_q", "w_k", "w_v")}
    yield {"x": torch.randn(3, 5, generator=rng), **drawn}


@sheet.cases(disagreement)
def _pairs() -> Iterator[Arguments]:
    rng = torch.Generator().manual_seed(2)
    drawn = {name: torch.randn(2, 2, generator=rng) for name in ("w_q", "w_k", "w_v")}
    for case in _sentences():
        x, g = case["x"] - 2, case["g"]
        yield {"first": steps(x, **drawn), "second": steps(shuffled(x, g), **drawn), "g": g}
        p = torch.randn(x.shape, generator=rng)
        placed = steps(shuffled_in_place(x, g, p), **drawn)
        yield {"first": steps(x + p, **drawn), "second": placed, "g": g}


# ------------------------------------------------------------------ mistakes


@sheet.mistake(
    shuffled,
    "you go the way back: x[g] puts word g_j at place j; word j must come to place g_j "
    "(result[g] = x)",
)
def _inverse(x: Tensor, g: Tensor) -> Tensor:
    return x[g]


@sheet.mistake(shuffled, "you reverse the sentence: move word j to place g_j")
def _reversed(x: Tensor, g: Tensor) -> Tensor:
    return x.flip(0)


def _steps(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, scale: float, axis: int
) -> dict[str, Tensor]:
    made = steps(x, w_q, w_k, w_v)
    e = (x @ w_q) @ (x @ w_k).mT / scale
    a = e.softmax(dim=axis)
    return {"v": made["v"], "e": e, "a": a, "o": a @ made["v"]}


@sheet.mistake(steps, "your scores are not scaled: divide them by √d_k")
def _unscaled(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> dict[str, Tensor]:
    return _steps(x, w_q, w_k, w_v, 1.0, -1)


@sheet.mistake(steps, "you divide the scores by d_k: divide by its square root")
def _by_width(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> dict[str, Tensor]:
    return _steps(x, w_q, w_k, w_v, w_k.shape[-1], -1)


@sheet.mistake(
    steps, "your weights sum to 1 over queries, not keys: softmax along the last axis (dim=-1)"
)
def _over_queries(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> dict[str, Tensor]:
    return _steps(x, w_q, w_k, w_v, math.sqrt(w_k.shape[-1]), 0)


@sheet.mistake(disagreement, "you compare place with place: line the second sentence up by g first")
def _by_place(first: dict[str, Tensor], second: dict[str, Tensor], g: Tensor) -> dict[str, float]:
    return disagreement(first, second, torch.arange(len(g)))


@sheet.mistake(
    disagreement,
    "of e and a you line up the rows alone: their columns are words, too, second['e'][g][:, g]",
)
def _rows_alone(first: dict[str, Tensor], second: dict[str, Tensor], g: Tensor) -> dict[str, float]:
    return {name: (first[name] - second[name][g]).abs().max().item() for name in "veao"}


@sheet.mistake(
    disagreement,
    "you line up the wrong way round: v_j belongs to v_{g_j} of the second, second['v'][g]",
)
def _backwards(first: dict[str, Tensor], second: dict[str, Tensor], g: Tensor) -> dict[str, float]:
    return disagreement(first, second, g.argsort())


@sheet.mistake(disagreement, "differences of two signs cancel: take the absolute ones")
def _signed(first: dict[str, Tensor], second: dict[str, Tensor], g: Tensor) -> dict[str, float]:
    rows = {name: second[name][g] for name in "vo"} | {name: second[name][g][:, g] for name in "ea"}
    return {name: (first[name] - rows[name]).max().item() for name in "veao"}


@sheet.mistake(
    shuffled_in_place,
    "your positions travel with the words: add them after shuffling, for they belong to the places",
)
def _travelling(x: Tensor, g: Tensor, p: Tensor) -> Tensor:
    return shuffled(x + p, g)


@sheet.mistake(shuffled_in_place, "the positions are missing: add p")
def _without_positions(x: Tensor, g: Tensor, p: Tensor) -> Tensor:
    return shuffled(x, g)
