"""One split of a run's data, by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean

T = TypeVar("T")


def split_of(splits: Mapping[str, T], name: str, *, remedy: str = "") -> T:
    """The split of this name; a wrong one is told, with those there are."""
    if name not in splits:
        known, hint = ", ".join(splits), did_you_mean(name, splits)
        raise ConfigError(f"the run's data has no split {name!r}{hint}; it has {known}{remedy}")
    return splits[name]
