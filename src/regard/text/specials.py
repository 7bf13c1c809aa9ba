"""The tokens that are no text. Their ids are the same in every tokenizer we train."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass
from typing import Any

PAD, BEGIN, END, UNKNOWN = "<pad>", "<s>", "</s>", "<unk>"
SPECIALS = (PAD, BEGIN, END, UNKNOWN)
PAD_ID, BEGIN_ID, END_ID, UNKNOWN_ID = range(4)
MASK = "<mask>"
"""Stands for a word that is to be guessed; only tokenizers of encoders have it, as the next id."""


@dataclass(frozen=True, slots=True)
class SpecialIds:
    """Ids of a tokenizer's special tokens by what they are for; None where it has none for it."""

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
        """The id that an unknown word gets; None for GPT-2, whose ``unknown`` is its end token."""
        return None if self.unknown == self.end else self.unknown

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> SpecialIds:
        """What ``asdict`` gave, read from a file."""
        return cls(**{**said, "other_ends": tuple(said.get("other_ends", ()))})

    def named(self) -> dict[str, int]:
        """Name → id of those there are, without the other ends."""
        single = {**asdict(self), "other_ends": None}
        return {name: number for name, number in single.items() if number is not None}

    def unknown_to(self, known: Container[int]) -> list[str]:
        """Those whose id is not among the known ones, as ``name=id``."""
        single = asdict(self)
        ends = [("other_ends", one) for one in single.pop("other_ends")]
        needed = ("pad", "end", "other_ends")
        return [
            f"{name}={one!r}"
            for name, one in [*single.items(), *ends]
            if (one is not None or name in needed) and (type(one) is not int or one not in known)
        ]
