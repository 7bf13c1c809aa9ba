"""Graphs as masks: which nodes may look at which, and how many steps lie between them."""

from __future__ import annotations

import torch
from torch import Tensor

PLACES = (
    ("paris", "seine"),
    ("paris", "france"),
    ("france", "europe"),
    ("europe", "austria"),
    ("austria", "vienna"),
    ("vienna", "danube"),
    ("europe", "italy"),
    ("italy", "rome"),
    ("rome", "tiber"),
)
"""A small knowledge graph, by its edges."""


def named(edges: tuple[tuple[str, str], ...]) -> tuple[list[str], Tensor]:
    """The nodes of a graph in the order in which they come up, and its mask (N, N)."""
    names = list(dict.fromkeys(name for edge in edges for name in edge))
    return names, mask(len(names), [(names.index(a), names.index(b)) for a, b in edges])


def mask(n_nodes: int, edges: list[tuple[int, int]]) -> Tensor:
    """(N, N): a node may look at itself and at its neighbours, both ways.

    >>> mask(3, [(0, 1), (1, 2)]).int().tolist()
    [[1, 1, 0], [1, 1, 1], [0, 1, 1]]
    """
    may = torch.eye(n_nodes, dtype=torch.bool)
    for a, b in edges:
        may[a, b] = may[b, a] = True
    return may


def random_graph(n_nodes: int, n_more: int, rng: torch.Generator) -> Tensor:
    """The mask of a random tree, with ``n_more`` edges anywhere: all nodes hang together."""
    tree = [(i, _below(i, rng)) for i in range(1, n_nodes)]
    more = [(_below(n_nodes, rng), _below(n_nodes, rng)) for _ in range(n_more)]
    return mask(n_nodes, tree + more)


def hops(may: Tensor) -> Tensor:
    """(N, N): the fewest edges from each node to each other; N where there is no way.

    >>> hops(mask(4, [(0, 1), (1, 2)])).tolist()
    [[0, 1, 2, 4], [1, 0, 1, 4], [2, 1, 0, 4], [4, 4, 4, 0]]
    """
    n_nodes = len(may)
    steps = torch.full((n_nodes, n_nodes), n_nodes)
    reached = torch.eye(n_nodes, dtype=torch.bool)
    for k in range(n_nodes):
        steps[reached & (steps == n_nodes)] = k
        reached = (reached.double() @ may.double()) > 0
    return steps


def _below(n: int, rng: torch.Generator) -> int:
    return int(torch.randint(n, (), generator=rng).item())
