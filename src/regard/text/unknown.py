"""What a tokenizer cannot read."""

from __future__ import annotations

from regard.text import words
from regard.text.tokenizer import Tokenizer


def unknown_words(tokenizer: Tokenizer, text: str) -> list[str]:
    """The words of a text in which something is that the tokenizer has never seen, in order.

    A word that stands there twice is named twice.
    """
    ids, numbers = tokenizer.encode(text), tokenizer.word_ids(text)
    known, unread = words.split(text), tokenizer.marks.unread
    strange = [n for i, n in zip(ids, numbers, strict=True) if i == unread]
    return [known[n] for n in dict.fromkeys(strange) if n is not None]
