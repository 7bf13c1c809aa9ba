"""Which texts share a block of attention, and which blocks share a batch.

A kernel that looks at one block of positions at a time is as fast for three short sentences as for
one long one. So texts are put into groups that fill a block as well as they can, and the groups of
an epoch are dealt out to batches like cards: large ones first, and who has most gets least. Then
all batches cost about the same, and still hold random texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from regard.data.examples import Ints


@dataclass(frozen=True, slots=True)
class Groups:
    """Texts in groups: group g is ``texts[starts[g] : starts[g + 1]]``."""

    texts: Ints
    starts: Ints

    def __len__(self) -> int:
        return len(self.starts) - 1

    def sizes(self, source: Ints, target: Ints) -> Ints:
        """(4, n groups): positions of source and target, texts, and 1, of each group."""
        before = self.starts[:-1]
        counts = np.diff(self.starts)
        totals = [np.add.reduceat(side[self.texts], before) for side in (source, target)]
        return np.stack([*totals, counts, np.ones_like(counts)])

    def only(self, numbers: Ints) -> Groups:
        """Some of the groups, in the order of their numbers."""
        counts = np.diff(self.starts)[numbers]
        starts = np.concatenate(([0], np.cumsum(counts)))
        index = np.arange(starts[-1]) + np.repeat(self.starts[numbers] - starts[:-1], counts)
        return Groups(self.texts[index], starts)


def single(n: int, rng: np.random.Generator) -> Groups:
    """Each text a group of its own, in random order."""
    return Groups(rng.permutation(n), np.arange(n + 1))


def grouped(lengths: Ints, block: int, rng: np.random.Generator) -> Groups:
    """Texts of ``lengths`` positions in groups of at most ``block``.

    Texts of equal length come in random order, so each epoch has other groups.
    """
    order = np.lexsort((rng.random(len(lengths)), lengths))
    counts = np.bincount(lengths, minlength=block + 1)
    begin = np.cumsum(counts) - counts  # where the texts of a length begin in ``order``
    texts, sizes = [], []
    for pattern, times in _patterns(counts.tolist(), block):
        columns = []
        for length in pattern:
            columns.append(order[begin[length] : begin[length] + times])
            begin[length] += times
        texts.append(np.stack(columns, axis=1).ravel())
        sizes.append(np.full(times, len(pattern)))
    return Groups(np.concatenate(texts), np.concatenate(([0], np.cumsum(np.concatenate(sizes)))))


def _patterns(counts: list[int], block: int) -> Iterator[tuple[list[int], int]]:
    """Lengths that fill a block, and how many groups are made like this.

    A group takes the longest text that is left, then again the longest that still fits. As long as
    there are texts of all its lengths, the next group is its like: so there are few patterns,
    however many texts. ``left`` has a bit for each length of which there are texts.
    """
    left = sum(1 << length for length, count in enumerate(counts) if count)
    while left:
        used: dict[int, int] = {}
        room, open_ = block, left
        while fitting := open_ & ((2 << room) - 1):
            length = fitting.bit_length() - 1
            used[length] = used.get(length, 0) + 1
            room -= length
            if used[length] == counts[length]:
                open_ ^= 1 << length
        times = min(counts[length] // n for length, n in used.items())
        for length, n in used.items():
            counts[length] -= n * times
            if not counts[length]:
                left ^= 1 << length
        yield [length for length, n in used.items() for _ in range(n)], times


def dealt(
    sizes: Ints, limits: Ints, n_batches: int, rng: np.random.Generator
) -> tuple[list[Ints], Ints]:
    """The groups of each batch, and (4,) the most that a batch holds.

    There are ``n_batches`` where there are as many groups, and more only when a batch would go
    beyond ``limits`` (4,), which a single group never does.
    """
    order = np.lexsort((rng.random(sizes.shape[1]), -sizes[1]))
    while True:
        n_batches = min(n_batches, len(order))
        hands, held = _hands(order, sizes, n_batches)
        most = held.max(axis=1)
        if (most <= limits).all():
            return [hand[hand >= 0] for hand in hands.T], most
        n_batches = max(n_batches + 1, int(n_batches * (most / limits)[:2].max()))


def _hands(order: Ints, sizes: Ints, n_batches: int) -> tuple[Ints, Ints]:
    """(rounds, n_batches) groups, −1 for none, and (4, n_batches) what each batch then holds.

    Each round gives one group to each batch, and who has most gets least: in target positions in
    one round, in source positions in the next.
    """
    n_rounds = -(-len(order) // n_batches)
    hands = np.full((n_rounds, n_batches), -1)
    hands.flat[: len(order)] = order
    known = np.append(sizes, np.zeros((4, 1), np.int64), axis=1)  # number −1 is nothing
    held = np.zeros((4, n_batches), np.int64)
    for number, hand in enumerate(hands):
        side = 1 - number % 2
        given = hand[np.argsort(known[side, hand])]
        hand[np.argsort(-held[side])] = given
        held += known[:, hand]
    return hands, held
