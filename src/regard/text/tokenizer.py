"""Strings ↔ ids, in three kinds.

========  ================================  ==========================================
kind      a token is                        ``decode(encode(text))``
========  ================================  ==========================================
``word``  a word of ``regard.text.words``   ``join(split(text))``, unknown words lost
``char``  a character                       the text, unknown characters lost
``bpe``   a piece of a word, in bytes       the text, always
========  ================================  ==========================================

Special tokens have the ids of ``regard.text.specials`` in each, and no text can spell them: a
sentence with ``</s>`` in it is a sentence with four signs in it.

The file is the JSON of the ``tokenizers`` library. Pieces are found by that library; words and
characters are looked up here, because its ``\\w`` and Python's differ on 12,000 characters.
"""

from __future__ import annotations

import copy
import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from regard.core.errors import CheckpointError, DataError
from regard.core.files import write_whole
from regard.text import words
from regard.text.plain import is_sign, plain
from regard.text.settings import Kind, TextSettings
from regard.text.specials import BEGIN_ID, END_ID, MASK, PAD_ID, SPECIALS, UNKNOWN_ID, SpecialIds
from regard.text.tokenizer_files import read_tokenizer

SPACE = "▁"
"""How a space is shown by ``Tokenizer.tokens``."""

_SURROGATE = re.compile("[\ud800-\udfff]")

# WORD_PATTERN in the dialect of the Rust library, whose \w contains accents. A piece never crosses
# the border of a word; a word takes one space before it along, as GPT-2's pieces do.
_RUST_WORD = (
    r"(?:\d+(?:[.,]\d+)+\w*"
    r"|\w[\w\x{200c}\x{200d}]*(?:-\w[\w\x{200c}\x{200d}]*)*(?:['’](?!\W))?"
    r"|[^\w\s][\p{M}\x{200c}\x{200d}]*)"
)
_RUST_PIECE = rf" ?{_RUST_WORD}|\s+(?!\S)|\s+"


def _signs(among: Iterable[str]) -> str:
    return f"[{re.escape(''.join(sorted(among)))}]"


# The spaces that ``words.join`` leaves out, where one stands before every word.
_RUST_JOINTS = (
    rf"\A |(?<=[^ ]{_signs(words.APOSTROPHES)}) |(?<= {_signs(words.GLUED_RIGHT)}) "
    rf"| (?={_signs(words.GLUED_LEFT)}(?: |\z))"
)


class Tokenizer:
    """Strings ↔ ids. Made by ``train`` or ``load``."""

    def __init__(self, inner: tokenizers.Tokenizer, specials: SpecialIds | None = None) -> None:
        inner.encode_special_tokens = True  # "</s>" in a text is text; the file does not keep this
        self._inner = inner
        self._ids: dict[str, int] = inner.get_vocab()
        self._tokens = {number: token for token, number in self._ids.items()}
        fused = isinstance(inner.decoder, decoders.Fuse)
        kind: Kind = "char" if fused else "word"  # the file has no place for it
        self.kind: Kind = "bpe" if isinstance(inner.model, models.BPE) else kind
        if self.kind == "word" and specials is None:  # so that whoever reads the file joins as we
            inner.decoder = _joined_words()
        ours = SpecialIds(PAD_ID, BEGIN_ID, END_ID, UNKNOWN_ID, self._ids.get(MASK))
        self.specials = specials or ours
        """Ids of the special tokens by what they are for."""
        parts = (inner.pre_tokenizer, inner.decoder)  # tokens may be spelled in signs for bytes
        levels = pre_tokenizers.ByteLevel, decoders.ByteLevel
        self._in_bytes = any(isinstance(part, levels) for part in parts)
        self.lowercase: bool = inner.normalizer is not None
        self.n_vocab: int = len(self._ids)
        self.plain = False
        """Whether what is typed is read in small letters and without signs."""

    def reading_plain(self) -> Tokenizer:
        """The same, which reads any text as ``regard.text.plain`` has it; places stay those of
        what was typed. The file has no place for that: the run knows what its texts are like."""
        found = copy.copy(self)
        found.plain = True
        return found

    def read_as(self, text: str) -> str:
        """What is read of a text that was typed: mostly itself."""
        return plain(text).text if self.plain else text

    @classmethod
    def train(
        cls, texts: Iterable[str], settings: TextSettings, *, masking: bool = False
    ) -> Tokenizer:
        """Always the same for the same texts; ``masking`` adds a token for masked words."""
        assert not isinstance(texts, str), "texts are many"
        cleaned = (_without_surrogates(text) for text in texts)
        if settings.lowercase:
            cleaned = (text.lower() for text in cleaned)
        specials = (*SPECIALS, MASK) if masking else SPECIALS
        if settings.kind == "bpe":
            inner = _train_pieces(cleaned, settings.vocab_size, specials)
        else:
            parts = map(words.split, cleaned) if settings.kind == "word" else cleaned
            inner = lookup_table(settings.kind, _ranked(parts, settings, specials), specials)
        if settings.lowercase:
            inner.normalizer = normalizers.Lowercase()
        return cls(inner)

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """The tokenizer that ``save`` wrote."""
        inner = read_tokenizer(path)
        for number, token in enumerate(SPECIALS):
            if inner.token_to_id(token) != number:
                raise CheckpointError(
                    f"{path} is not a tokenizer of Regard: id {number} is "
                    f"{inner.id_to_token(number)!r}, expected {token!r}"
                )
        return cls(inner)

    @classmethod
    def from_json(cls, text: str) -> Tokenizer:
        """The tokenizer of a ``to_json``."""
        return cls(tokenizers.Tokenizer.from_str(text))

    def to_json(self) -> str:
        """All there is to know about it."""
        return self._inner.to_str(pretty=True)

    def renew(self, text: str) -> None:
        """Take a new engine, made of a ``to_json`` of this very tokenizer.

        A panic in Rust may have left the old one locked for good.
        """
        self._inner = tokenizers.Tokenizer.from_str(text)
        self._inner.encode_special_tokens = True

    def save(self, path: Path) -> None:
        """Write the file whole or not at all."""
        write_whole(path, self.to_json())

    @cached_property
    def special_ids(self) -> dict[str, int]:
        """Tokens that are no text, and their ids."""
        return {self._tokens[number]: number for number in self.specials.named().values()}

    def encode(self, text: str) -> list[int]:
        """Text to ids; nothing is added at the ends."""
        text = self.read_as(text)
        if self.kind == "bpe":
            return self._pieces(text).ids
        parts = words.split(text) if self.kind == "word" else text
        if self.lowercase:  # of each part, so that places in the text stay what they are
            parts = [part.lower() for part in parts]
        return [self._ids.get(part, UNKNOWN_ID) for part in parts]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of many texts at once, faster than one by one."""
        if self.kind != "bpe":
            return [self.encode(text) for text in texts]
        try:
            read = [self.read_as(text) for text in texts]
            encodings = self._inner.encode_batch_fast(read, add_special_tokens=False)
        except TypeError:  # some text cannot be UTF-8; it alone pays for that
            return [self.encode(text) for text in texts]
        return [encoding.ids for encoding in encodings]

    def unmerged(self, text: str) -> list[str]:
        """The parts of a text inside which pieces are merged, one sign a byte (kind bpe).

        Joined, they are the text, or the text in small letters.
        """
        text = _without_surrogates(text)
        if self._inner.normalizer is not None:
            text = self._inner.normalizer.normalize_str(text)
        assert self._inner.pre_tokenizer is not None, "every kind has one"
        return [part for part, _ in self._inner.pre_tokenizer.pre_tokenize_str(text)]

    def byte_ids(self, part: str) -> tuple[int, ...]:
        """A part of ``unmerged`` as ids, one a byte."""
        return tuple(self._ids[sign] for sign in part)

    def merges(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Two neighbours → when their merge was learned, and what they become (kind bpe)."""
        learned = json.loads(self._inner.to_str())["model"]["merges"]
        return {
            (self._ids[left], self._ids[right]): (rank, self._ids[left + right])
            for rank, (left, right) in enumerate(learned)
        }

    def decode(self, ids: Iterable[int], unknown: Sequence[str] = ()) -> str:
        """Ids to text. Padding, begin and end vanish.

        What was unknown shows as the next of ``unknown``, or as ``<unk>`` where there is none left.
        """
        silent = {self.specials.pad, self.specials.begin, self.specials.end}
        spoken = [number for number in ids if number not in silent]
        if self.kind == "bpe":
            return self._inner.decode(spoken, skip_special_tokens=False)
        left = iter(unknown)
        tokens = [
            next(left, SPECIALS[UNKNOWN_ID]) if number == UNKNOWN_ID else self._tokens[number]
            for number in spoken
        ]
        return words.join(tokens) if self.kind == "word" else "".join(tokens)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """What to show for each id, special ones included.

        A space is shown as ``▁`` (kinds char and bpe; words have none), so that joined pieces read
        as the text. Bytes of a character that was torn apart are shown as ``\\xe2``.
        """
        return [self._shown(self._tokens[number]) for number in ids]

    def spelled(self) -> list[str]:
        """All tokens in the order of their ids, as the file spells them."""
        return [self._tokens[number] for number in range(self.n_vocab)]

    def nameless(self, n: int) -> list[int]:
        """The ids below ``n`` that no token has: a model of others may have rows for them."""
        return [number for number in range(n) if number not in self._tokens]

    def word_ids(self, text: str) -> list[int | None]:
        """For each token of ``encode(text)``, its word in ``words.split(text)``, counted from 0.

        White space between words belongs to none. A token belongs to the word of its first
        character that is not white space.
        """
        if not self.plain:
            return self._word_ids(text)
        kept = [n for n, word in enumerate(words.split(text)) if not is_sign(word)]
        return [None if n is None else kept[n] for n in self._word_ids(plain(text).text)]

    def _word_ids(self, text: str) -> list[int | None]:
        """The same of a text as it is read."""
        if self.kind == "word":
            return list(range(len(words.split(text))))
        starts = [start for start, _ in words.spans(text)]
        return [_word_at(text, begin, end, starts) for begin, end in self._offsets(text)]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """For each token of ``encode(text)``, where it begins and ends in the text, in characters.

        A piece may take the space before it along. Pieces of one character all stand where it
        stands.
        """
        if not self.plain:
            return self._offsets(text)
        read = plain(text)
        return [read.typed(*span) for span in self._offsets(read.text)]

    def _offsets(self, text: str) -> list[tuple[int, int]]:
        """The same in a text as it is read."""
        if self.kind == "word":
            return words.spans(text)
        if self.kind == "char":
            return [(i, i + 1) for i in range(len(text))]
        return self._pieces(text).offsets

    def _pieces(self, text: str) -> tokenizers.Encoding:
        return self._inner.encode(_without_surrogates(text), add_special_tokens=False)

    def _shown(self, token: str) -> str:
        if self._in_bytes and token not in self.special_ids:
            token = text_of_bytes(token)
        return token if self.kind == "word" else token.replace(" ", SPACE)


def _word_at(text: str, begin: int, end: int, starts: Sequence[int]) -> int | None:
    while begin < end and text[begin].isspace():
        begin += 1
    return bisect_right(starts, begin) - 1 if begin < end else None


def _without_surrogates(text: str) -> str:
    """Half characters, which JSON can smuggle in, become �; positions stay."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _ranked(
    texts: Iterable[Iterable[str]], settings: TextSettings, specials: Sequence[str]
) -> list[str]:
    """The special tokens, then the most frequent parts; equal counts in alphabetical order."""
    counts = Counter(chain.from_iterable(texts))
    if not counts:
        raise DataError("cannot train a tokenizer: the texts hold no word and no character")
    ranked = sorted(counts, key=lambda part: (-counts[part], part))
    return [*specials, *ranked][: settings.vocab_size]


def lookup_table(
    kind: Kind, tokens: Sequence[str], specials: Sequence[str] = SPECIALS
) -> tokenizers.Tokenizer:
    """Words or characters in the order of their ids, our special tokens first."""
    table = {token: number for number, token in enumerate(tokens)}
    inner = tokenizers.Tokenizer(models.WordLevel(table, unk_token=SPECIALS[UNKNOWN_ID]))
    inner.add_special_tokens(list(specials))
    if kind == "word":
        inner.pre_tokenizer = pre_tokenizers.Split(Regex(_RUST_WORD), "removed", invert=True)
    else:
        inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        inner.decoder = decoders.Fuse()
    return inner


def _joined_words() -> decoders.Decoder:
    """``words.join`` as a step of the ``tokenizers`` library."""
    before_each, left_out = Regex(r"\A"), Regex(_RUST_JOINTS)
    return decoders.Sequence(
        [decoders.Replace(before_each, " "), decoders.Fuse(), decoders.Replace(left_out, "")]
    )


def _train_pieces(texts: Iterable[str], size: int, specials: Sequence[str]) -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_RUST_PIECE), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,  # a piece seen once is never seen again
        special_tokens=list(specials),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(texts, trainer)
    return inner


_PLAIN = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_OTHERS = [byte for byte in range(0x100) if byte not in _PLAIN]
_BYTES = {chr(byte): byte for byte in _PLAIN} | {chr(0x100 + i): b for i, b in enumerate(_OTHERS)}
"""Sign → byte: printable Latin-1 is itself, the rest, in order, from U+0100."""


def text_of_bytes(token: str) -> str:
    """The text of a piece that is spelled in signs for bytes, torn ones as ``\\xe2``.

    A token with any other sign in it was added as text, and stays.
    """
    if not all(sign in _BYTES for sign in token):
        return token
    return bytes(_BYTES[sign] for sign in token).decode("utf-8", "backslashreplace")


def unknown_words(tokenizer: Tokenizer, text: str) -> list[str]:
    """The words of a text, in order, that hold something the tokenizer has never seen."""
    return [text[begin:end] for begin, end in unknown_spans(tokenizer, text)]


def unknown_spans(tokenizer: Tokenizer, text: str) -> list[tuple[int, int]]:
    """Where such words begin and end, in characters."""
    ids, numbers = tokenizer.encode(text), tokenizer.word_ids(text)
    known, unread = words.spans(text), tokenizer.specials.unread
    strange = [n for i, n in zip(ids, numbers, strict=True) if i == unread]
    return [known[n] for n in dict.fromkeys(strange) if n is not None]
