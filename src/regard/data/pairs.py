"""What every data set is made of: a source, a target, and what is known about them."""

from __future__ import annotations

from dataclasses import dataclass

Links = tuple[tuple[int, int], ...]
"""Pairs of word positions, from 0, in the words of ``regard.text.words.split``."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One example. What a data set does not know stays ``None``."""

    source: str
    target: str
    alignment: Links | None = None
    """(source word, target word): which words translate each other."""
    antecedents: Links | None = None
    """(pronoun, antecedent), both words of the source."""
    target_antecedents: Links | None = None
    """(pronoun, antecedent), both words of the target."""
    tags: frozenset[str] = frozenset()
    """Kinds of examples that a score may be reported for apart."""

    def reversed(self) -> Pair:
        """The same example in the other direction."""
        alignment = None
        if self.alignment is not None:
            alignment = tuple(sorted((t, s) for s, t in self.alignment))
        return Pair(
            source=self.target,
            target=self.source,
            alignment=alignment,
            antecedents=self.target_antecedents,
            target_antecedents=self.antecedents,
            tags=self.tags,
        )
