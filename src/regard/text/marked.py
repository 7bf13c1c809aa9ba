"""Texts in which special tokens are spelled out, and words of a user among them.

The template of a conversation writes ``<|im_end|>`` and means one id. A user who writes the same
means ten signs, and must not be able to end their own turn and begin another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import tokenizers

from regard.core.errors import DataError
from regard.text.tokenizer import Tokenizer

APART = "\ufdd0"
"""Parts what stands on its two sides, and is no text: Unicode will never make it a character."""
_LOST = "\ufffd"


class MarkedReader:
    """Strings → ids where special tokens may be spelled. (``Tokenizer.encode`` knows only text.)"""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._inner = tokenizers.Tokenizer.from_str(tokenizer.to_json())
        added = self._inner.get_added_tokens_decoder()
        self.special = {one.content: number for number, one in added.items() if one.special}
        """Token → id."""

    def read(self, text: str) -> list[int]:
        """Ids of a text; what ``APART`` divides is read part by part."""
        parts = text.split(APART)
        return [number for part in parts for number in self._encode(part)]

    def guarded(self, words: str) -> str:
        """Words of a user, divided so that ``read`` finds no special token in them.

        None that lies in them, and none that begins before them or ends after them either.
        """
        words = words.replace(APART, _LOST)
        for token in self.special:
            words = words.replace(token, token[0] + APART + token[1:])
        words = self._closed(words)
        numbers = {*self.special.values()}
        found = next((number for number in self.read(words) if number in numbers), None)
        if found is not None:  # one sign, or spelled in signs that are read as others
            raise DataError(
                f"these words hold the special token {self._inner.id_to_token(found)!r}, which "
                "only the model's own template may write; leave it out"
            )
        return words

    def first_special(self, text: str) -> int | None:
        """The special token that a text begins with, white space aside."""
        longest = sorted(self.special, key=len, reverse=True)
        found = re.match(r"\s*(" + "|".join(map(re.escape, longest)) + ")", text)
        return None if found is None or not longest else self.special[found[1]]

    def _closed(self, words: str) -> str:
        """With a border where a template could complete a token. Templates strip white space."""
        core = words.strip()
        begin = words.index(core) if core else 0
        before, after = words[:begin], words[begin + len(core) :]
        if core and _may_end(core, self.special):
            core = APART + core
        if core and _may_begin(core, self.special):
            core += APART
        return before + core + after

    def _encode(self, text: str) -> list[int]:
        safe = text.encode("utf-8", "replace").decode("utf-8")  # JSON can hold half characters
        return self._inner.encode(safe, add_special_tokens=False).ids


def _may_begin(words: str, tokens: Iterable[str]) -> bool:
    """Whether a token may have its beginning at the end of the words."""
    return any(words.endswith(token[:n]) for token in tokens for n in range(1, len(token)))


def _may_end(words: str, tokens: Iterable[str]) -> bool:
    """Whether a token may have its end at the beginning of the words, or lie all around them."""
    return any(
        words in token or any(words.startswith(token[n:]) for n in range(1, len(token)))
        for token in tokens
    )
