"""Splits: what is trained on and what is kept from training, so that nothing scored was learned.

Which records are held out, a hash of the text and a seed says: neither the order of the lines nor
the size of the corpus decides, and the same files give the same parts everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Protocol, TypeVar

from regard.core.errors import DataError
from regard.data.corpora import (
    PAIRS,
    Wanted,
    check_alike,
    read_corpus,
    read_labelled,
    read_questions,
)
from regard.data.lines import present
from regard.data.records import Corpus, Labelled, Pair, Question
from regard.data.settings import DataSettings, Files


class Sided(Protocol):
    """What has two texts, neither of which should be on both sides."""

    @property
    def source(self) -> str:
        """The text that counts."""

    @property
    def target(self) -> str:
        """The other, perhaps the same."""


S = TypeVar("S", bound=Sided)

NAMES = ("train", "valid", "test")
LEAST = 0.9
"""Share of what was asked for that must be held out: large groups may leave no better choice."""


def read_pair_splits(settings: DataSettings) -> dict[str, Corpus[Pair]]:
    """Pairs of the files of ``train``, ``valid`` and, if there is one, ``test``."""
    if settings.pattern is not None:
        raise DataError("data.pattern is for texts with labels; of pairs, name data.columns")
    return read_splits(settings, lambda files: read_corpus(files, PAIRS, settings.columns))


def read_labelled_splits(settings: DataSettings, wanted: Wanted) -> dict[str, Corpus[Labelled]]:
    """Texts with what is wanted of them; of two texts a line, neither is in two splits."""

    def read(files: Files) -> Corpus[Labelled]:
        return read_labelled(files, wanted, settings)

    return read_splits(settings, read, check=check_alike, linked=True)


def read_question_splits(settings: DataSettings) -> dict[str, Corpus[Question]]:
    """Questions; all that are about one context are in one split."""
    return read_splits(settings, lambda files: read_questions(files, settings))


def read_splits(
    settings: DataSettings,
    read: Callable[[Files], Corpus[S]],
    *,
    check: Callable[[Sequence[S]], None] = lambda firsts: None,
    linked: bool = False,
) -> dict[str, Corpus[S]]:
    """What is read from the files of ``train``, ``valid`` and, if there is one, ``test``.

    Without a file for ``valid``, min(1000, 5 %) of ``train`` are held out, ``linked`` where sources
    and targets differ; where ``data.hold_out`` is given, so many for each of ``valid`` and ``test``
    that has none. ``check`` is shown the first record of each file.
    """
    assert settings.train is not None, "a world has no files"
    splits = {name: read(files) for name, files in located_splits(settings).items()}
    check([corpus.examples[0] for corpus in splits.values()])
    n, seed = settings.hold_out, settings.world_seed
    for name in [name for name in ("test", "valid") if name not in splits]:
        train = splits["train"].examples
        if n is not None:
            kept, held = hold_out_linked(train, n, seed)
        elif name == "valid":
            apart = linked and any(one.source != one.target for one in train)
            kept, held = hold_out(train, min(1000, len(train) // 20), seed, linked=apart)
        else:
            continue
        splits |= {"train": replace(splits["train"], examples=kept), name: Corpus(held)}
    return {name: splits[name] for name in NAMES if name in splits}


def located_splits(settings: DataSettings) -> dict[str, Files]:
    """The files that the settings name, by split, with their folder."""
    named = {name: getattr(settings, name) for name in NAMES}
    return located({name: files for name, files in named.items() if files}, settings.folder)


def located(named: Mapping[str, Files], folder: str | None) -> dict[str, Files]:
    """The files by split with their folder, packed ones where only those are there.

    With a folder, all that it lacks is told at once: it is likely to be the wrong one.
    """
    home = Path(folder or "")
    every = [name for files in named.values() for name in _listed(files)]
    missing = [name for name in every if present(home / name) is None]
    if folder is not None and missing:
        finding = "lacks" if home.is_dir() else "does not exist and should hold"
        raise DataError(
            f"the folder {home.absolute()} {finding} {', '.join(missing)} (.gz and .xz were looked "
            "for too); say where the files lie with data.folder"
        )
    found: dict[str, Files] = {}
    for split, files in named.items():
        first, *others = [str(present(home / one) or home / one) for one in _listed(files)]
        found[split] = (first, others[0]) if others else first
    return found


def _listed(files: Files) -> Sequence[str]:
    return [files] if isinstance(files, str) else files


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
