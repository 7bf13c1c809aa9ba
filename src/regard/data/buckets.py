"""Which examples are padded together.

Padding is paid for on both sides, so a batch should hold examples that are alike in both lengths.
Examples are points in a plane, target length by source length. The plane is cut into strips of
similar target length; each strip is walked along by source length, up one and down the next; and
the walk is cut into batches where that costs least.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from regard.data.examples import Ints

OVERHEAD = 0.1
"""What a batch costs beyond its positions, in full batches: else the best batches are tiny."""
REACH = 128
"""Among how many steps back a cut is searched for."""


def buckets(source: Ints, target: Ints, batch_tokens: int, rng: np.random.Generator) -> list[Ints]:
    """Examples of each batch, of at most ``batch_tokens`` positions on its longer side.

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
    return batches


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
