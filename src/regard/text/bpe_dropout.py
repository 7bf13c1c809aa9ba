"""BPE-dropout: texts are cut into other pieces each epoch (Provilkov et al. 2020).

Byte-pair encoding starts with the bytes of a word and again and again joins the two neighbours
whose merge was learned first. BPE-dropout skips each merge that is possible with probability p, at
every step anew: so of the possible merges in their order, the k-th from 0 is made with probability
(1 − p) pᵏ, and with what is left over the word is done.

The pieces of a text depend on the seed, the epoch, the number of the text and the text itself, so
they are the same whenever they are asked for, whatever came before. They are made one epoch ahead
by a process beside the training (``python -m regard.text.bpe_dropout``). A process, since a thread
would hold up the training; not one of ``multiprocessing``, which would run the user's own script a
second time.
"""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, pairwise
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import TrainingError
from regard.text.tokenizer import Tokenizer

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]
"""Random numbers by name: a draw depends on its key, not on what was drawn before."""
Pieces = tuple[int, ...]
Merges = Mapping[tuple[int, int], tuple[int, int]]
"""Two neighbours → when their merge was learned, and what they become."""
Segmented = tuple[NDArray[np.int32], Ints]
"""The ids of all texts end to end, and how many each text has."""

MOST_NODES = 1_000_000
"""A larger graph is begun anew; it is a memory of what was seen, nothing depends on it."""
AT_ONCE = 1_000_000
"""Words that are segmented together, about; more would only need more memory."""

_STEP = np.uint64(0x9E3779B97F4A7C15)
_UNSEEN = -1


def derive(keys: Keys, numbers: NDArray[np.int64] | int) -> Keys:
    """A new key for each key and number, mixed as in SplitMix64 (Steele et al. 2014)."""
    # Arrays wrap around; numpy warns where single numbers do.
    mixed = keys + np.atleast_1d(numbers).astype(np.uint64) * _STEP + _STEP
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def uniform(keys: Keys, number: int) -> NDArray[np.float64]:
    """A number from 0 to below 1 for each key."""
    return (derive(keys, number) >> np.uint64(11)).astype(np.float64) * 2.0**-53


class _Growing:
    """Numbers that more are put behind again and again, at a cost that grows with those alone."""

    def __init__(self) -> None:
        self.n = 0
        self._room = np.zeros(1024, np.int64)

    def extend(self, numbers: Ints) -> None:
        """Put them behind those there are; where room is short, more than twice as much is made."""
        end = self.n + len(numbers)
        if end > len(self._room):
            self._room = np.concatenate([self._room[: self.n], np.zeros(2 * end, np.int64)])
        self._room[self.n : end] = numbers
        self.n = end

    def __getitem__(self, at: Any) -> Any:
        return self._room[at]

    def __setitem__(self, at: Ints, numbers: Sequence[int]) -> None:
        self._room[at] = numbers


class MergeGraph:
    """What words may become: a node is a word in pieces, its edges the merges that are possible.

    Nodes are added when somebody first comes there; after that, walking is a few array operations
    for all words of a corpus at once.
    """

    def __init__(self, merges: Merges) -> None:
        self._merges = merges
        self._nodes: dict[Pieces, int] = {}
        self._new: list[Pieces] = []  # nodes that the arrays do not hold yet
        self._longest = 0
        self._pieces, self._first_piece, self._n_pieces = (_Growing() for _ in range(3))  # of nodes
        self._first_edge, self._n_edges = _Growing(), _Growing()
        # Of edges: where they merge, what comes of it, and the node that they lead to.
        self._places, self._joined, self._ends = (_Growing() for _ in range(3))

    def __len__(self) -> int:
        return len(self._nodes)

    def add(self, words: Iterable[Pieces]) -> Ints:
        """The node of each word, which is given as its smallest pieces."""
        nodes = np.array([self._node(word) for word in words], np.int64)
        self._grow()
        return nodes

    def walk(self, nodes: Ints, keys: Keys, share: float) -> Ints:
        """Where words end up that start at ``nodes``, a ``share`` of edges being refused."""
        nodes, steps = nodes.copy(), _thresholds(share, self._longest)
        moving = np.arange(len(nodes))
        for step in range(self._longest):
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
        self._first_edge.extend(self._ends.n + _before(n_edges))
        self._first_piece.extend(self._pieces.n + _before(n_pieces))
        self._n_edges.extend(n_edges)
        self._n_pieces.extend(n_pieces)
        self._pieces.extend(_flat(self._new))
        self._ends.extend(np.full(n_edges.sum(), _UNSEEN))
        found = _flat([edge for some in edges for edge in some]).reshape(-1, 3)
        self._places.extend(found[:, 1])
        self._joined.extend(found[:, 2])
        self._longest = max(self._longest, int(n_pieces.max(initial=0)))
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


class BpeDropout:
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
        found = [(np.zeros(0, np.int32), np.zeros(0, np.int64))]
        begin, n_texts = 0, len(self._ends) - 1
        while begin < n_texts:
            most = self._ends[begin] + AT_ONCE
            end = max(begin + 1, int(np.searchsorted(self._ends, most, side="right")) - 1)
            found.append(self._some(begin, end, epoch))
            begin = end
        ids, lengths = zip(*found, strict=True)
        return np.concatenate(ids), np.concatenate(lengths)

    def _begin(self) -> None:
        self._graph = MergeGraph(self._merges)
        self._roots = self._graph.add(self._spelled)

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


class BpeDropoutProcess:
    """Segments texts one epoch ahead; a side is a tokenizer and texts, of ``room`` ids."""

    def __init__(
        self,
        sides: Sequence[tuple[Tokenizer, Sequence[str]]],
        *,
        room: int,
        share: float,
        seed: int,
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "regard.text.bpe_dropout"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        weakref.finalize(self, _end, self._process)
        parts = [(tokenizer.to_json(), list(texts)) for tokenizer, texts in sides]
        self._tell((parts, room, share, seed))
        self._ask(0)

    def segmented(self, epoch: int) -> list[Segmented]:
        """The ids of each side in an epoch; the next one is prepared meanwhile."""
        if self._asked != epoch:
            self._hear()  # nobody wants it any more
            self._ask(epoch)
        found = self._hear()
        self._ask(epoch + 1)
        return found

    def _ask(self, epoch: int) -> None:
        self._asked = epoch
        self._tell(epoch)

    def _tell(self, message: object) -> None:
        assert self._process.stdin is not None
        try:
            _send(self._process.stdin, message)
        except OSError:
            raise self._gone() from None

    def _hear(self) -> list[Segmented]:
        assert self._process.stdout is not None
        try:
            return pickle.load(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            raise self._gone() from None

    def _gone(self) -> TrainingError:
        return TrainingError(
            f"the process that segments texts for bpe_dropout ended (code {self._process.wait()}); "
            "see above why, or whether memory was short, then go on with --resume (resume=True)"
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    """A process that nobody listens to has nothing to lose."""
    process.kill()
    with suppress(OSError), process:  # closes its pipes: what was not yet told is not told
        pass


def _send(pipe: IO[bytes], message: object) -> None:
    pickle.dump(message, pipe, protocol=pickle.HIGHEST_PROTOCOL)
    pipe.flush()


def _serve(inbox: IO[bytes], outbox: IO[bytes]) -> None:
    """Answer until the pipe ends."""
    parts, room, share, seed = pickle.load(inbox)
    segmenters = []
    for number, (tokenizer, texts) in enumerate(parts):
        side = derive(np.array([seed % 2**64], np.uint64), number)
        keys = derive(side, np.arange(len(texts)))
        inner = Tokenizer.from_json(tokenizer)
        segmenters.append(BpeDropout(inner, texts, share=share, room=room, keys=keys))
    while True:
        epoch: int = pickle.load(inbox)
        _send(outbox, [segmenter.segment(epoch) for segmenter in segmenters])


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the training ends us when it ends
    try:
        _serve(sys.stdin.buffer, sys.stdout.buffer)
    except (EOFError, BrokenPipeError):
        sys.stdout = None  # nothing is flushed into a closed pipe
