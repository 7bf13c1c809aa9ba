"""Which examples share a batch: plans that know lengths and nothing else.

**Padded.** Padding is paid for on both sides, so a batch should hold examples that are alike in
both lengths. Examples are points in a plane, target length by source length. The plane is cut into
strips of similar target length; each strip is walked along by source length, up one and down the
next; and the walk is cut into batches where that costs least.

**Tiled.** Launches that are recorded can be repeated for batches of the same shape alone. So both
sides of a batch are padded to one of few lengths, and its rows to as many as a batch of that length
has room for.

**Packed.** A kernel that looks at one block of positions at a time is as fast for three short
sentences as for one long one. So texts are put into groups that fill a block as well as they can,
and the groups of an epoch are dealt out to batches like cards: large ones first, and who has most
gets least. Then all batches cost about the same, and still hold random texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from regard.data.examples import Ints

OVERHEAD = 0.1
"""What a batch costs beyond its positions, in full batches: else the best batches are tiny."""
REACH = 128
"""Among how many steps back a cut is searched for."""


def buckets(source: Ints, target: Ints, batch_tokens: int, rng: np.random.Generator) -> list[Ints]:
    """Batches in random order, each of at most ``batch_tokens`` positions on its longer side.

    ``source`` and ``target`` are the positions that each example fills. One that is longer than
    ``batch_tokens`` makes a batch of its own. Where strips begin is random, and so is the order of
    equals: examples meet other company each epoch.
    """
    strips = _strips(source, target, batch_tokens, rng)
    upward = np.where(strips % 2 == 0, source, -source)
    order = np.lexsort((rng.random(len(source)), upward, strips))
    turns = (np.diff(strips[order]) != 0) | (np.diff(source[order]) != 0)
    steps = np.concatenate(([0], np.flatnonzero(turns) + 1, [len(order)]))
    heights = source[order[steps[:-1]]]  # equal within a step
    widths = np.maximum.reduceat(target[order], steps[:-1])
    longest = np.maximum(source, target)
    batches = []
    for begin, end in pairwise(_cuts(np.diff(steps), heights, widths, batch_tokens)):
        rows = order[steps[begin] : steps[end]]
        most = max(batch_tokens // int(longest[rows].max()), 1)
        batches += np.array_split(rows, -(-len(rows) // most))
    return [batches[i] for i in rng.permutation(len(batches))]


@dataclass(frozen=True, slots=True)
class Tile:
    """Examples of a batch whose shape many others have."""

    rows: Ints
    n_rows: int
    """Rows of the batch; those beyond the examples are empty."""
    n_source: int
    n_target: int
    """Positions of a row."""

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, i: int, n: int) -> Tile:
        """The i-th of n parts of the rows, in a batch as many times smaller."""
        return replace(self, rows=np.array_split(self.rows, n)[i], n_rows=-(-self.n_rows // n))


LONG_SOURCES = 4
"""Where sources are so many times as long as targets, the length of one says little of the other's.
"""


def tiles(
    source: Ints,
    target: Ints,
    batch_tokens: int,
    rng: np.random.Generator,
    longest: int | None = None,
) -> list[Tile]:
    """Batches in random order, of examples alike in the longer of their sides.

    Sources have as many positions as targets, or where they are longer, so many times as many. Of
    documents both sides are looked at: targets are rounded up to a power of two. One that is longer
    than ``batch_tokens`` makes a batch of its own. No row has more than ``longest`` positions,
    which is as many as a model may know.
    """
    times = max(round(source.mean() / target.mean()), 1)
    if times >= LONG_SOURCES:
        powers = 2 ** np.ceil(np.log2(np.maximum(target, 8))).astype(np.int64)
        shapes = np.stack((tile_lengths(source), powers), axis=1)
    else:
        lengths = tile_lengths(np.maximum(-(-source // times), target))
        shapes = np.stack((times * lengths, lengths), axis=1)
    found = []
    for shape in np.unique(shapes, axis=0):
        rows = rng.permutation(np.flatnonzero((shapes == shape).all(axis=1)))
        sides = shape if longest is None else np.minimum(shape, longest)
        n_source, n_target = sides.tolist()
        n_rows = max(batch_tokens // max(n_source, n_target), 1)
        cuts = range(n_rows, len(rows), n_rows)
        found += [Tile(part, n_rows, n_source, n_target) for part in np.split(rows, cuts)]
    return [found[i] for i in rng.permutation(len(found))]


def tile_lengths(lengths: Ints) -> Ints:
    """Each rounded up to a multiple of 8, of longer ones to a quarter of the power of two below.

    >>> tile_lengths(np.array([1, 8, 9, 33, 65, 81, 129])).tolist()
    [8, 8, 16, 40, 80, 96, 160]
    """
    power = 2 ** np.floor(np.log2(np.maximum(lengths - 1, 1))).astype(np.int64)
    step = np.maximum(power // 4, 8)
    return -(-lengths // step) * step


def _strips(source: Ints, target: Ints, batch_tokens: int, rng: np.random.Generator) -> Ints:
    """The strip of each example; strips hold about equally many positions.

    A batch should be as long in its strip as the strip is wide. With n batches in all, this is so
    where a strip holds k of them, k² = n · spread of (source − target) / spread of target. The
    ends of strips are sparse, so a little less is better.
    """
    longest = np.maximum(source, target)
    n_batches = longest.sum() / batch_tokens
    k = np.sqrt(0.85 * n_batches * np.std(source - target) / max(float(np.std(target)), 1e-9))
    filled = np.bincount(target, weights=longest)  # positions, by target length
    size = max(min(float(k), n_batches), 1.0) * batch_tokens
    before = np.cumsum(filled) - filled + rng.random() * size
    return (before // size).astype(np.int64)[target]


def _cuts(rows: Ints, heights: Ints, widths: Ints, batch_tokens: int) -> list[int]:
    """Where to cut a walk of steps, each of some rows, so that the batches cost least in all."""
    best, came_from = np.zeros(len(rows) + 1), [0]
    for end in range(1, len(rows) + 1):
        last = slice(max(0, end - REACH), end)
        n_rows = np.cumsum(rows[last][::-1])
        height = np.maximum.accumulate(heights[last][::-1])
        width = np.maximum.accumulate(widths[last][::-1])
        most = np.maximum(batch_tokens // np.maximum(height, width), 1)  # rows of a batch
        fixed = 2 * batch_tokens * OVERHEAD * -(-n_rows // most)
        cost = best[last][::-1] + n_rows * (height + width) + fixed
        back = int(cost.argmin())
        best[end] = cost[back]
        came_from.append(end - 1 - back)
    cuts = [len(rows)]
    while cuts[-1]:
        cuts.append(came_from[cuts[-1]])
    return cuts[::-1]


def cut_in_order(order: Ints, lengths: Ints, batch_tokens: int) -> list[Ints]:
    """Consecutive examples while rows × longest ≤ ``batch_tokens``, but at least one."""
    cuts, longest = [0], 0
    for i, length in enumerate(lengths[order].tolist()):
        longest = max(longest, length)
        if longest * (i + 1 - cuts[-1]) > batch_tokens and i > cuts[-1]:
            cuts.append(i)
            longest = length
    return [order[begin:end] for begin, end in pairwise([*cuts, len(order)]) if end > begin]


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

    def part(self, i: int, n: int) -> Groups:
        """The i-th of n parts of the groups."""
        return self.only(np.array_split(np.arange(len(self)), n)[i])

    def only(self, numbers: Ints) -> Groups:
        """Some of the groups, in the order of their numbers."""
        counts = np.diff(self.starts)[numbers]
        starts = np.concatenate(([0], np.cumsum(counts)))
        index = np.arange(starts[-1]) + np.repeat(self.starts[numbers] - starts[:-1], counts)
        return Groups(self.texts[index], starts)


def grouped(lengths: Ints, block: int, rng: np.random.Generator) -> Groups:
    """Texts in groups of at most ``block`` positions; each epoch has other groups."""
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
