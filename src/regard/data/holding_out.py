"""Sentences that are kept from training, so that nothing is scored that was learned.

Which ones, a hash of the text and a seed says: neither the order of the lines nor the size of the
corpus decides, and the same files give the same parts everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol, TypeVar

from regard.core.errors import DataError


class Sided(Protocol):
    """What has two texts, neither of which should be on both sides."""

    @property
    def source(self) -> str:
        """The text that counts."""

    @property
    def target(self) -> str:
        """The other, perhaps the same."""


S = TypeVar("S", bound=Sided)

LEAST = 0.9
"""Share of what was asked for that must be held out: large groups may leave no better choice."""


def hold_out(
    pairs: tuple[S, ...], n: int, seed: int, *, linked: bool = False
) -> tuple[tuple[S, ...], tuple[S, ...]]:
    """Pairs to keep and about ``n`` (at least one) to hold out, both in their old order.

    All pairs with the same source go to the same side; if they are ``linked``, so do pairs that
    share any text, and their kin.
    """
    if linked:
        return _kin_held_out(pairs, n, seed)
    ranks = {source: _rank(source, seed) for source in {pair.source for pair in pairs}}
    if len(ranks) < 2:
        raise DataError(
            f"cannot hold out data for validation: there is only {len(ranks)} source sentence; "
            "give more, or name files in data.valid"
        )
    groups = [ranks[pair.source] for pair in pairs]
    return _parted(pairs, groups, max(n, 1, Counter(groups)[min(groups)]))


def _kin_held_out(pairs: tuple[S, ...], n: int, seed: int) -> tuple[tuple[S, ...], tuple[S, ...]]:
    """Whole families, as many as ``n`` pairs have room for, or the smallest."""
    families = _kinship(pairs, seed)
    sizes = Counter(families)
    if len(sizes) < 2:
        raise DataError(
            f"cannot hold out data for validation: the {len(pairs):,} pairs hang together by texts "
            "that they share; give more, or name files in data.valid"
        )
    largest = max(sizes, key=lambda family: (sizes[family], family))
    return _parted(pairs, families, max(n, min(sizes.values())), kept=largest)


def hold_out_linked(pairs: tuple[S, ...], n: int, seed: int) -> tuple[tuple[S, ...], tuple[S, ...]]:
    """As ``hold_out``; pairs that share a source *or a target* go to the same side, and their kin.

    A sentence of either language is on one side only, and both directions are parted alike.
    """
    kept, held = _parted(pairs, _kinship(pairs, seed), n)
    if len(held) < LEAST * n:
        raise DataError(
            f"cannot hold out {n:,} of {len(pairs):,} pairs: only {len(held):,} leave no sentence "
            "on both sides; lower data.hold_out, or name files in data.valid and data.test"
        )
    return kept, held


def _parted(
    pairs: tuple[S, ...], groups: Sequence[bytes], n: int, kept: bytes | None = None
) -> tuple[tuple[S, ...], tuple[S, ...]]:
    """Whole groups are held out, in their own order, until ``n`` pairs are together.

    A group for which there is no room is passed over. One is never held out: the last, unless
    another is named.
    """
    sizes = Counter(groups)
    chosen: set[bytes] = set()
    room = n
    for group in sorted({*sizes} - {kept or max(sizes)}):
        if sizes[group] <= room:
            chosen.add(group)
            room -= sizes[group]
    sides = list(zip(pairs, groups, strict=True))
    return (
        tuple(pair for pair, group in sides if group not in chosen),
        tuple(pair for pair, group in sides if group in chosen),
    )


def _kinship(pairs: Sequence[Sided], seed: int) -> list[bytes]:
    """For each pair, a name of all the pairs it is linked with, made from their sentences.

    It is a hash of their least hash: the least alone would be small where there are many, and put
    large groups first.
    """
    parents: dict[bytes, bytes] = {}

    def ancestor(name: bytes) -> bytes:
        while (parent := parents.setdefault(name, name)) != name:
            parents[name] = name = parents[parent]  # halves the way for whoever comes next
        return name

    ranks = [_rank(pair.source, seed) for pair in pairs]
    for pair, source in zip(pairs, ranks, strict=True):
        elder, younger = sorted((ancestor(source), ancestor(_rank(pair.target, seed))))
        parents[younger] = elder
    return [_rank(ancestor(rank).hex(), seed) for rank in ranks]


def _rank(sentence: str, seed: int) -> bytes:
    return blake2b(f"{seed} {sentence}".encode(), digest_size=8).digest()
