"""Pairs of texts as ids: one by one, and all of them end to end.

A source is followed by the end token; a target has the begin token before it and the end token
after it, and the model reads it without its last position to predict it without its first. So a
text of n ids fills n + 1 positions on either side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Literal, overload

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import DataError
from regard.core.files import telling, whole_file
from regard.data.records import Pair
from regard.text.bpe_dropout import BpeDropoutProcess
from regard.text.specials import PAD_ID
from regard.text.tokenizer import Tokenizer

Ids = NDArray[np.int32]
Ints = NDArray[np.int64]

AT_ONCE = 4_000
"""Texts that are encoded together."""
BLOCKS = (64, 128)
"""Sizes of a block of attention."""


@dataclass(frozen=True, slots=True)
class Example:
    """Ids of one pair, without special ones."""

    source: Sequence[int]
    target: Sequence[int]


@dataclass(frozen=True, slots=True)
class Column:
    """One side of all examples: text i is ``ids[starts[i] : starts[i] + lengths[i]]``."""

    ids: Ids
    """All texts end to end, perhaps in a file; at least one number, so that an index exists."""
    starts: Ints
    lengths: Ints

    @classmethod
    def of(cls, ids: Ids, lengths: Ints) -> Column:
        """Texts that lie end to end in ``ids``, with padding behind the last."""
        return cls(ids, np.cumsum(lengths) - lengths, lengths)

    @classmethod
    def joined(cls, texts: Iterable[Sequence[int]]) -> Column:
        """Texts laid end to end."""
        texts = list(texts)
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        n_ids = int(lengths.sum()) + 1
        return cls.of(np.fromiter(chain(*texts, (PAD_ID,)), np.int32, n_ids), lengths)

    def __getitem__(self, number: int) -> list[int]:
        begin = self.starts[number]
        return self.ids[begin : begin + self.lengths[number]].tolist()

    def only(self, rows: NDArray[np.bool_]) -> Column:
        """Some of the texts."""
        return Column(self.ids, self.starts[rows], self.lengths[rows])

    def cut(self, room: int | Ints) -> Column:
        """The first ``room`` ids of each text."""
        return Column(self.ids, self.starts, np.minimum(self.lengths, room))

    def end_to_end(self) -> Column:
        """The same texts with nothing between them."""
        ends = np.cumsum(self.lengths)
        gaps = np.repeat(self.starts - (ends - self.lengths), self.lengths)
        ids = self.ids[np.arange(len(gaps)) + gaps]
        return Column.of(np.append(ids, np.int32(PAD_ID)), self.lengths)


@dataclass(frozen=True)
class IdTable(Sequence[Example]):
    """All examples of a corpus, ready to be cut into batches."""

    source: Column
    target: Column
    numbers: Ints | None = field(default=None, kw_only=True)
    """Of each example in the corpus that this is a part of; None where it is the whole."""

    @classmethod
    def of(cls, examples: Sequence[Example]) -> IdTable:
        """Examples as a table, which they may be already."""
        if isinstance(examples, IdTable):
            return examples
        return cls(
            Column.joined(one.source for one in examples),
            Column.joined(one.target for one in examples),
        )

    def __len__(self) -> int:
        return len(self.source.lengths)

    @overload
    def __getitem__(self, number: int) -> Example: ...
    @overload
    def __getitem__(self, number: slice) -> list[Example]: ...
    def __getitem__(self, number: int | slice) -> Example | list[Example]:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        return Example(self.source[number], self.target[number])

    def __iter__(self) -> Iterator[Example]:
        return (self[i] for i in range(len(self)))

    def numbers_of(self, rows: Ints) -> tuple[int, ...]:
        """The numbers of some rows in their corpus."""
        return tuple((rows if self.numbers is None else self.numbers[rows]).tolist())

    @cached_property
    def lengths(self) -> Ints:
        """Positions that the longer side of each example fills."""
        return np.maximum(self.source.lengths, self.target.lengths) + 1

    @property
    def longest(self) -> int:
        """Positions of the longest text."""
        return int(self.lengths.max(initial=1))

    def fits(self, max_len: int) -> NDArray[np.bool_]:
        """Which examples fill at most ``max_len`` positions a side."""
        return self.lengths <= max_len

    @cached_property
    def digest(self) -> str:
        """A fingerprint of all ids."""
        hashed = blake2b(digest_size=16)
        for column in (self.source, self.target):
            hashed.update(column.starts.data)
            hashed.update(column.lengths.data)
            hashed.update(column.ids.data)
        return hashed.hexdigest()

    def of_epoch(self, epoch: int) -> IdTable:
        """The examples of an epoch: these are the same in each."""
        del epoch
        return self


class BpeDropoutTexts:
    """Pairs whose texts are cut into other pieces each epoch, by a process that works one ahead.

    ``plain`` has the ids of the pairs when nothing is skipped. No text gets longer than
    ``max_len`` positions, nor longer than a block of attention that held all of ``plain``: where it
    would, it keeps its plain ids.
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        plain: IdTable,
        tokenizers: tuple[Tokenizer, Tokenizer],
        *,
        share: float,
        seed: int,
        max_len: int,
    ) -> None:
        self.longest = min([max_len, *(block for block in BLOCKS if plain.longest <= block)])
        self.digest = blake2b(f"{plain.digest} {share}".encode(), digest_size=16).hexdigest()
        self._n = len(plain)
        self._known: dict[int, IdTable] = {}
        texts = [pair.source for pair in pairs], [pair.target for pair in pairs]
        sides = [*zip(tokenizers, texts, strict=True)]
        self._process = BpeDropoutProcess(sides, room=self.longest - 1, share=share, seed=seed)

    def __len__(self) -> int:
        return self._n

    def of_epoch(self, epoch: int) -> IdTable:
        """The examples of an epoch; two are remembered."""
        if epoch not in self._known:
            columns = [
                Column.of(np.append(ids, np.int32(PAD_ID)), lengths).cut(self.longest - 1)
                for ids, lengths in self._process.segmented(epoch)
            ]
            latest = [*self._known.items()][:1]
            self._known = {epoch: IdTable(*columns), **dict(latest)}
        return self._known[epoch]


Texts = IdTable | BpeDropoutTexts
"""Examples whose ids may differ from epoch to epoch; their numbers do not."""


def encode_pairs(pairs: Sequence[Pair], source: Tokenizer, target: Tokenizer) -> list[Example]:
    """Sentence pairs to ids, with a tokenizer for each side."""
    sources = source.encode_batch([pair.source for pair in pairs])
    targets = target.encode_batch([pair.target for pair in pairs])
    return [Example(left, right) for left, right in zip(sources, targets, strict=True)]


def encode_table(pairs: Sequence[Pair], source: Tokenizer, target: Tokenizer) -> IdTable:
    """A whole corpus to ids, which takes a few bytes a token and no more."""
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    return IdTable(encode_column(sources, source), encode_column(targets, target))


def encode_column(texts: Sequence[str], tokenizer: Tokenizer) -> Column:
    """Texts to ids. Lists of Python numbers are large, so there are never many at once."""
    parts = [
        Column.joined(tokenizer.encode_batch(texts[begin : begin + AT_ONCE]))
        for begin in range(0, max(len(texts), 1), AT_ONCE)
    ]
    ids = [*(part.ids[:-1] for part in parts), np.array([PAD_ID], np.int32)]
    return Column.of(np.concatenate(ids), np.concatenate([part.lengths for part in parts]))


LongRule = Literal["drop", "truncate", "refuse"]
"""What becomes of a pair that is longer than a model reads."""


def within(
    examples: Sequence[Example], max_len: int, rule: LongRule = "drop"
) -> tuple[IdTable, int]:
    """Examples of at most ``max_len`` positions a side, longer ones dropped or cut; how many."""
    table = IdTable.of(examples)
    fits = table.fits(max_len)
    n_long = int((~fits).sum())
    if n_long and rule == "refuse":
        raise DataError(
            f"{n_long} of {len(table)} texts are longer than max_len={max_len} tokens, the longest "
            f"has {table.longest} with the end token; raise model.max_len, or set "
            "data.truncate=true"
        )
    if rule == "truncate":
        return IdTable(table.source.cut(max_len - 1), table.target.cut(max_len - 1)), n_long
    if n_long and n_long == len(table):
        raise DataError(
            f"all {n_long} pairs are longer than max_len={max_len} tokens; raise model.max_len, "
            "or set data.long_lines=truncate"
        )
    return IdTable(table.source.only(fits), table.target.only(fits)), n_long


def stored_table(
    pairs: Sequence[Pair], source: Tokenizer, target: Tokenizer, folder: Path
) -> IdTable:
    """The ids of all pairs, from the file in ``folder``, which is made if it is not there.

    A corpus is tokenised once, and its ids are read from disk as they are needed. The file is named
    after the texts and the tokenizers, so it is never out of date. It is written whole or not at
    all, and one that is damaged is made again. Files of other texts or tokenizers are deleted: a
    folder holds those of one corpus.
    """
    hashed = blake2b(digest_size=16)
    for tokenizer in (source, target):
        hashed.update(tokenizer.to_json().encode())
    for pair in pairs:
        for text in (pair.source, pair.target):
            hashed.update(f"{len(text)} {text}".encode("utf-8", "surrogatepass"))
    path = folder / f"{hashed.hexdigest()}.npy"
    table = _read_table(path, len(pairs)) if path.exists() else None
    if table is not None:
        return table
    table = encode_table(pairs, source, target)
    with telling(folder):
        for other in folder.glob("*.npy"):
            other.unlink()
    with whole_file(path) as file:
        np.save(file, flat_table(table))
    return _read_table(path, len(pairs)) or table


def flat_table(table: IdTable) -> Ids:
    """A table as one array: how many examples, lengths of sources and of targets, their ids.

    All texts of a column must lie end to end, with padding behind the last.
    """
    columns = table.source, table.target
    head = [np.array([len(table)]), *(column.lengths for column in columns)]
    parts = [*(part.astype(np.int32) for part in head), *(column.ids for column in columns)]
    return np.concatenate(parts)


def _read_table(path: Path, n: int) -> IdTable | None:
    """The table of ``n`` examples; None where the file is damaged."""
    try:
        return table_in(np.load(path, mmap_mode="r"), n)
    except (ValueError, OSError, EOFError):
        return None


def table_in(flat: Ids, n: int) -> IdTable | None:
    """The table of ``n`` examples of ``flat_table``; None where that is something else."""
    if len(flat) < 1 + 2 * n:
        return None
    lengths = flat[1 : 1 + 2 * n].reshape(2, n).astype(np.int64)
    ids = flat[1 + 2 * n :]
    n_source, n_target = (int(some.sum()) + 1 for some in lengths)  # padding behind the last
    if flat[0] != n or len(ids) != n_source + n_target:
        return None
    return IdTable(Column.of(ids[:n_source], lengths[0]), Column.of(ids[n_source:], lengths[1]))
