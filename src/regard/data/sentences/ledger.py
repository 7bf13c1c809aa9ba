"""What has been said already, so that nothing is said twice or in two ways."""

from __future__ import annotations

from collections.abc import Iterable

from regard.data.pairs import Pair


class Ledger:
    """Every sentence of both languages that a world holds, with its one translation."""

    def __init__(self) -> None:
        self._target: dict[str, str] = {}
        self._source: dict[str, str] = {}
        self._ambiguous: set[tuple[str, str]] = set()

    def is_new(self, pairs: Iterable[Pair]) -> bool:
        """Whether neither side of any of them is known; notes what is known in another way."""
        return not sum(not self._is_new(pair) for pair in pairs)  # a sum looks at every one

    def _is_new(self, pair: Pair) -> bool:
        target = self._target.get(pair.source)
        source = self._source.get(pair.target)
        if target not in (None, pair.target) or source not in (None, pair.source):
            self._ambiguous |= {("source", pair.source), ("target", pair.target)}
        return target is None and source is None

    def enter(self, pairs: Iterable[Pair]) -> None:
        """Remember them."""
        for pair in pairs:
            self._target[pair.source] = pair.target
            self._source[pair.target] = pair.source

    def is_clear(self, pairs: Iterable[Pair]) -> bool:
        """Whether none of them was ever met in another way."""
        return not self._ambiguous or not any(
            ("source", pair.source) in self._ambiguous or ("target", pair.target) in self._ambiguous
            for pair in pairs
        )
