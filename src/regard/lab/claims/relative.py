"""The dot product of two sinusoids depends on their distance alone, and not on its direction.

PE(a)·PE(b) is the sum of cos((a - b)·ω) over the frequencies ω, and a cosine does not know left
from right. Attention compares PE(a) W_q with PE(b) W_k. Random matrices end both properties, one
random matrix for both ends the first. A W_k that turns each pair of numbers by an angle of ω keeps
the first and brings back direction: it makes PE(b + 1) of PE(b), so that each position asks for the
one before it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from regard.core.errors import ConfigError
from regard.functional.positions import sinusoid
from regard.lab.result import Result, lines

Projection = Literal["none", "shared", "random", "turn"]
KINDS: tuple[Projection, ...] = ("none", "shared", "random", "turn")
_D = 64
EXACT = 1e-4
"""Of the range of the products: sinusoids are single precision."""


class _Measured(NamedTuple):
    products: Tensor
    """(n, n): query position a, key position b."""
    spread: float
    """The most that products at one b - a differ, as a share of the range of all."""
    lean: float
    """The most that the products of (a, b) and (b, a) differ, likewise."""
    best: int
    """The offset b - a of the largest product, on average over a."""


def relative(*, projection: Projection = "none", n_positions: int = 64, seed: int = 0) -> Result:
    """Products of all pairs of positions, as they are and through three kinds of W_q and W_k."""
    codes = sinusoid(torch.arange(n_positions), _D).double()
    found = {kind: _measure(codes, *_matrices(kind, seed)) for kind in KINDS}
    if projection not in found:
        raise ConfigError(f"no projection {projection!r}; known: {', '.join(KINDS)}")
    asked = found[projection]
    verdict = asked.spread < EXACT and asked.lean < EXACT
    shared, random, turn = found["shared"], found["random"], found["turn"]
    finding = (
        f"At one distance products differ by {asked.spread:.1g} of their range, to the left and to "
        f"the right by {asked.lean:.1g}"
    )
    if verdict:
        finding += (
            f". Random W_q and W_k end both ({random.spread:.2f} and {random.lean:.2f}), one "
            f"random W for both ends the first ({shared.spread:.2f} and {shared.lean:.1g}). A W_k "
            f"that turns each pair by one step keeps the first ({turn.spread:.1g}) and knows left "
            f"from right: its products are largest at an offset of {turn.best}."
        )
    else:
        finding += ": W_q and W_k change what the sinusoids say."
    return Result(
        name="relative",
        verdict=verdict,
        finding=finding,
        numbers={
            "projection": projection,
            **{f"{kind}: spread at one distance": one.spread for kind, one in found.items()},
            **{f"{kind}: left and right differ": one.lean for kind, one in found.items()},
            **{f"{kind}: best offset": one.best for kind, one in found.items()},
        },
        pictures=_pictures(found),
    )


def _matrices(kind: Projection, seed: int) -> tuple[Tensor, Tensor]:
    """W_q and W_k (D, D)."""
    same = torch.eye(_D, dtype=torch.float64)
    if kind == "none":
        return same, same
    if kind == "turn":
        return same, _one_step()
    rng = torch.Generator().manual_seed(seed)
    w_q, w_k = torch.randn(2, _D, _D, generator=rng, dtype=torch.float64) / _D**0.5
    return w_q, w_q if kind == "shared" else w_k


def _one_step() -> Tensor:
    """(D, D): turns PE(b) into PE(b + 1), pair by pair."""
    sin, cos = sinusoid(torch.tensor(1), _D).double().unflatten(0, (-1, 2)).T
    pairs = torch.stack((torch.stack((cos, -sin), dim=1), torch.stack((sin, cos), dim=1)), dim=1)
    return torch.block_diag(*pairs)


def _measure(codes: Tensor, w_q: Tensor, w_k: Tensor) -> _Measured:
    products = (codes @ w_q) @ (codes @ w_k).T
    n = len(products)
    size = (products.max() - products.min()).item()
    # The corners hold too few pairs to say anything about their distance.
    lines = {offset: products.diagonal(offset) for offset in range(-n // 2, n // 2 + 1)}
    spread = max((line.max() - line.min()).item() for line in lines.values())
    lean = (products - products.T).abs().max().item()
    best = max(lines, key=lambda offset: lines[offset].mean().item())
    return _Measured(products, spread / size, lean / size, best)


def _pictures(found: dict[Projection, _Measured]) -> tuple[str, str]:
    n, random = len(found["none"].products), found["random"].products
    labels = ("offset b − a", "product")
    plain, turned = (_from(found[kind].products, n // 2, 8) for kind in ("none", "turn"))
    two = {"PE(a)·PE(b)": plain, "with a W_k that turns by one step": turned}
    three = {f"a = {a}": _from(random, a, n) for a in (n // 4, n // 2, 3 * n // 4)}
    return (
        lines(two, f"Products with position {n // 2}", *labels),
        lines(three, "With random W_q and W_k", *labels),
    )


def _from(products: Tensor, a: int, reach: int) -> dict[float, float]:
    row = products[a].tolist()
    return {float(b - a): value for b, value in enumerate(row) if abs(b - a) <= reach}
