import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import CheckpointError, DataError
from regard.text.settings import TextSettings
from regard.text.specials import SPECIALS
from regard.text.tokenizer import Tokenizer
from regard.text.words import join, split

TEXTS = [
    "the animal did not cross the street because it was too tired.",
    "l'animal n'a pas traversé la rue parce qu'il était trop fatigué.",
    "the animal did not cross the street because it was too wide.",
    "l'animal n'a pas traversé la rue parce qu'elle était trop large.",
]
KINDS = ["word", "char", "bpe"]
TOKENIZERS = {
    kind: Tokenizer.train(TEXTS, TextSettings(kind=kind, vocab_size=400)) for kind in KINDS
}
BPE, CHAR, WORD = TOKENIZERS["bpe"], TOKENIZERS["char"], TOKENIZERS["word"]

any_text = st.text(max_size=60)
everyday_text = st.text(alphabet="the animl'’é.,-3 \n(?", max_size=60)


@given(any_text)
@settings(deadline=None)
def test_pieces_give_any_text_back(text):
    assert BPE.decode(BPE.encode(text)) == text


@given(any_text)
@settings(deadline=None)
def test_characters_give_the_text_back_but_for_unknown_ones(text):
    known = set("".join(TEXTS))
    expected = "".join(sign if sign in known else "<unk>" for sign in text)
    assert CHAR.decode(CHAR.encode(text)) == expected


@given(st.lists(st.sampled_from(["the", "animal", "qu'il", "était", "l'animal", "."])))
@settings(deadline=None)
def test_words_give_back_what_splitting_and_joining_gives(words):
    text = "  ".join(words)
    assert WORD.decode(WORD.encode(text)) == join(split(text))


def test_an_unknown_word_is_shown_as_unknown():
    assert WORD.decode(WORD.encode("the zebra was tired")) == "the <unk> was tired"


@pytest.mark.parametrize("kind", KINDS)
@given(any_text)
@settings(deadline=None)
def test_ids_are_below_the_size_of_the_vocabulary_and_never_silent(kind, text):
    tokenizer = TOKENIZERS[kind]
    assert all(3 <= number < tokenizer.n_vocab for number in tokenizer.encode(text))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("special", SPECIALS)
def test_no_text_can_spell_a_special_token(kind, special):
    text = f"the {special}{special} animal"
    tokenizer = Tokenizer.train([text, text], TextSettings(kind=kind, vocab_size=300))
    assert min(tokenizer.encode(text)) >= len(SPECIALS)
    assert min(tokenizer.encode_batch([text])[0]) >= len(SPECIALS)
    assert special not in tokenizer.tokens(tokenizer.encode(text))


@pytest.mark.parametrize("kind", KINDS)
def test_special_ids_are_the_same_in_every_kind(kind):
    tokenizer = TOKENIZERS[kind]
    assert tokenizer.special_ids == {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3}
    assert tokenizer.tokens([0, 1, 2, 3]) == ["<pad>", "<s>", "</s>", "<unk>"]


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_drops_padding_begin_and_end_but_not_unknown(kind):
    tokenizer = TOKENIZERS[kind]
    ids = tokenizer.encode("the animal")
    assert tokenizer.decode([1, *ids, 2, 0, 0]) == "the animal"
    assert tokenizer.decode([1, 3, 2]) == "<unk>"


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(st.text(alphabet=st.characters(), max_size=20), max_size=4))
@settings(deadline=None)
def test_a_batch_is_its_texts_one_by_one(kind, texts):
    tokenizer = TOKENIZERS[kind]
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]


def test_half_a_character_is_read_as_a_replacement_sign():
    assert BPE.encode("a\ud800b") == BPE.encode("a\ufffdb")
    assert BPE.encode_batch(["x", "a\ud800b"]) == BPE.encode_batch(["x", "a\ufffdb"])
    assert Tokenizer.train(["a\ud800"], TextSettings(kind="char")).decode([4, 5]) == "a\ufffd"


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_texts_in_any_order_give_the_same_file(kind, tmp_path):
    for name, texts in (("a", TEXTS), ("b", TEXTS[::-1])):
        Tokenizer.train(texts, TextSettings(kind=kind, vocab_size=300)).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_other_texts_give_other_pieces():
    other = Tokenizer.train(["completely different"] * 2, TextSettings(vocab_size=300))
    assert other.encode(TEXTS[0]) != BPE.encode(TEXTS[0])


@pytest.mark.parametrize(("kind", "text"), [("word", "b b c a c b d"), ("char", "bbcacbd")])
def test_the_most_frequent_come_first_and_equals_by_alphabet(kind, text):
    tokenizer = Tokenizer.train([text], TextSettings(kind=kind, vocab_size=7))
    assert tokenizer.tokens(range(4, 7)) == ["b", "c", "a"]
    assert tokenizer.n_vocab == 7
    assert tokenizer.encode("d") == [3]


def test_pieces_grow_to_the_size_asked_for_and_make_texts_shorter():
    bytes_only, longer = (Tokenizer.train(TEXTS, TextSettings(vocab_size=n)) for n in (260, 300))
    assert (bytes_only.n_vocab, longer.n_vocab) == (260, 300)
    assert len(bytes_only.encode(TEXTS[1])) == len(TEXTS[1].encode())
    assert len(longer.encode(TEXTS[1])) < len(TEXTS[1])
    assert BPE.n_vocab < 400  # no pair is left that was seen twice


@pytest.mark.parametrize("kind", ["word", "char"])
def test_texts_without_a_word_are_refused(kind):
    with pytest.raises(DataError, match="no word and no character"):
        Tokenizer.train(["", ""], TextSettings(kind=kind))


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_tokenizer_comes_back(kind, tmp_path):
    tokenizer = TOKENIZERS[kind]
    tokenizer.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    text = f"{TEXTS[1]} </s> zebra\n 💡"
    assert again.kind == kind
    assert again.n_vocab == tokenizer.n_vocab
    assert again.encode(text) == tokenizer.encode(text)
    assert again.decode(again.encode(text)) == tokenizer.decode(tokenizer.encode(text))


def test_a_missing_file_is_named(tmp_path):
    path = tmp_path / "tokenizer.json"
    with pytest.raises(CheckpointError, match=rf"cannot read {path}: No such file"):
        Tokenizer.load(path)


@pytest.mark.parametrize("damage", ["", "{}", '{"version": "1.0", "trunc', "\udcff"])
def test_a_damaged_file_is_named(damage, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(damage.encode("utf-8", "surrogateescape"))
    with pytest.raises(CheckpointError, match=rf"{path} is damaged"):
        Tokenizer.load(path)


def test_a_tokenizer_with_other_special_ids_is_refused(tmp_path):
    path = tmp_path / "tokenizer.json"
    WORD.save(path)
    content = json.loads(path.read_text())
    vocabulary = content["model"]["vocab"]
    vocabulary["<pad>"], vocabulary["<s>"] = 1, 0
    for token in content["added_tokens"]:
        token["id"] = vocabulary[token["content"]]
    content["added_tokens"].sort(key=lambda token: token["id"])
    path.write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"id 0 is '<s>', expected '<pad>'"):
        Tokenizer.load(path)


def test_tokens_show_spaces_and_torn_characters():
    assert WORD.tokens(WORD.encode("l'animal was")) == ["l'", "animal", "was"]
    assert CHAR.tokens(CHAR.encode("a c")) == ["a", "▁", "c"]
    assert BPE.tokens(BPE.encode("l'animal était")) == ["l'", "animal", "▁était"]
    assert BPE.tokens(BPE.encode("€")) == ["\\xe2", "\\x82", "\\xac"]


@given(st.text(alphabet=st.characters(max_codepoint=127)))
@settings(deadline=None)
def test_joined_tokens_read_as_the_text(text):
    assert "".join(BPE.tokens(BPE.encode(text))).replace("▁", " ") == text


def test_tokens_know_their_word():
    assert WORD.word_ids("l'animal dort") == [0, 1, 2]
    assert CHAR.word_ids("l'a  b") == [0, 0, 1, None, None, 2]
    assert BPE.word_ids("l'animal  €") == [0, 1, None, None, 2, 2, 2]
    assert BPE.word_ids("the animal, tired") == [0, 1, 2, 3, 3, 3, 3]


@pytest.mark.parametrize("kind", KINDS)
@given(everyday_text)
@settings(deadline=None)
def test_the_tokens_of_a_word_spell_that_word(kind, text):
    tokenizer = TOKENIZERS[kind]
    ids, owners = tokenizer.encode(text), tokenizer.word_ids(text)
    assert len(ids) == len(owners)
    for number, word in enumerate(split(text)):
        own = [token for token, owner in zip(ids, owners, strict=True) if owner == number]
        assert own
        if 3 not in own:
            assert tokenizer.decode(own).strip() == word


@given(any_text)
@settings(deadline=None)
def test_only_white_space_has_no_word(text):
    for token, owner in zip(BPE.encode(text), BPE.word_ids(text), strict=True):
        if owner is None:
            assert BPE.decode([token]).isspace() or "\ufffd" in BPE.decode([token])
        else:
            assert 0 <= owner < len(split(text))


@pytest.mark.parametrize("kind", KINDS)
def test_capitals_are_read_as_small_letters_where_asked(kind, tmp_path):
    settings = TextSettings(kind=kind, vocab_size=400, lowercase=True)
    lower = Tokenizer.train([text.title() for text in TEXTS], settings)
    small, large = "the animal n'a pas traversé", "The ANIMAL n'a pas TRAVERSÉ"
    assert lower.encode(small) == lower.encode(large)
    assert lower.decode(lower.encode(large)) == small
    assert lower.word_ids(small) == lower.word_ids(large)
    assert lower.encode_batch([large]) == [lower.encode(small)]
    lower.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").encode(large) == lower.encode(small)


def test_pieces_of_capitals_are_cut_anew_as_small_letters():
    lower = Tokenizer.train(TEXTS, TextSettings(vocab_size=400, lowercase=True))
    assert lower.unmerged("The ANIMAL") == lower.unmerged("the animal")
