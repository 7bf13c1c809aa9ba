"""Making shards: texts are read in their order, tokenised by workers, and kept as files of ids.

One process reads and cuts texts into chunks; workers make a file of each. A chunk is known by a
digest of its texts, so that whoever was killed goes on by reading again and making what is not
there: nothing comes twice, and every file has the bytes that it would have had.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from regard.core.errors import DataError
from regard.core.files import telling, write_whole
from regard.data.examples import Ids, IdTable, LongRule, encode_column, flat_table, within
from regard.data.shards import (
    ASKED,
    MANIFEST,
    Manifest,
    Shard,
    changes,
    digester,
    file_digest,
    read_begun,
    tokenizers_digest,
)
from regard.data.workers import streamed
from regard.text.pretrained import tokenizers_in

Texts = tuple[str, ...]
"""What a record consists of: a source and a target, or one text."""
CHARACTERS = 2**22
"""Of a shard, about: some million ids. Workers hold one chunk of texts each."""
SAMPLE = 2**24
"""Characters that a tokenizer is trained on, at most."""
_SPREAD = 0x9E3779B97F4A7C15
"""Multiplied with it, numbers that follow each other lie all over 64 bits (Knuth)."""
_NUMBERED = re.compile(r"\d{6,}[-.]")
"""How the names of all files begin that workers write."""
OFTEN = 100
"""Shards after which something is said."""


class Chunk(NamedTuple):
    """Records that become a shard."""

    number: int
    corpus: int
    digest: str
    records: Sequence[Texts]


Encode = Callable[[Chunk], Shard]
"""Writes the file of a chunk; workers must be able to unpickle it."""


@dataclass(frozen=True, slots=True)
class PairEncoder:
    """Writes pairs of texts as ids, of at most ``max_len`` positions a side."""

    folder: Path
    max_len: int
    rule: LongRule

    def __call__(self, chunk: Chunk) -> Shard:
        """Write the file of a chunk of pairs."""
        columns = map(list, zip(*chunk.records, strict=True))
        sides = zip(columns, _tokenizers(self.folder), strict=True)
        whole = IdTable(*(encode_column(texts, tokenizer) for texts, tokenizer in sides))
        fits = whole.fits(self.max_len)
        if self.rule == "drop":  # all of a chunk may be too long, where a corpus never is
            table = IdTable(whole.source.only(fits), whole.target.only(fits))
        else:
            table, _ = within(whole, self.max_len, self.rule)
        table = IdTable(table.source.end_to_end(), table.target.end_to_end())
        return _written(
            self.folder,
            chunk,
            flat_table(table),
            units=len(table),
            ids=int(table.source.lengths.sum() + table.target.lengths.sum()),
            longest=table.longest,
            n_long=int((~fits).sum()),
        )


@dataclass(frozen=True, slots=True)
class TextEncoder:
    """Writes texts end to end as ids, an end token behind each."""

    folder: Path
    opening: tuple[int, ...]
    """Ids before the first text of all."""

    def __call__(self, chunk: Chunk) -> Shard:
        """Write the file of a chunk of texts."""
        tokenizer, _ = _tokenizers(self.folder)
        column = encode_column([text for (text,) in chunk.records], tokenizer)
        ends = np.cumsum(column.lengths + 1)
        ids: Ids = np.full(int(ends[-1]), tokenizer.specials.end, np.int32)
        inside = np.ones(len(ids), np.bool_)
        inside[ends - 1] = False
        ids[inside] = column.ids[:-1]
        if chunk.number == 0:
            ids = np.concatenate([np.array(self.opening, np.int32), ids])
        return _written(self.folder, chunk, ids, units=len(ids), ids=len(ids))


@lru_cache(maxsize=1)
def _tokenizers(folder: Path) -> Any:
    return tokenizers_in(folder)


def _written(
    folder: Path,
    chunk: Chunk,
    flat: Ids,
    *,
    units: int,
    ids: int,
    longest: int = 0,
    n_long: int = 0,
) -> Shard:
    """Write a shard, then beside it what it holds: so much of a preparation is done."""
    file = BytesIO()
    np.save(file, flat)
    raw = file.getvalue()
    shard = Shard(
        file=f"{chunk.number:06}.npy",
        corpus=chunk.corpus,
        units=units,
        ids=ids,
        longest=longest,
        n_long=n_long,
        size=len(raw),
        digest=digester(raw).hexdigest(),
        texts=chunk.digest,
    )
    path = folder / shard.file
    _put(path, raw)
    _put(path.with_suffix(".json"), shard.model_dump_json().encode())
    return shard


def _put(path: Path, raw: bytes) -> None:
    """Write a file whole, undisturbed by a worker of a killed preparation that does the same."""
    own = path.with_name(f"{path.stem}-{os.getpid()}{path.suffix}")
    write_whole(own, raw)
    with telling(path):
        own.replace(path)


def chunks(records: Iterable[Texts], characters: int) -> Iterator[list[Texts]]:
    """Records that follow each other, of so many characters or some more; a small rest goes along.

    A line break counts as a character.

    >>> [*chunks([("aa",), ("b",), ("c",), ("dd",), ("",)], characters=5)]
    [[('aa',), ('b',)], [('c',), ('dd',), ('',)]]
    """
    held: list[Texts] = []
    chunk: list[Texts] = []
    size = 0
    for record in records:
        chunk.append(record)
        size += sum(map(len, record)) + 1  # an empty line takes memory too
        if size >= characters:
            if held:
                yield held
            held, chunk, size = chunk, [], 0
    if held and 2 * size >= characters:
        yield held
        held = []
    if held or chunk:
        yield held + chunk


def sampled(records: Iterable[Texts], characters: int) -> tuple[list[Texts], int]:
    """Records all over a corpus, of at most so many characters, and of how many each is one.

    Which, their numbers decide, so that a sample is the same each time.
    """
    kept: list[tuple[int, Texts]] = []
    size, one_in = 0, 1
    for number, record in enumerate(records):
        place = number * _SPREAD % 2**64
        if place * one_in < 2**64:
            kept.append((place, record))
            size += sum(map(len, record))
        while size > characters and len(kept) > 1:
            one_in *= 2
            kept = [(at, one) for at, one in kept if at * one_in < 2**64]
            size = sum(len(text) for _, one in kept for text in one)
    return [record for _, record in kept], one_in


@dataclass(slots=True)
class Preparation:
    """A folder that is being filled with shards."""

    folder: Path
    asked: Mapping[str, Any]
    """All settings that shards depend on, by name; as JSON has them."""
    notes: list[str] = field(default_factory=list)
    ready: bool = False
    """Whether the tokenizers are in the folder."""

    def begin(self) -> None:
        """Claim the folder, or go on with what was begun by the same settings."""
        path = self.folder / ASKED
        if not path.exists():
            if self.folder.is_dir() and any(self.folder.iterdir()):
                raise DataError(
                    f"{self.folder} holds files and no shards; name a folder that is new or empty"
                )
            write_whole(path, _as_json({"asked": self.asked}))
            return
        begun = read_begun(self.folder)
        self.ready = begun.notes is not None
        told = changes(begun.asked, self.asked)
        if self.ready and told:
            raise DataError(
                f"{self.folder} was begun with other settings: {told}; set it back, or name "
                "another folder with --out"
            )
        if told:  # nothing was made by them
            write_whole(path, _as_json({"asked": self.asked}))
        self.notes += begun.notes or ()

    def tokenizers_saved(self) -> None:
        """Mark the tokenizers as complete; what was noted about them is kept."""
        write_whole(self.folder / ASKED, _as_json({"asked": self.asked, "notes": self.notes}))
        self.ready = True

    def make(
        self,
        corpora: Sequence[Iterable[Texts]],
        encode: Encode,
        *,
        n_workers: int,
        say: Callable[[str], None],
    ) -> list[Shard]:
        """Make the shards that are not there already; all of them, in their order."""
        tokenizers = tokenizers_digest(tokenizers_in(self.folder))
        known, found = self._known(), {}

        def wanted() -> Iterator[Chunk]:
            number = 0
            for corpus, records in enumerate(corpora):
                for some in chunks(records, CHARACTERS):
                    chunk = Chunk(number, corpus, _digest(some, tokenizers), some)
                    number += 1
                    if self._has(known.get(chunk.number), chunk):
                        found[chunk.number] = known[chunk.number]
                    else:
                        yield chunk

        for shard in streamed(encode, wanted(), n_workers=n_workers, alone=True):
            found[int(shard.file.split(".")[0])] = shard
            if len(found) % OFTEN == 0:
                say(f"{len(found):,} shards are done")
        return [found[number] for number in sorted(found)]

    def finish(self, manifest: Manifest) -> None:
        """Write what there is, last of all; then delete what is no longer needed."""
        write_whole(self.folder / MANIFEST, _as_json(manifest.model_dump(mode="json")))
        kept = {one.file for one in manifest.shards}
        with telling(self.folder):
            for path in self.folder.glob("*.*"):
                if _NUMBERED.match(path.name) and path.name not in kept:
                    path.unlink(missing_ok=True)

    def _known(self) -> dict[int, Shard]:
        """Shards that were made before, by number: of a finished folder, then of one begun."""
        known: dict[int, Shard] = {}
        with suppress(OSError, ValidationError):
            manifest = Manifest.model_validate_json((self.folder / MANIFEST).read_bytes())
            known |= {int(one.file.split(".")[0]): one for one in manifest.shards}
        for path in self.folder.glob("[0-9]*.json"):
            with suppress(OSError, ValidationError, ValueError):
                known[int(path.stem)] = Shard.model_validate_json(path.read_bytes())
        return known

    def _has(self, shard: Shard | None, chunk: Chunk) -> bool:
        """Whether a chunk's file is there, as it was written."""
        if shard is None or (shard.texts, shard.corpus) != (chunk.digest, chunk.corpus):
            return False
        path = self.folder / f"{chunk.number:06}.npy"
        return path.name == shard.file and path.is_file() and file_digest(path) == shard.digest


def _digest(records: Iterable[Texts], tokenizers: str) -> str:
    hashed = digester(tokenizers.encode())
    for record in records:
        for text in record:
            hashed.update(f"{len(text)} {text}".encode("utf-8", "surrogatepass"))
    return hashed.hexdigest()


def _as_json(what: Any) -> str:
    return json.dumps(what, indent=1, ensure_ascii=False) + "\n"
