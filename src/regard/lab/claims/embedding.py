"""A network over one-hot words is a table of vectors: looking up gives the same for less work.

A word is a 1 among zeros. Times a matrix, that is a row of the matrix, so a product and a lookup
have the same outputs and the same gradients: only rows of words that were read change. A network of
several layers can take no more than one value a word either, so once trained it is a table too. The
work is counted while it is done: multiplications and additions a word.
Inputs that are not words, such as pixels or sound, have no table: there are too many of them, and
the nearest entry is not the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from regard.lab.result import Result, unmet
from regard.lab.small_models import seeded
from regard.visual.charts import bars
from regard.visual.grids import grids
from regard.visual.tables import Table

_D, _HIDDEN = 64, 128
EXACT = 1e-9


class _Apart(NamedTuple):
    """The largest differences between two ways to the same vectors."""

    outputs: float
    gradients: float
    """Of the matrix, for the same loss."""
    network: float
    """Outputs of a network of two layers, and of its table."""


def embedding(
    *, one_hot: bool = True, n_words: int = 5000, n_read: int = 64, seed: int = 0
) -> Result:
    """Product, lookup, network and its table; unless ``one_hot``, inputs are any numbers.

    Then a lookup takes the entry of the largest number, which is the nearest there is.
    """
    rng = torch.Generator().manual_seed(seed)
    ids = torch.randint(n_words, (n_read,), generator=rng)
    x = F.one_hot(ids, n_words).double()
    if not one_hot:
        x = x + torch.rand(n_read, n_words, generator=rng, dtype=torch.float64) / 2
    with seeded(seed):
        matrix = torch.randn(n_words, _D, dtype=torch.float64)
        network = nn.Sequential(
            nn.Linear(n_words, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, _D)
        ).double()
    with torch.no_grad():
        table = network(torch.eye(n_words, dtype=torch.float64))
        whole = network(x)
    (by_product, slope), (by_lookup, sparse) = _both_ways(x, ids, matrix)
    apart = _Apart(
        _most(by_product - by_lookup), _most(slope - sparse), _most(whole - F.embedding(ids, table))
    )
    times = {
        "network": _milliseconds(lambda: network(x)),
        "product": _milliseconds(lambda: _product(x, matrix)),
        "lookup": _milliseconds(lambda: _lookup(ids, matrix)),
    }
    work = {
        "network": operations(lambda: network(x)) // n_read,
        "product": operations(lambda: _product(x, matrix)) // n_read,
        "lookup": operations(lambda: _lookup(ids, matrix)) // n_read,
    }
    touched = int((sparse.abs().sum(dim=1) > 0).sum())
    parts = {
        "product and lookup agree": apart.outputs < EXACT,
        "so do their gradients": apart.gradients < EXACT,
        "a network and its table agree": apart.network < EXACT,
        "a lookup is less work than a product": work["lookup"] < work["product"],
        "a table is less work than its network": work["lookup"] < work["network"],
    }
    return Result(
        name="embedding",
        verdict=all(parts.values()),
        finding=(
            f"Of {n_words:,} words, product and lookup differ by {apart.outputs:.1g}, their "
            f"gradients by {apart.gradients:.1g}, a network of two layers and its table by "
            f"{apart.network:.1g}. Counted while they run, a network takes {work['network']:,} "
            f"operations a word, a product {work['product']:,}, a lookup {work['lookup']:,}: "
            f"product and lookup need {times['product']:.2f} and {times['lookup']:.3f} ms "
            f"for {n_read} words here. "
            f"{touched:,} rows of the matrix have a gradient.{unmet(parts)}"
        ),
        numbers={
            **{f"largest difference of {name}": one for name, one in apart._asdict().items()},
            "rows with a gradient": touched,
            "different words read": len(set(ids.tolist())),
            **{f"{name}: operations a word": one for name, one in work.items()},
            **{f"{name}: milliseconds for {n_read} words": one for name, one in times.items()},
            "megabytes of one-hot words": x.numel() * x.element_size() / 1e6,
            "megabytes of their numbers": ids.numel() * ids.element_size() / 1e6,
        },
        pictures=(
            bars(times, title=f"Time for {n_read} of {n_words:,} words", unit=" ms", digits=3),
            _gradients(seed),
        ),
        tables=(_by_hand(),),
    )


def _both_ways(x: Tensor, ids: Tensor, matrix: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Vectors and gradients: of inputs (N, V) times the matrix, and of its rows at ids (N,)."""
    ways = (lambda m: _product(x, m), lambda m: _lookup(ids, m))
    return [_with_gradient(way, matrix) for way in ways]


def _product(x: Tensor, matrix: Tensor) -> Tensor:
    """Inputs (N, V) times a matrix (V, D)."""
    return x @ matrix


def _lookup(ids: Tensor, matrix: Tensor) -> Tensor:
    """The rows of a matrix (V, D) at ids (N,)."""
    return F.embedding(ids, matrix)


def operations(work: Callable[[], Tensor]) -> int:
    """Multiplications and additions of matrix products, as torch counts them; a lookup has none."""
    with torch.no_grad(), FlopCounterMode(display=False) as counted:
        work()
    return counted.get_total_flops()


def _gradients(seed: int) -> str:
    """Of a matrix small enough to be seen: twelve words read of forty."""
    rng = torch.Generator().manual_seed(seed)
    ids = torch.randperm(40, generator=rng)[:12]
    matrix = torch.randn(40, 16, generator=rng, dtype=torch.float64)
    (_, slope), (_, sparse) = _both_ways(F.one_hot(ids, 40).double(), ids, matrix)
    panels = {"product": slope, "lookup": sparse}
    title = "Gradients of a matrix of 40 words, 12 of them read"
    return grids(panels, title=title, x_label="dimension", y_label="word")


def _with_gradient(way: Callable[[Tensor], Tensor], matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors (N, D) made of the matrix (V, D), and the gradient (V, D) of a loss that uses all."""
    leaf = matrix.clone().requires_grad_()
    vectors = way(leaf)
    vectors.sin().sum().backward()
    assert leaf.grad is not None, "every way reads the matrix"
    return vectors.detach(), leaf.grad


def _most(difference: Tensor) -> float:
    return difference.abs().max().item()


def _milliseconds(work: Callable[[], Tensor]) -> float:
    """Of the best of twenty."""
    best = float("inf")
    with torch.no_grad():
        for _ in range(20):
            start = time.perf_counter()
            work()
            best = min(best, time.perf_counter() - start)
    return 1000 * best


def _by_hand() -> Table:
    """Three words of two dimensions."""
    words, rows = ("john", "loves", "mary"), ((1, 5), (2, 4), (3, 3))
    told = []
    for i, word in enumerate(words):
        hot = [int(i == j) for j in range(3)]
        sums = (
            " + ".join(f"{h}·{row[d]}" for h, row in zip(hot, rows, strict=True)) for d in range(2)
        )
        told.append([word, str(tuple(hot)), "; ".join(sums), str(rows[i])])
    return Table("By hand", ["Word", "One-hot", "Times the matrix", "Row of the matrix"], told)
