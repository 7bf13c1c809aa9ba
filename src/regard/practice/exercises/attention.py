"""Dot-product attention: who looks at whom, and what is brought home.

Given are queries q (T, d), keys k (S, d) and values v (S, d_v): T positions ask, S positions are
looked at. Write three functions, each of which may use the ones before it:

    scores(q, k)        how well each query matches each key: q · k / √d          (T, S)
    weights(q, k)       each query's scores as a distribution over the keys       (T, S)
    attention(q, k, v)  the mean of the values under these weights                (T, d_v)

Row t of scores and weights belongs to query t, column s to key s.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from regard.practice.sheet import Arguments, Sheet

sheet = Sheet()


@sheet.blank(
    "One matrix product compares every query with every key: (T, d) times (d, S).",
    "Transpose the keys with k.mT, and divide by math.sqrt(q.shape[-1]).",
)
def scores(q: Tensor, k: Tensor) -> Tensor:
    """q (T, d), k (S, d) -> (T, S): q_t · k_s / √d."""
    return q @ k.mT / math.sqrt(q.shape[-1])


@sheet.blank(
    "The softmax makes numbers positive and lets them sum to 1. Along which axis must they?",
    "Each row is one query's distribution: scores(q, k).softmax(dim=-1).",
)
def weights(q: Tensor, k: Tensor) -> Tensor:
    """q (T, d), k (S, d) -> (T, S): each row is positive and sums to 1 over the keys."""
    return scores(q, k).softmax(dim=-1)


@sheet.blank(
    "Each row of the weights says how much of each value goes into the mean.",
    "(T, S) times (S, d_v) is one matrix product.",
)
def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """q (T, d), k (S, d), v (S, d_v) -> (T, d_v): the weighted mean of the values."""
    return weights(q, k) @ v


# ------------------------------------------------------------------ examples


@sheet.cases(scores)
@sheet.cases(weights)
def _queries_and_keys() -> Iterator[Arguments]:
    yield {"q": torch.tensor([[1.0]]), "k": torch.tensor([[2.0], [3.0]])}
    yield {"q": torch.tensor([[1.0, 1.0, 0.0, 0.0]]), "k": 2 * torch.eye(4)[:3]}
    yield {"q": torch.eye(4)[:2], "k": torch.tensor([[4.0, 0, 0, 0], [0, 2, 0, 0], [2, 2, 0, 0]])}
    rng = torch.Generator().manual_seed(1)
    yield {"q": torch.randn(4, 9, generator=rng), "k": torch.randn(5, 9, generator=rng)}
    yield {"q": 60 * torch.eye(4)[:3], "k": 60 * torch.eye(4)}  # exp of these is infinite


@sheet.cases(attention)
def _with_values() -> Iterator[Arguments]:
    rng = torch.Generator().manual_seed(2)
    for case in _queries_and_keys():
        n_keys = len(case["k"])
        yield {**case, "v": torch.randint(-3, 4, (n_keys, 2), generator=rng).float()}
    square = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    yield {"q": square, "k": square.flip(0) + 1, "v": torch.tensor([[1.0, 2.0], [3.0, 5.0]])}


# ------------------------------------------------------------------ mistakes and laws


@sheet.mistake(scores, "your scores are not scaled: divide them by √d, the width of a key")
def _unscaled(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT


@sheet.mistake(scores, "you divide by d: divide by its square root, √d")
def _by_d(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT / q.shape[-1]


@sheet.mistake(scores, "you multiply by √d: divide by it")
def _times_root(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT * math.sqrt(q.shape[-1])


@sheet.mistake(scores, "you divide by the root of the number of keys: take that of their width, d")
def _by_keys(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT / math.sqrt(len(k))


@sheet.mistake(
    scores, "your scores are turned round: row t belongs to query t, column s to key s (q @ k.mT)"
)
def _transposed(q: Tensor, k: Tensor) -> Tensor:
    return k @ q.mT / math.sqrt(q.shape[-1])


@sheet.mistake(scores, "you divide by the lengths of the vectors (a cosine): divide by √d alone")
def _cosine(q: Tensor, k: Tensor) -> Tensor:
    return torch.nn.functional.normalize(q, dim=-1) @ torch.nn.functional.normalize(k, dim=-1).mT


@sheet.mistake(
    weights,
    "your weights sum to 1 over queries, not keys: take the softmax along the last axis (dim=-1)",
)
def _over_queries(q: Tensor, k: Tensor) -> Tensor:
    return scores(q, k).softmax(dim=0)


@sheet.mistake(
    weights, "all your weights together sum to 1: each row must, for each query asks for itself"
)
def _over_all(q: Tensor, k: Tensor) -> Tensor:
    made = scores(q, k)
    return made.flatten().softmax(dim=0).view_as(made)


@sheet.mistake(weights, "you return the scores: take the softmax of each row")
def _no_softmax(q: Tensor, k: Tensor) -> Tensor:
    return scores(q, k)


@sheet.mistake(
    weights, "you squash each score on its own (sigmoid): a row must sum to 1, so take the softmax"
)
def _sigmoid(q: Tensor, k: Tensor) -> Tensor:
    return scores(q, k).sigmoid()


@sheet.mistake(weights, "you return logarithms (log_softmax): take the softmax")
def _logarithms(q: Tensor, k: Tensor) -> Tensor:
    return scores(q, k).log_softmax(dim=-1)


@sheet.mistake(weights, "you scale a second time: scores(q, k) are divided by √d already")
def _scaled_twice(q: Tensor, k: Tensor) -> Tensor:
    return (scores(q, k) / math.sqrt(q.shape[-1])).softmax(dim=-1)


@sheet.mistake(
    weights,
    "exp overflows for large scores: subtract each row's maximum first, or take torch's softmax",
)
def _overflowing(q: Tensor, k: Tensor) -> Tensor:
    power = scores(q, k).exp()
    return power / power.sum(dim=-1, keepdim=True)


@sheet.law(weights)
def _rows_sum_to_one(result: Tensor, q: Tensor, k: Tensor) -> str | None:
    sums = result.sum(dim=-1)
    for row, total in enumerate(sums.tolist()):
        if abs(total - 1) > 1e-4:
            return f"row {row} of your weights sums to {total:.4g}: each must sum to 1"
    return None


@sheet.mistake(attention, "you return the weights: multiply the values by them")
def _only_weights(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return weights(q, k)


@sheet.mistake(attention, "you weigh the values by the bare scores: take weights(q, k)")
def _by_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scores(q, k) @ v


@sheet.mistake(attention, "you weigh the keys: the weights are for the values")
def _keys_for_values(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return weights(q, k) @ k


@sheet.mistake(attention, "every query gets the plain mean of the values: weigh them")
def _plain_mean(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return v.mean(dim=0).expand(len(q), -1)


@sheet.mistake(attention, "each query takes its best value alone: take the mean under the weights")
def _hard(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return v[scores(q, k).argmax(dim=-1)]


@sheet.law(attention)
def _between_the_values(result: Tensor, q: Tensor, k: Tensor, v: Tensor) -> str | None:
    if (result > v.max(dim=0).values + 1e-4).any() or (result < v.min(dim=0).values - 1e-4).any():
        return "a number of your result lies outside of all values: a weighted mean cannot"
    return None
