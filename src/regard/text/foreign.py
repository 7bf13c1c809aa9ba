"""Tokenizers that others trained: any file of the ``tokenizers`` library, with its own ids.

What its special tokens are for is not told by the file, so it is kept beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import tokenizers
from tokenizers import decoders, pre_tokenizers

from regard.core.errors import CheckpointError
from regard.core.files import write_whole
from regard.text.marks import Marks
from regard.text.settings import Kind
from regard.text.tokenizer import SPACE, Tokenizer, spoken_bytes

MARKS = "marks.json"
"""Ids of the special tokens, beside the tokenizer's file."""


class ForeignTokenizer(Tokenizer):
    """Strings ↔ ids as somebody else's model knows them."""

    def __init__(self, inner: tokenizers.Tokenizer, marks: Marks) -> None:
        inner.no_padding()
        inner.no_truncation()
        super().__init__(inner)
        self._marks = marks
        self._in_bytes = _in_bytes(inner)
        self.kind: Kind = "bpe"  # pieces of words, whatever they are called
        self.n_vocab: int = max(self._tokens, default=-1) + 1
        if strange := marks.strange(self._tokens):
            raise CheckpointError(
                f"special tokens must be ids of the tokenizer, 0 to {self.n_vocab - 1}, but found "
                f"{', '.join(strange)}: the tokenizer and what names its special tokens do not "
                "belong together"
            )

    @classmethod
    def load(cls, path: Path) -> ForeignTokenizer:
        """The tokenizer that ``save`` wrote."""
        try:
            inner = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
            marks = Marks.from_json(json.loads(path.with_name(MARKS).read_text(encoding="utf-8")))
        except OSError as error:
            raise CheckpointError(f"cannot read {error.filename}: {error.strerror}") from error
        except Exception as error:  # the library raises bare Exception
            raise CheckpointError(f"{path} or its {MARKS} is damaged: {error}") from error
        try:
            return cls(inner, marks)
        except CheckpointError as error:
            raise CheckpointError(f"{path.with_name(MARKS)} is damaged: {error}") from None

    def save(self, path: Path) -> None:
        """Write the file, and the marks beside it."""
        super().save(path)
        write_whole(path.with_name(MARKS), json.dumps(asdict(self._marks), indent=2) + "\n")

    @property
    def special_ids(self) -> dict[str, int]:
        """Tokens that are no text, and their ids."""
        return {self._tokens[number]: number for number in self._marks.named().values()}

    @property
    def marks(self) -> Marks:
        """Ids of the special tokens by what they are for."""
        return self._marks

    def decode(self, ids: Iterable[int], unknown: Sequence[str] = ()) -> str:
        """Ids to text. Padding, begin and end vanish."""
        silent = {self._marks.pad, self._marks.begin, self._marks.end}
        spoken = [number for number in ids if number not in silent]
        return self._inner.decode(spoken, skip_special_tokens=False)

    def _shown(self, token: str) -> str:
        if self._in_bytes and token not in self.special_ids:
            token = spoken_bytes(token)
        return token.replace(" ", SPACE)


def _in_bytes(inner: tokenizers.Tokenizer) -> bool:
    """Whether tokens are spelled in signs that stand for bytes."""
    parts = (inner.pre_tokenizer, inner.decoder)
    return any(isinstance(part, pre_tokenizers.ByteLevel | decoders.ByteLevel) for part in parts)
