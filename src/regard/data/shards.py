"""Training texts as ids in a folder of files, which ``regard prepare`` fills and training reads.

::

    DIR/
    ├── asked.json         the settings that the shards depend on; written first
    ├── tokenizer.json     (source.json, target.json when apart)
    ├── 000000.npy …       ids; of pairs as in ``flat_table``, of a language all texts end to end
    └── shards.json        what each file holds, and its digest; written last

A shard is a function of its texts and the tokenizers alone. Its size is checked before training
and its digest when it is first read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from regard.core.errors import DataError
from regard.data.examples import Ids
from regard.text.tokenizer import Tokenizer

MANIFEST, ASKED = "shards.json", "asked.json"
AGAIN = "`regard prepare` with the same recipe makes what is missing or damaged again"
"""What to do about a folder that is not whole."""
Kind = Literal["pair", "text"]
"""Whether a unit of a shard is a pair of texts, or an id of one long text."""
M = TypeVar("M", bound=BaseModel)
digester = partial(hashlib.blake2b, digest_size=16)


class Shard(BaseModel):
    """What a file of ids holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str = Field(pattern=r"^\d{6,}\.npy$")
    corpus: int = Field(ge=0)
    """The number of its corpus in ``data.mix``; 0 where there is one."""
    units: int = Field(ge=0)
    """Pairs, or ids of one long text."""
    ids: int = Field(ge=0)
    longest: int = Field(ge=0, le=2**48)
    """Positions of the longest text of a pair, the end token included; 0 of a language."""
    n_long: int = Field(ge=0)
    """Pairs that were longer than the model reads, and so left out or cut."""
    size: int = Field(ge=0, le=2**48)
    """Bytes of the file."""
    digest: str
    texts: str
    """A digest of the texts that it was made of."""

    @model_validator(mode="after")
    def _no_more_than_its_bytes(self) -> Shard:
        if 4 * max(self.ids, self.units) > self.size:
            raise ValueError(f"{self.file} cannot hold that many ids in {self.size} bytes")
        return self


class Begun(BaseModel):
    """By which settings a folder of shards was begun."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    asked: dict[str, Any]
    notes: tuple[str, ...] | None = None
    """On the tokenizers; None where these are not complete."""


class Manifest(BaseModel):
    """What a folder of shards holds; no part of it is trusted before its digest."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    kind: Kind
    asked: dict[str, Any]
    """Settings that the shards depend on, by name."""
    tokenizers: str
    """A digest of the tokenizers."""
    notes: tuple[str, ...] = ()
    shards: tuple[Shard, ...] = Field(min_length=1)

    @cached_property
    def digest(self) -> str:
        """A fingerprint of all ids."""
        found = [(one.file, one.corpus, one.units, one.digest) for one in self.shards]
        return digester(json.dumps([self.kind, found]).encode()).hexdigest()

    @property
    def n_long(self) -> int:
        """Pairs that were left out or cut."""
        return sum(one.n_long for one in self.shards)

    @property
    def longest(self) -> int:
        """Positions of the longest text of any pair."""
        return max(one.longest for one in self.shards)


def file_digest(path: Path) -> str:
    """A digest of a file's bytes, which are read in parts."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, digester).hexdigest()


def tokenizers_digest(tokenizers: Sequence[Tokenizer]) -> str:
    """A fingerprint of tokenizers; the same one twice is one."""
    hashed = digester()
    for text in dict.fromkeys(one.to_json() for one in tokenizers):
        hashed.update(text.encode())
    return hashed.hexdigest()


def changes(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Where two sets of settings differ, both values named; nothing where they are the same."""
    found = (
        f"{name} was {was.get(name)!r} and is now {now.get(name)!r}"
        for name in dict.fromkeys((*was, *now))
        if was.get(name) != now.get(name)
    )
    return "; ".join(found)


class ShardFolder:
    """The shards of a folder, complete as far as their sizes tell."""

    def __init__(self, path: Path) -> None:
        self.path, self.manifest = path, read_manifest(path)
        self._checked: set[int] = set()
        for one in self.manifest.shards:
            file = path / one.file
            size = file.stat().st_size if file.is_file() else None
            if size is None:
                raise DataError(f"the shard {file} is missing; {AGAIN}")
            if size != one.size:
                raise DataError(
                    f"the shard {file} has {size:,} bytes, and {one.size:,} were written; {AGAIN}"
                )

    def check(self, asked: Mapping[str, Any], tokenizers: Sequence[Tokenizer]) -> None:
        """Refuse shards of another recipe, or of another tokenizer."""
        if told := changes(self.manifest.asked, asked):
            raise DataError(
                f"{self.path} holds shards of another recipe: {told}; set it back, or prepare "
                "shards of this recipe in another folder"
            )
        if (here := tokenizers_digest(tokenizers)) != self.manifest.tokenizers:
            raise DataError(
                f"{self.path} holds ids of the tokenizer {self.manifest.tokenizers[:12]}, but this "
                f"run has the tokenizer {here[:12]}; prepare shards with the run's recipe, or "
                "start a new run"
            )

    def ids(self, number: int) -> Ids:
        """The array of a shard, mapped into memory; its digest is checked the first time."""
        shard = self.manifest.shards[number]
        path = self.path / shard.file
        try:
            if number not in self._checked and (found := file_digest(path)) != shard.digest:
                raise DataError(
                    f"the shard {path} is damaged: its digest is {found}, and should be "
                    f"{shard.digest}; {AGAIN}"
                )
            self._checked.add(number)
            flat: Ids = np.load(path, mmap_mode="r")
        except (OSError, ValueError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"the shard {path} cannot be read ({error}); {AGAIN}") from None
        one_text = self.manifest.kind == "text"
        if flat.dtype != np.int32 or flat.ndim != 1 or (one_text and len(flat) != shard.units):
            raise self.not_as_told(number)
        return flat

    def not_as_told(self, number: int) -> DataError:
        """What to say of a shard that the manifest is wrong about."""
        file = self.path / self.manifest.shards[number].file
        return DataError(f"the shard {file} does not hold what {MANIFEST} says; {AGAIN}")


def read_manifest(path: Path) -> Manifest:
    """What a folder holds, as its manifest says."""
    file = path / MANIFEST
    if not file.is_file():
        begun = (path / ASKED).exists()
        finding = "is not complete" if begun else "holds no shards"
        raise DataError(f"{path} {finding}: run `regard prepare` with this recipe first")
    return _read(file, Manifest, AGAIN)


def read_begun(path: Path) -> Begun:
    """By which settings a folder was begun, which it must have been."""
    return _read(path / ASKED, Begun, "name another folder with --out, or delete this one")


def _read(file: Path, kind: type[M], remedy: str) -> M:
    try:
        return kind.model_validate_json(file.read_bytes())
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "it"
        raise DataError(f"{file} is damaged ({where}: {first['msg']}); {remedy}") from None
