"""Tokenizers of others: their ids, their special tokens."""

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from regard.core.errors import CheckpointError
from regard.text.pretrained import PretrainedTokenizer
from regard.text.specials import SpecialIds

TEXTS = ["the cat sat", "the dogs sat down", "naïve cats"] * 5


@pytest.fixture
def pieces():
    table = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}
    table |= {piece: 5 + i for i, piece in enumerate(["the", "cat", "##s", "sat", "do", "##g"])}
    inner = tokenizers.Tokenizer(models.WordPiece(table, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer()
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    inner.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    inner.enable_truncation(2)
    inner.enable_padding()
    return PretrainedTokenizer(inner, SpecialIds(pad=0, begin=2, end=3, unknown=1, mask=4))


@pytest.fixture
def in_bytes():
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(TEXTS, trainer)
    return PretrainedTokenizer(inner, SpecialIds(pad=0, begin=0, end=0, unknown=None))


def test_texts_are_neither_cut_nor_padded(pieces):
    ids = pieces.encode("The cats sat")
    assert pieces.tokens(ids) == ["the", "cat", "##s", "sat"]
    assert pieces.encode_batch(["cat", "the cats sat"]) == [pieces.encode("cat"), ids]
    assert pieces.decode([2, *ids, 3, 0]) == "the cats sat"


def test_special_tokens_in_a_text_are_text(pieces):
    assert 3 not in pieces.encode("[SEP]")


def test_every_text_comes_back_from_bytes(in_bytes):
    for text in ("the naïve cat", "a  b\n", "猫"):
        assert in_bytes.decode(in_bytes.encode(text)) == text
    assert in_bytes.tokens(in_bytes.encode(" cat"))[0].startswith("▁")
    assert in_bytes.tokens([0]) == ["<|end|>"]


def test_tokens_know_their_words(pieces):
    assert pieces.word_ids("the cats sat") == [0, 1, 1, 2]


@pytest.mark.parametrize("which", ["pieces", "in_bytes"])
def test_it_is_the_same_after_saving(tmp_path, request, which):
    tokenizer = request.getfixturevalue(which)
    tokenizer.save(tmp_path / "tokenizer.json")
    again = PretrainedTokenizer.load(tmp_path / "tokenizer.json")
    assert again.specials == tokenizer.specials
    assert again.special_ids == tokenizer.special_ids
    assert again.n_vocab == tokenizer.n_vocab
    for text in TEXTS:
        assert again.encode(text) == tokenizer.encode(text)


def test_without_its_marks_it_is_no_tokenizer(tmp_path, pieces):
    pieces.save(tmp_path / "tokenizer.json")
    (tmp_path / "marks.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"marks\.json is damaged"):
        PretrainedTokenizer.load(tmp_path / "tokenizer.json")
    (tmp_path / "marks.json").unlink()
    with pytest.raises(CheckpointError, match=r"cannot read .*marks\.json"):
        PretrainedTokenizer.load(tmp_path / "tokenizer.json")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ('{"pad": 0, "begin": 2, "end": 9999, "unknown": 1}', "0 to 10, but found end=9999"),
        ('{"pad": "x", "begin": null, "end": 3, "unknown": null}', "but found pad='x'"),
        ('{"pad": 0, "begin": null, "end": null, "unknown": 1}', "but found end=None"),
        ('{"pad": 0, "begin": -1, "end": 3, "unknown": true}', "found begin=-1, unknown=True"),
        ('{"pad": 0, "begin": 2, "end": 3, "unknown": 1, "other_ends": [4, 11]}', "other_ends=11"),
        ("[]", ""),
    ],
)
def test_marks_that_are_no_ids_of_the_tokenizer_are_refused(tmp_path, pieces, said, words):
    pieces.save(tmp_path / "tokenizer.json")
    (tmp_path / "marks.json").write_text(said)
    with pytest.raises(CheckpointError, match=rf"marks\.json is damaged: .*{words}"):
        PretrainedTokenizer.load(tmp_path / "tokenizer.json")


def test_other_ends_are_kept_and_have_no_name(tmp_path, pieces):
    marks = SpecialIds(pad=0, begin=2, end=3, unknown=1, other_ends=(4, 5))
    assert marks.named() == {"pad": 0, "begin": 2, "end": 3, "unknown": 1}
    pieces.save(tmp_path / "tokenizer.json")
    inner = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    PretrainedTokenizer(inner, marks).save(tmp_path / "tokenizer.json")
    assert PretrainedTokenizer.load(tmp_path / "tokenizer.json").specials == marks
