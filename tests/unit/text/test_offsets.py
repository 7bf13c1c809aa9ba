"""Where tokens stand in a text: of our tokenizers and of others'."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text.pretrained import word_pieces
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer

TEXTS = ["the cat sat on the mat.", "a café, naïve  cat\n", "l'animal n'a pas dormi"]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    found = {
        kind: Tokenizer.train(TEXTS * 2, TextSettings(kind=kind, vocab_size=300))
        for kind in ("word", "char", "bpe")
    }
    folder = tmp_path_factory.mktemp("pieces")
    letters = [chr(i) for i in range(97, 123)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", *letters]
    (folder / "vocab.txt").write_text("\n".join([*words, *(f"##{x}" for x in letters), ".", ","]))
    found["foreign"] = word_pieces(folder)
    return found


@pytest.mark.parametrize("kind", ["word", "char", "bpe", "foreign"])
@given(text=st.text(max_size=30))
@settings(deadline=None, max_examples=60)
def test_each_token_has_a_place_inside_the_text_in_order(tokenizers, kind, text):
    tokenizer = tokenizers[kind]
    offsets = tokenizer.offsets(text)
    assert len(offsets) == len(tokenizer.encode(text))
    assert all(0 <= begin <= end <= len(text) for begin, end in offsets)
    assert offsets == sorted(offsets)
    if kind in ("char", "bpe"):
        covered = {i for begin, end in offsets for i in range(begin, end)}
        assert covered == {*range(len(text))}


def test_words_and_pieces_are_where_they_are_spelled(tokenizers):
    text = "the  cats"
    assert tokenizers["word"].offsets(text) == [(0, 3), (5, 9)]
    assert tokenizers["foreign"].offsets(text) == [(0, 3), (5, 8), (8, 9)]
    found = [text[begin:end] for begin, end in tokenizers["bpe"].offsets(text)]
    assert "".join(found) == text


def test_pieces_of_one_character_stand_where_it_stands(tokenizers):
    assert tokenizers["bpe"].offsets("a🙂") == [(0, 1), *[(1, 2)] * 4]


def test_accents_and_capitals_that_a_foreign_tokenizer_drops_are_counted(tokenizers):
    text = "É The CATS"
    tokenizer = tokenizers["foreign"]
    assert tokenizer.tokens(tokenizer.encode(text)) == ["e", "the", "cat", "##s"]
    assert [text[begin:end] for begin, end in tokenizer.offsets(text)] == ["É", "The", "CAT", "S"]
