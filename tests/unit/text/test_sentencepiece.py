"""SentencePiece files made by hand, and the tokenizers that come of them."""

import struct

import pytest

from regard.core.errors import CheckpointError
from regard.text.sentencepiece import OTHER_SIDE, read_sentencepieces, unigram
from regard.text.specials import SPECIALS

PIECES = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), ("▁a", -2.0, 1), ("b", -3.0, 1)]
PIECES += [("▁ab", -1.0, 1), ("▁", -4.0, 1), ("c", -5.0, 4)]


def field(number, value):
    if isinstance(value, int):
        return bytes([number << 3]) + varint(value)
    if isinstance(value, float):
        return bytes([number << 3 | 5]) + struct.pack("<f", value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(number):
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def spm(pieces=PIECES, kind=1):
    body = b"".join(
        field(1, field(1, piece.encode()) + field(2, score) + field(3, sort))
        for piece, score, sort in pieces
    )
    trainer = field(2, b"x" * 300) + field(3, kind)
    return body + field(2, trainer) + field(3, field(1, b"identity"))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "source.spm"
    path.write_bytes(spm())
    return path


def test_pieces_are_read_with_their_scores(file):
    found = read_sentencepieces(file)
    assert found.scores == {"▁a": -2.0, "b": -3.0, "▁ab": -1.0, "▁": -4.0, "c": -5.0}
    assert (found.least, found.normalisation) == (-5.0, b"")


def test_a_text_is_cut_into_the_most_probable_pieces(file):
    tokens = [*SPECIALS, "b", "▁a", "▁ab", "▁", "c", "z", "▁autre"]
    inner = unigram(read_sentencepieces(file), tokens)
    assert inner.encode("ab  abb c ").tokens == ["▁ab", "▁ab", "b", "▁", "c"]
    assert inner.encode("ab").ids == [6]
    assert inner.decode(inner.encode("ab  abb c ").ids) == "ab abb c"


def test_what_only_the_other_side_has_is_written_and_not_read(file):
    tokens = [*SPECIALS, "b", "▁a", "▁ab", "▁", "c", "z", "▁ac"]
    inner = unigram(read_sentencepieces(file), tokens)
    assert inner.encode("ac").tokens == ["▁a", "c"]
    assert inner.id_to_token(10) == OTHER_SIDE + "▁ac"
    assert inner.decode([6, 10]) == "ab ac"


def test_a_character_of_the_other_side_is_the_last_resort(file):
    file.write_bytes(spm([*PIECES, ("cz", -5.0, 1)]))
    tokens = [*SPECIALS, "b", "▁a", "▁ab", "▁", "c", "z", "cz"]
    inner = unigram(read_sentencepieces(file), tokens)
    assert inner.encode("acz").tokens == ["▁a", "cz"]
    assert inner.encode("az").ids == [5, 9]
    assert inner.encode("aq").ids == [5, 3]


@pytest.mark.parametrize("special", SPECIALS)
def test_no_text_can_spell_a_special_token(file, special):
    tokens = [*SPECIALS, "b", "▁a", "▁ab", "▁", "c"]
    inner = unigram(read_sentencepieces(file), tokens)
    inner.encode_special_tokens = True
    assert not {0, 1, 2} & set(inner.encode(f"ab {special} b{special}").ids)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (spm(kind=2), "of kind 2; only unigram models"),
        (spm([*PIECES, ("<0x41>", -9.0, 6)]), "falls back to bytes"),
        (spm([]), "no pieces"),
        (b"\x0a\xff", "damaged or no SentencePiece file"),
        (spm()[:50], "damaged or no SentencePiece file"),
        (b"\x0b", "unknown field type 3"),
    ],
)
def test_other_files_are_refused(tmp_path, data, words):
    path = tmp_path / "source.spm"
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=words):
        read_sentencepieces(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CheckpointError, match="cannot read .*source.spm: No such file"):
        read_sentencepieces(tmp_path / "source.spm")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (field(1, field(2, -1.0)), "a piece is '' with the score -1.0"),
        (field(1, field(1, 5)), "field 1 is a number, where bytes are expected"),
        (field(1, field(1, b"q") + field(2, 7)), "field 2 is a number, where bytes are expected"),
        (field(1, field(1, b"q") + field(2, float("nan"))), "a piece is 'q' with the score nan"),
        (field(1, field(1, b"q") + field(2, b"12")), "unpack requires a buffer of 4 bytes"),
        (field(3, field(2, 10**12)), "field 2 is a number, where bytes are expected"),
        (field(3, field(2, 10**25)), "a number has no end"),
        (field(3, field(2, b"garbage")), "Cannot parse precompiled_charsmap"),
        (b"\xff" * 300_000, "a number has no end"),
    ],
)
def test_fields_of_another_kind_are_told_as_damage(file, more, words):
    file.write_bytes(spm() + more)
    with pytest.raises(CheckpointError, match=f"damaged or no SentencePiece file: .*{words}"):
        read_sentencepieces(file)


def test_a_kind_that_is_no_number_is_refused(file):
    file.write_bytes(spm() + field(2, field(3, b"1")))
    with pytest.raises(CheckpointError, match="is of kind b'1'; only unigram models"):
        read_sentencepieces(file)
