"""Slow and obvious answers by loops. They share no function with the package."""

import itertools
import math

import torch


def qkv(rng, *, B=2, H=3, T=4, S=5, Dq=6, Dk=6, Dv=7):
    """Random double-precision queries, keys and values of all different sizes."""
    q = torch.randn(B, H, T, Dq, generator=rng, dtype=torch.float64)
    k = torch.randn(B, H, S, Dk, generator=rng, dtype=torch.float64)
    v = torch.randn(B, H, S, Dv, generator=rng, dtype=torch.float64)
    return q, k, v


def attend_by_loops(q, k, v, mask, pair_score, prior=None):
    """No matmul, no softmax, no broadcasting. ``pair_score(b, h, t, s)`` -> number or -inf."""
    B, H, T, _ = q.shape
    S, Dv = v.shape[-2:]
    values = torch.zeros(B, H, T, Dv, dtype=q.dtype)
    weights = torch.zeros(B, H, T, S, dtype=q.dtype)
    allowed = torch.ones(B, H, T, S, dtype=torch.bool) if mask is None else mask.expand(B, H, T, S)
    for b, h, t in itertools.product(range(B), range(H), range(T)):
        scores = {s: pair_score(b, h, t, s) for s in range(S) if allowed[b, h, t, s]}
        powers = {s: math.exp(score) for s, score in scores.items() if score > -math.inf}
        total = sum(powers.values())
        for s, power in powers.items():
            weights[b, h, t, s] = power / total
            if prior is not None:
                weights[b, h, t, s] *= prior(b, h, t, s)
            for d in range(Dv):
                values[b, h, t, d] += weights[b, h, t, s] * v[b, h, s, d]
    return values, weights


def inner(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def _dot(q, k, _p, _s):
    return inner(q, k)


def _scaled_dot(q, k, _p, _s):
    return inner(q, k) / math.sqrt(len(k))


def _general(q, k, p, _s):
    return sum(q[i] * p["weight"][i][j] * k[j] for i in range(len(q)) for j in range(len(k)))


def _content(q, k, p, _s):
    cosine = inner(q, k) / math.sqrt(inner(q, q) * inner(k, k))
    beta = 1.0
    if "log_beta" in p:
        beta = math.exp(p["log_beta"])
    if "to_beta" in p:
        beta = math.log(1 + math.exp(inner(p["to_beta"], q)))
    return beta * cosine


def _additive(q, k, p, _s):
    hidden = [
        math.tanh(
            sum(q[i] * p["w_query"][i][a] for i in range(len(q)))
            + sum(k[i] * p["w_key"][i][a] for i in range(len(k)))
        )
        for a in range(len(p["v"]))
    ]
    return inner(p["v"], hidden)


def _tanh_product(q, k, p, _s):
    return sum(
        p["v"][a]
        * math.tanh(sum(q[i] * p["w_query"][i][a] for i in range(len(q))))
        * math.tanh(sum(k[i] * p["w_key"][i][a] for i in range(len(k))))
        for a in range(len(p["v"]))
    )


def _location(q, _k, p, s):
    return inner(p["table"][s], q) if s < len(p["table"]) else -math.inf


PAIR_SCORES = {
    "content": _content,
    "additive": _additive,
    "tanh_product": _tanh_product,
    "location": _location,
    "general": _general,
    "dot": _dot,
    "scaled_dot": _scaled_dot,
}
"""(query, key, parameters of the head as lists, position of the key) -> score."""


def pair_score_of(score, q, k):
    """The loop version of a ``regard.Score`` on given queries and keys."""
    one = PAIR_SCORES[score.name]

    def pair_score(b, h, t, s):
        parameters = {
            name: (p[h] if p.dim() > 0 and score_has_heads(score, name) else p).tolist()
            for name, p in score.named_parameters()
        }
        return one(q[b, h, t].tolist(), k[b, h, s].tolist(), parameters, s)

    return pair_score


def score_has_heads(score, name):
    plain = {"weight": 2, "w_query": 2, "w_key": 2, "v": 1, "table": 2, "log_beta": 0, "to_beta": 1}
    return getattr(score, name).dim() > plain[name]


def slots_by_loops(x, weight, null):
    """x (B, H, S, D), weight (H, 3·D, D), null (H, 1, D) -> (B, H, 1 + S // 3, D).

    A convolution of kernel and stride 3 over positions, and the null before what comes out.
    """
    B, H, S, D = x.shape
    slots = torch.zeros(B, H, 1 + S // 3, D, dtype=x.dtype)
    for b, h, d in itertools.product(range(B), range(H), range(D)):
        slots[b, h, 0, d] = null[h, 0, d]
        for j in range(S // 3):
            slots[b, h, 1 + j, d] = sum(
                x[b, h, 3 * j + tap, i] * weight[h, tap * D + i, d]
                for tap in range(3)
                for i in range(D)
            )
    return slots


def block_mask_by_loops(n, length, *, causal):
    """(n, n): a position sees those of its own block, and with ``causal`` none after it."""
    blocks = [position // length for position in range(n)]
    return torch.tensor(
        [[blocks[t] == blocks[s] and (s <= t or not causal) for s in range(n)] for t in range(n)]
    )


def slot_mask_by_loops(n, *, causal):
    """(n, 1 + n // 3): the null always; a slot if all its positions are there already."""
    return torch.tensor(
        [
            [True] + [not causal or max(3 * j, 3 * j + 1, 3 * j + 2) <= t for j in range(n // 3)]
            for t in range(n)
        ]
    )
