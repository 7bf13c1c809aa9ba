"""Tokenizers of others from SentencePiece files (``.spm``), read without SentencePiece.

Such a file is one protocol buffer. Of its fields we need the pieces with their scores, the kind of
model, and the table by which characters are normalised; the rest is passed over.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from regard.core.errors import CheckpointError
from regard.core.files import read_bytes
from regard.text.specials import SPECIALS, UNKNOWN_ID

OTHER_SIDE = "\u2063"
"""Stands before a token that this side's file lacks, so that no text can be read as it."""

LAST_RESORT = 10.0
"""What an unknown character costs more than the rarest piece, as SentencePiece has it."""

_SPELLED = rf"<(?=(?:{'|'.join(re.escape(one[1:]) for one in SPECIALS)}))"
"""The sign that begins a special token in a text: a space after it, and it is text."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST = 10
"""Bytes of a number: it has 64 bits at most."""
_UNIGRAM = 1
_NORMAL, _USER_DEFINED, _BYTE = 1, 4, 6


@dataclass(frozen=True, slots=True)
class SentencePieces:
    """What an .spm file says."""

    scores: Mapping[str, float]
    """Of the pieces that can be found in a text."""
    normalisation: bytes
    """A compiled table of characters; empty where they stay as they are."""
    least: float


def read_sentencepieces(path: Path) -> SentencePieces:
    """Read an .spm file; only models of the unigram kind, without bytes, are understood."""
    try:
        return _pieces_of(read_bytes(path), path)
    except (ValueError, IndexError, struct.error) as error:
        raise CheckpointError(f"{path} is damaged or no SentencePiece file: {error}") from error


def _pieces_of(data: bytes, path: Path) -> SentencePieces:
    scores: dict[str, float] = {}
    table = b""
    kind: int | bytes = _UNIGRAM
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            piece = dict(_fields(value))
            sort = piece.get(3, _NORMAL)
            if sort == _BYTE:
                raise CheckpointError(f"{path} falls back to bytes, which is not supported")
            if sort in (_NORMAL, _USER_DEFINED):
                text = _bytes_in(piece, 1, b"").decode("utf-8")
                scores[text] = struct.unpack("<f", _bytes_in(piece, 2, bytes(4)))[0]
                if not text or not math.isfinite(scores[text]):
                    raise ValueError(f"a piece is {text!r} with the score {scores[text]}")
        elif number == 2 and isinstance(value, bytes):
            kind = dict(_fields(value)).get(3, _UNIGRAM)
        elif number == 3 and isinstance(value, bytes):
            table = _bytes_in(dict(_fields(value)), 2, b"")
    if kind != _UNIGRAM:
        raise CheckpointError(f"{path} is of kind {kind!r}; only unigram models (1) are supported")
    if not scores:
        raise ValueError("it has no pieces")
    _normaliser(table)  # so that a damaged one is found here, where the file has a name
    return SentencePieces(scores, table, min(scores.values()))


def _bytes_in(message: Mapping[int, int | bytes], number: int, otherwise: bytes) -> bytes:
    """A field that is not a number."""
    found = message.get(number, otherwise)
    if not isinstance(found, bytes):
        raise ValueError(f"field {number} is a number, where bytes are expected")
    return found


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: number and value."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, place = _varint(data, place)
            yield number, value
            continue
        if kind == _BYTES:
            length, place = _varint(data, place)
        elif kind in (_FIXED32, _FIXED64):
            length = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"unknown field type {kind}")
        if place + length > len(data):
            raise ValueError("it ends too early")
        yield number, data[place : place + length]
        place += length


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Seven bits a byte, the lowest first."""
    found = 0
    for i, byte in enumerate(data[place : place + _LONGEST]):
        found |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return found, place + i + 1
    raise ValueError("a number has no end")


def unigram(pieces: SentencePieces, tokens: Sequence[str]) -> tokenizers.Tokenizer:
    """A tokenizer over ``tokens``, ours first, that cuts texts as SentencePiece does.

    Pieces that are no token are left out: a text is cut around them. A character that is a token,
    but no piece, is taken where nothing else can be, as Marian looks up what was unknown.
    """
    table = [(token, pieces.least) for token in SPECIALS]
    for token in tokens[len(SPECIALS) :]:
        if token in pieces.scores:
            table.append((token, pieces.scores[token]))
        elif len(token) == 1:
            table.append((token, pieces.least - LAST_RESORT))
        else:
            table.append((OTHER_SIDE + token, pieces.least))
    inner = tokenizers.Tokenizer(models.Unigram(table, UNKNOWN_ID, byte_fallback=False))
    inner.normalizer = normalizers.Sequence(
        [
            *_normaliser(pieces.normalisation),
            normalizers.Replace(Regex(_SPELLED), "< "),
            normalizers.Strip(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    inner.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="always")
    inner.decoder = decoders.Sequence(
        [decoders.Replace(OTHER_SIDE, ""), decoders.Metaspace("▁", prepend_scheme="always")]
    )
    inner.add_special_tokens(list(SPECIALS))
    return inner


def _normaliser(table: bytes) -> list[normalizers.Normalizer]:
    """What reads the table of a file; nothing, where there is none."""
    try:
        return [normalizers.Precompiled(table)] if table else []
    except Exception as error:  # the library raises bare Exception
        raise ValueError(str(error)) from error
