"""Splits: what is trained on and what is kept from training, so that nothing scored was learned.

Which records are held out, a hash of the text and a seed says: neither the order of the lines nor
the size of the corpus decides, and the same files give the same parts everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, Generic, TypeVar

from regard.core.errors import ConfigError, DataError
from regard.core.registry import did_you_mean
from regard.data.corpora import SCHEMAS, check_alike, read_corpus
from regard.data.file_patterns import is_pattern
from regard.data.lines import present
from regard.data.picture_corpora import check_lines
from regard.data.records import Corpus, Labelled, Pair
from regard.data.settings import DataSettings, Files
from regard.data.worlds.registry import world_records

S = TypeVar("S", bound=Pair | Labelled)
"""What has a source and a target, neither of which should be on both sides."""
Sides = tuple[tuple[S, ...], tuple[S, ...]]
"""What is kept, and what is held out."""
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

NAMES = ("train", "valid", "test")
LEAST = 0.9
"""Share of what was asked for that must be held out: large groups may leave no better choice."""


@dataclass(frozen=True, slots=True)
class Data(Generic[R_co]):
    """Records by split, and what a user should know about how they came about."""

    splits: Mapping[str, Sequence[R_co]]
    notes: tuple[str, ...] = ()

    @property
    def test_sets(self) -> list[str]:
        """The splits that neither train nor choose anything; ``valid`` where there are none."""
        return test_sets_of(self.splits)

    def split(self, name: str) -> Sequence[R_co]:
        """One of them; a wrong name is told."""
        return split_of(self.splits, name)


def split_of(splits: Mapping[str, R], name: str, *, remedy: str = "") -> R:
    """The split of this name; a wrong one is told, with those there are."""
    if name not in splits:
        known, hint = ", ".join(splits), did_you_mean(name, splits)
        raise ConfigError(f"the run's data has no split {name!r}{hint}; it has {known}{remedy}")
    return splits[name]


def test_sets_of(splits: Iterable[str]) -> list[str]:
    """The splits that neither train nor choose anything; ``valid`` where there are none."""
    return [name for name in splits if name not in ("train", "valid")] or ["valid"]


def load_records(settings: DataSettings, kind: str) -> Data[Any]:
    """Records of a kind (``pair``, ``label``, ``question``, …) from a world or from files."""
    if settings.world is not None:
        return Data(world_records(settings.world_request(), kind))
    corpora = read_splits(settings, kind)
    notes = [note for name, corpus in corpora.items() for note in corpus.notes(name)]
    return Data({name: corpus.examples for name, corpus in corpora.items()}, tuple(notes))


def read_splits(settings: DataSettings, kind: str) -> dict[str, Corpus[Any]]:
    """What the files of ``train``, ``valid`` and, if there is one, ``test`` hold.

    Without a file for ``valid``, min(1000, 5 %) of ``train`` are held out; where ``data.hold_out``
    is given, so many for each of ``valid`` and ``test`` that has none. Of two texts a line, neither
    is in two splits; questions about one context are in one. What lies in shards is not read.
    """
    assert settings.world is None, "a world has no files"
    files = located_splits(settings)
    if SCHEMAS[kind].pictures:
        check_lines(settings, files)
    splits = {name: read_corpus(some, kind, settings, name) for name, some in files.items()}
    if settings.shards is not None:
        return splits
    splits = _divided(splits)
    check_alike(corpus.examples[0] for corpus in splits.values())
    n, seed = settings.hold_out, settings.world_seed
    for name in [name for name in ("test", "valid") if name not in splits]:
        train = splits["train"].examples
        if n is not None:
            kept, held = hold_out_linked(train, n, seed)
        elif name == "valid":
            linked = kind != "pair" and any(one.source != one.target for one in train)
            kept, held = hold_out(train, min(1000, len(train) // 20), seed, linked=linked)
        else:
            continue
        splits |= {"train": replace(splits["train"], examples=kept), name: Corpus(held)}
    return {name: splits[name] for name in NAMES if name in splits}


def _divided(splits: dict[str, Corpus[Any]]) -> dict[str, Corpus[Any]]:
    """Where one file holds all, and its lines say to which split they belong, the splits."""
    whole = splits["train"].examples
    named = [getattr(one, "split", "") for one in whole]
    if len(splits) > 1 or not any(named):
        return splits
    parts = {
        name: tuple(
            one for one, split in zip(whole, named, strict=True) if (split or "train") == name
        )
        for name in NAMES
    }
    if not parts["train"]:
        raise DataError(f"{whole[0].where}: no line is of the split train; nothing can be learned")
    return {name: replace(splits["train"], examples=part) for name, part in parts.items() if part}


def located_splits(settings: DataSettings) -> dict[str, Files]:
    """The files that the settings name, by split, with their folder; none of what is in shards."""
    settings.check_trusted()
    names = NAMES if settings.shards is None else [name for name in NAMES if name != "train"]
    named = {name: getattr(settings, name) for name in names}
    return located({name: files for name, files in named.items() if files}, settings.folder)


def located(named: Mapping[str, Files], folder: str | None) -> dict[str, Files]:
    """Files and patterns with their folder, packed or not; all it lacks is told at once."""
    home = Path(folder or "")
    listed = {split: [one] if isinstance(one, str) else [*one] for split, one in named.items()}
    missing = [
        name
        for name in chain(*listed.values())
        if present(home / name) is None and not is_pattern(str(home / name))
    ]
    if folder is not None and missing:
        finding = "lacks" if home.is_dir() else "does not exist and should hold"
        raise DataError(
            f"the folder {home.absolute()} {finding} {', '.join(missing)} (.gz and .xz were looked "
            "for too); say where the files lie with data.folder"
        )
    found: dict[str, Files] = {}
    for split, names in listed.items():
        first, *others = [str(present(home / name) or home / name) for name in names]
        found[split] = (first, others[0]) if others else first
    return found


def hold_out(pairs: tuple[S, ...], n: int, seed: int, *, linked: bool = False) -> Sides[S]:
    """Pairs to keep and about ``n`` (at least one) to hold out, both in their old order.

    All pairs with the same source go to the same side; if they are ``linked``, so do pairs that
    share any text, and their kin.
    """
    groups = _kinship(pairs, seed) if linked else [_rank(pair.source, seed) for pair in pairs]
    sizes = Counter(groups)
    if len(sizes) < 2:
        few = f"there is only {len(sizes)} source sentence"
        kin = f"the {len(pairs):,} pairs hang together by texts that they share"
        raise DataError(
            f"cannot hold out data for validation: {kin if linked else few}; give more, or name "
            "files in data.valid"
        )
    if linked:
        largest = max(sizes, key=lambda family: (sizes[family], family))
        return _parted(pairs, groups, max(n, min(sizes.values())), kept=largest)
    return _parted(pairs, groups, max(n, 1, sizes[min(sizes)]))


def hold_out_linked(pairs: tuple[S, ...], n: int, seed: int) -> Sides[S]:
    """Pairs to keep and ``n`` to hold out; no source *or target* is on both sides."""
    kept, held = _parted(pairs, _kinship(pairs, seed), n)
    if len(held) < LEAST * n:
        raise DataError(
            f"cannot hold out {n:,} of {len(pairs):,} pairs: only {len(held):,} leave no sentence "
            "on both sides; lower data.hold_out, or name files in data.valid and data.test"
        )
    return kept, held


def _parted(
    pairs: tuple[S, ...], groups: Sequence[bytes], n: int, kept: bytes | None = None
) -> Sides[S]:
    """Hold whole groups out while there is room, in order; never ``kept``, or the last."""
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


def _kinship(pairs: Sequence[Pair | Labelled], seed: int) -> list[bytes]:
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
