"""Gold word alignments that people made: sentence pairs in words, and which words go together.

Two files, line by line the same: ``source words ||| target words`` and links such as ``1-1 2p3``,
both numbers counted from 1, ``-`` for a sure link and ``p`` for a possible one. The words are those
between spaces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from regard.core.errors import DataError
from regard.data.lines import excerpt, read_parallel
from regard.data.records import Links

SIDES = "|||"
_LINK = re.compile(r"(\d+)([-p])(\d+)")


@dataclass(frozen=True, slots=True)
class Aligned:
    """A sentence pair in words; links are (source word, target word), counted from 0."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    sure: Links
    possible: Links
    """Those that are only possible."""


def read_aligned(sentences: Path, gold: Path) -> list[Aligned]:
    """All sentence pairs with their links; no line may be bad, for the next ones would shift."""
    found = []
    for number, (texts, links) in enumerate(read_parallel(sentences, gold), start=1):
        sides = tuple(tuple(side.split()) for side in texts.split(SIDES))
        if len(sides) != 2 or not all(sides):
            raise DataError(
                f"{sentences}:{number}: expected words, {SIDES}, words, but found {excerpt(texts)}"
            )
        source, target = sides
        marked = [
            _link(item, len(source), len(target), f"{gold}:{number}") for item in links.split()
        ]
        sure, possible = (tuple(link for link, mark in marked if mark == kind) for kind in "-p")
        found.append(Aligned(source, target, sure, possible))
    if not any(one.sure or one.possible for one in found):
        raise DataError(f"{gold}: no links at all; expected lines such as 1-1 2p3")
    return found


def _link(item: str, n_source: int, n_target: int, where: str) -> tuple[tuple[int, int], str]:
    match = _LINK.fullmatch(item)
    if match is None:
        raise DataError(
            f"{where}: expected links such as 1-1 (sure) or 2p3 (possible), but found "
            f"{excerpt(item)}"
        )
    source, target = int(match[1]), int(match[3])
    if not (1 <= source <= n_source and 1 <= target <= n_target):
        raise DataError(
            f"{where}: link {item} does not fit a pair of {n_source} and {n_target} words, "
            "counted from 1; do the files belong together, source first?"
        )
    return (source - 1, target - 1), match[2]
