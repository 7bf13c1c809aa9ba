"""What a tokenizer calls its tokens that are no text."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Marks:
    """Ids of special tokens; None where a tokenizer has none for it."""

    pad: int
    begin: int | None
    """Before a text: ``<s>``, BERT's [CLS]."""
    end: int
    """After a text: ``</s>``, BERT's [SEP]."""
    unknown: int | None
    mask: int | None = None
    """In place of a word that is to be guessed."""
    other_ends: tuple[int, ...] = ()
    """What ends a text as well, where a model was taught several."""

    @property
    def unread(self) -> int | None:
        """What stands for the unknown in a text; GPT-2 calls its end so, and reads everything."""
        return None if self.unknown == self.end else self.unknown

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Marks:
        """Of what ``asdict`` gave, once it was a file."""
        return cls(**{**said, "other_ends": tuple(said.get("other_ends", ()))})

    def named(self) -> dict[str, int]:
        """Those there are, but for the other ends."""
        return {name: number for name, number in self._single().items() if number is not None}

    def strange(self, known: Container[int]) -> list[str]:
        """Those that are no known ids, each with its name."""
        every = [*self._single().items(), *(("other_ends", one) for one in self.other_ends)]
        needed = ("pad", "end", "other_ends")
        return [
            f"{name}={one!r}"
            for name, one in every
            if (one is not None or name in needed) and (type(one) is not int or one not in known)
        ]

    def _single(self) -> dict[str, int | None]:
        return {name: one for name, one in asdict(self).items() if name != "other_ends"}
