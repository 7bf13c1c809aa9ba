"""Words → pieces by merging, where merges may be skipped at random (Provilkov et al. 2020).

Byte-pair encoding starts with the bytes of a word and again and again joins the two neighbours
whose merge was learned first. BPE-dropout skips each merge that is possible with probability p, at
every step anew: so of the possible merges in their order, the k-th from 0 is made with probability
(1 − p) pᵏ, and with what is left over the word is done.

What can become of a word is a graph: a node is a word in pieces, its edges are the possible merges
in their order. Nodes are added when somebody first comes there; after that, walking is a few array
operations for all words of a corpus at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from regard.text.draws import Keys, uniform

Ints = NDArray[np.int64]
Pieces = tuple[int, ...]
Merges = Mapping[tuple[int, int], tuple[int, int]]
"""Two neighbours → when their merge was learned, and what they become."""

_UNSEEN = -1
_NONE = np.zeros(0, np.int64)


class MergeGraph:
    """What words may become; the same words give the same pieces, whoever was here before."""

    def __init__(self, merges: Merges) -> None:
        self._merges = merges
        self._nodes: dict[Pieces, int] = {}
        self._new: list[Pieces] = []  # nodes that the arrays do not hold yet
        self._pieces, self._first_piece, self._n_pieces = _NONE, _NONE, _NONE  # of nodes
        self._first_edge, self._n_edges = _NONE, _NONE
        self._places, self._joined, self._ends = _NONE, _NONE, _NONE  # of edges: where, what comes
        # of it, and the node that it leads to

    def __len__(self) -> int:
        return len(self._nodes)

    def add(self, words: Iterable[Pieces]) -> Ints:
        """The node of each word, which is given as its smallest pieces."""
        nodes = np.array([self._node(word) for word in words], np.int64)
        self._grow()
        return nodes

    def walk(self, nodes: Ints, keys: Keys, share: float) -> Ints:
        """Where words end up that start at ``nodes``, each edge being refused a ``share`` of times.

        A word draws from its key, and from nothing else.
        """
        longest = int(self._n_pieces.max(initial=0))
        nodes, steps = nodes.copy(), _thresholds(share, longest)
        moving = np.arange(len(nodes))
        for step in range(longest):
            at = nodes[moving]
            # P(at least k are refused) = shareᵏ: count the powers that the draw lies below.
            drawn = uniform(keys[moving], step)
            refused = len(steps) - np.searchsorted(steps, drawn, side="right")
            goes = (refused < self._n_edges[at]) & (refused < len(steps))
            moving, at = moving[goes], at[goes]
            if not len(moving):
                break
            nodes[moving] = self._follow(at, refused[goes])
        return nodes

    def n_pieces(self, nodes: Ints) -> Ints:
        """How many pieces a word has at each of ``nodes``."""
        return self._n_pieces[nodes]

    def pieces(self, nodes: Ints) -> Ints:
        """All pieces of words that are at ``nodes``, end to end."""
        counts = self._n_pieces[nodes]
        shift = np.repeat(self._first_piece[nodes] - _before(counts), counts)
        return self._pieces[np.arange(len(shift)) + shift]

    def _follow(self, nodes: Ints, choices: Ints) -> Ints:
        """The nodes at the ends of edges; those that nobody has seen are made."""
        edges = self._first_edge[nodes] + choices
        unseen = np.flatnonzero(self._ends[edges] == _UNSEEN)
        if len(unseen):
            new, at = np.unique(edges[unseen], return_index=True)
            self._ends[new] = list(map(self._merged, nodes[unseen[at]].tolist(), new.tolist()))
            self._grow()
        return self._ends[edges]

    def _merged(self, node: int, edge: int) -> int:
        """The node where an edge of a node leads to."""
        begin = self._first_piece[node]
        name = self._pieces[begin : begin + self._n_pieces[node]].tolist()
        place = self._places[edge]
        name[place : place + 2] = [int(self._joined[edge])]
        return self._node(tuple(name))

    def _node(self, name: Pieces) -> int:
        number = self._nodes.get(name)
        if number is None:
            number = self._nodes[name] = len(self._nodes)
            self._new.append(name)
        return number

    def _grow(self) -> None:
        """Take new nodes and their edges into the arrays."""
        edges = [self._possible(name) for name in self._new]
        n_edges, n_pieces = _sizes(edges), _sizes(self._new)
        self._first_edge = np.append(self._first_edge, len(self._ends) + _before(n_edges))
        self._first_piece = np.append(self._first_piece, len(self._pieces) + _before(n_pieces))
        self._n_edges = np.append(self._n_edges, n_edges)
        self._n_pieces = np.append(self._n_pieces, n_pieces)
        self._pieces = np.append(self._pieces, _flat(self._new))
        self._ends = np.append(self._ends, np.full(n_edges.sum(), _UNSEEN))
        found = _flat([edge for some in edges for edge in some]).reshape(-1, 3)
        self._places = np.append(self._places, found[:, 1])
        self._joined = np.append(self._joined, found[:, 2])
        self._new = []

    def _possible(self, name: Pieces) -> list[tuple[int, int, int]]:
        """The merges of a word in pieces: when learned, where, what comes of it; in order."""
        found = map(self._merges.get, pairwise(name))
        return sorted((one[0], place, one[1]) for place, one in enumerate(found) if one)


def _sizes(parts: Sequence[Sequence[object]]) -> Ints:
    return np.fromiter(map(len, parts), np.int64, len(parts))


def _flat(parts: Sequence[Sequence[int]]) -> Ints:
    return np.fromiter(chain(*parts), np.int64, sum(map(len, parts)))


def _before(counts: Ints) -> Ints:
    return np.cumsum(counts) - counts


def _thresholds(share: float, most: int) -> NDArray[np.float64]:
    """shareᵏ for k = …, 2, 1: up to one that no draw lies below, or to ``most``.

    No word has as many merges as pieces, so what is refused more often than that is done.
    """
    powers = [share]
    while 2.0**-53 < powers[-1] < 1 and len(powers) < most:
        powers.append(powers[-1] * share)
    return np.array(powers[::-1])
