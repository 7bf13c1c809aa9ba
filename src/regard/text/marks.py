"""What a tokenizer calls its tokens that are no text."""

from __future__ import annotations

from dataclasses import asdict, dataclass


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

    def named(self) -> dict[str, int]:
        """Those there are."""
        return {name: number for name, number in asdict(self).items() if number is not None}
