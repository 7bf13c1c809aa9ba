"""Payloads made by hand or drawn at random: what every picture of a look is given."""

import numpy as np

EVIL = "<img src=x onerror=alert(1)>"


def payload(source=("a", EVIL, "c"), target=("x", "y"), n_layers=2, n_heads=3, seed=0, sharp=2.0):
    """Random weights of three attentions; the end tokens are added here."""
    rng = np.random.default_rng(seed)
    source, target = [*source, "</s>"], [*target, "</s>"]
    S, T = len(source), len(target)

    def weights(t, s, causal=False):
        scores = sharp * rng.normal(size=(n_layers, n_heads, t, s))
        if causal:
            scores = np.where(np.tril(np.ones((t, s))) > 0, scores, -np.inf)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return (powers / powers.sum(-1, keepdims=True)).astype(np.float32).tolist()

    return {
        "source": " ".join(source[:-1]),
        "translation": " ".join(target[:-1]),
        "source_tokens": source,
        "target_tokens": target,
        "attentions": {
            "encoder.self": weights(S, S),
            "decoder.self": weights(T, T, causal=True),
            "decoder.cross": weights(T, S),
        },
        "axes": {
            "encoder.self": {"rows": "source", "columns": "source"},
            "decoder.self": {"rows": "target", "columns": "input"},
            "decoder.cross": {"rows": "target", "columns": "source"},
        },
        "edits": [],
    }


def steps(look, token, *, name="decoder.cross", layer=1, head=0, d=5, d_model=7):
    """Steps whose weights are the look's; the last key is hidden. Keys are those of any token."""
    weights = np.array(look["attentions"][name][layer][head][token])
    S = len(weights)
    keys, values = np.random.default_rng(1).normal(size=(2, S, d))
    query, sum_ = np.random.default_rng(2 + token).normal(size=d), weights @ values
    scores = (keys @ query).tolist()
    added = np.random.default_rng(3).normal(size=(d, d_model)).T @ sum_
    return {
        "name": name,
        "layer": layer,
        "head": head,
        "token": token,
        "row": look["target_tokens"][token],
        "columns": look["source_tokens"],
        "query": query.tolist(),
        "keys": keys.tolist(),
        "scores": [*scores[:-1], None],
        "scale": 0.5,
        "scaled": [*(0.5 * score for score in scores[:-1]), None],
        "visible": [True] * (S - 1) + [False],
        "prior": None,
        "weights": weights.tolist(),
        "values": values.tolist(),
        "weighted": (weights[:, None] * values).tolist(),
        "sum": sum_.tolist(),
        "projected": added.tolist(),
        "residual": added.tolist(),
    }


def tree():
    """Two beams, two steps: one hypothesis pruned, one finished, one the best."""
    rows = [
        (0, None, 0, "<s>", 0.0, 0.0, "open", ""),
        (1, 0, 1, "le", -0.1, -0.1, "open", ""),
        (2, 0, 1, EVIL, -2.0, -2.0, "pruned", "third of 2"),
        (3, 0, 1, "la", -0.5, -0.5, "open", ""),
        (4, 1, 2, "chat", -0.2, -0.3, "best", ""),
        (5, 3, 2, "rue", -0.5, -1.0, "finished", ""),
    ]
    keys = ("id", "parent", "step", "token", "log_prob", "score", "state", "why")
    return {"n_beams": 2, "nodes": [dict(zip(keys, row, strict=True)) for row in rows]}
