"""The data a recipe asks for, whatever it is made of: splits by name, as records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Literal, TypeVar

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import DataError
from regard.data.examples import Table, encode_table, stored_table, within
from regard.data.lines import present
from regard.data.records import Pair
from regard.data.settings import DataSettings
from regard.tasks.opening import Tokenizers

T = TypeVar("T")


NOBODYS = ("train.txt", "train.tsv")
"""What the recipe of an imported run names; a file of that name may lie here by chance."""


def check_data(folder: RunFolder, data: DataSettings, remedy: str) -> None:
    """Refuse a run that has no data."""
    if not has_data(folder, data):
        raise DataError(f"the run {folder.path} was imported and has no data of its own; {remedy}")


def has_data(folder: RunFolder, data: DataSettings) -> bool:
    """Not so where a run was never trained here, and names files that are nowhere, or nobody's.

    Whoever names a world or a folder has data; what that lacks is told elsewhere.
    """
    if folder.metrics.exists() or data.world is not None or data.folder is not None:
        return True
    files = [data.train] if isinstance(data.train, str) else data.train or ()
    return any(present(Path(name)) for name in files if name not in NOBODYS)


Rule = Literal["drop", "truncate"]


@dataclass(frozen=True, slots=True)
class Encoded:
    """Pairs that fit, their ids, and a note on those that do not fit."""

    pairs: Sequence[Pair]
    table: Table
    notes: tuple[str, ...]


def encode_within(
    pairs: Sequence[Pair],
    tokenizers: Tokenizers,
    *,
    max_len: int,
    rule: Rule,
    name: str,
    cache: Path | None = None,
) -> Encoded:
    """Pairs as ids, of at most ``max_len`` positions a side; kept in files if there is a cache."""
    sides = tokenizers.source, tokenizers.target
    whole = encode_table(pairs, *sides) if cache is None else stored_table(pairs, *sides, cache)
    table, n_long = within(whole, max_len, rule)
    if n_long and rule == "drop":
        pairs = list(compress(pairs, whole.fits(max_len)))
    verb = "cut to" if rule == "truncate" else "left out, being longer than"
    note = f"{name}: {n_long} pairs {verb} max_len={max_len} tokens"
    return Encoded(pairs, table, (note,) if n_long else ())
