"""Texts → ids with BPE-dropout: another segmentation each epoch, the same whenever it is asked for.

The pieces of a text depend on the seed, the epoch, the number of the text and the text itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from regard.text.draws import Keys, derive
from regard.text.merging import MergeGraph
from regard.text.tokenizer import Tokenizer

Ints = NDArray[np.int64]
Segmented = tuple[NDArray[np.int32], Ints]
"""The ids of all texts end to end, and how many each text has."""

MOST_NODES = 1_000_000
"""A larger graph is begun anew; it is a memory of what was seen, nothing depends on it."""
AT_ONCE = 1_000_000
"""Words that are segmented together, about; more would only need more memory."""


class Segmenter:
    """Cuts the same texts into pieces again and again, skipping a ``share`` of merges.

    Each text draws from one of ``keys``. Where skipped merges would give it more than ``room`` ids,
    none is skipped.
    """

    def __init__(
        self, tokenizer: Tokenizer, texts: Sequence[str], *, share: float, room: int, keys: Keys
    ) -> None:
        self._share, self._room, self._keys = share, room, keys
        self._merges = tokenizer.merges()
        numbers: dict[str, int] = {}
        parts = [
            [numbers.setdefault(part, len(numbers)) for part in tokenizer.unmerged(text)]
            for text in texts
        ]
        lengths = [len(some) for some in parts]
        self._ends: Ints = np.cumsum([0, *lengths])  # in words, of each text
        self._words = np.fromiter(chain(*parts), np.int32, sum(lengths))
        self._spelled = [tokenizer.byte_ids(word) for word in numbers]
        self._begin()

    def segment(self, epoch: int) -> Segmented:
        """All texts as an epoch has them."""
        if len(self._graph) > MOST_NODES:
            self._begin()
        done = [self._some(begin, end, epoch) for begin, end in self._slices()]
        ids, lengths = zip(*done, strict=True) if done else ((), ())
        return (
            np.concatenate([np.zeros(0, np.int32), *ids]),
            np.concatenate([np.zeros(0, np.int64), *lengths]),
        )

    def _begin(self) -> None:
        self._graph = MergeGraph(self._merges)
        self._roots = self._graph.add(self._spelled)

    def _slices(self) -> Iterator[tuple[int, int]]:
        """Runs of texts that are segmented together."""
        begin, n_texts = 0, len(self._ends) - 1
        while begin < n_texts:
            most = self._ends[begin] + AT_ONCE
            end = max(begin + 1, int(np.searchsorted(self._ends, most, side="right")) - 1)
            yield begin, end
            begin = end

    def _some(self, begin: int, end: int, epoch: int) -> Segmented:
        ends = self._ends[begin : end + 1]
        counts = np.diff(ends)
        places = np.arange(counts.sum()) - np.repeat(ends[:-1] - ends[0], counts)
        keys = derive(np.repeat(derive(self._keys[begin:end], epoch), counts), places)
        roots = self._roots[self._words[ends[0] : ends[-1]]]
        nodes = self._graph.walk(roots, keys, self._share)
        long = np.repeat(self._lengths(nodes, counts) > self._room, counts)
        nodes[long] = self._graph.walk(roots[long], keys[long], 0.0)
        return self._graph.pieces(nodes).astype(np.int32), self._lengths(nodes, counts)

    def _lengths(self, nodes: Ints, counts: Ints) -> Ints:
        """Pieces of each text, whose words are at ``nodes``."""
        n_pieces = np.cumsum(np.append(0, self._graph.n_pieces(nodes)))
        return np.diff(n_pieces[np.cumsum(np.append(0, counts))])
