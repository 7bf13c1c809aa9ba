"""Tokenizers in the files of others: what they cut, and what is told of damaged ones."""

import json

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers

from regard.core.errors import CheckpointError
from regard.text.pretrained import (
    PretrainedTokenizer,
    opened_with,
    pieces_in_bytes,
    pieces_of,
    published_template,
    word_pieces,
)
from regard.text.specials import SpecialIds

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "The", "the", "cat", "##s"]
ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
END = "<|endoftext|>"


def words(folder, lines=WORDS, **said):
    (folder / "vocab.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    return folder


def merges(folder, ids=None, lines=("#version: 0.2", "a b")):
    table = {token: i for i, token in enumerate([*ALPHABET, "ab", END])} if ids is None else ids
    (folder / "vocab.json").write_text(json.dumps(table), encoding="utf-8")
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return table


def test_word_pieces_are_lower_case_unless_a_folder_says_otherwise(tmp_path):
    assert word_pieces(words(tmp_path)).encode("The Cats") == [6, 7, 8]
    assert word_pieces(words(tmp_path, do_lower_case=False)).encode("The cats") == [5, 7, 8]


def test_special_tokens_are_for_what_bert_or_the_folder_calls_them(tmp_path):
    found = word_pieces(words(tmp_path)).specials
    assert found == SpecialIds(pad=0, begin=2, end=3, unknown=1, mask=4)
    (tmp_path / "special_tokens_map.json").write_text('{"mask_token": {"content": "cat"}}')
    assert word_pieces(tmp_path).specials.mask == 7
    lines = [word for word in WORDS if word not in ("[CLS]", "[SEP]")]
    with pytest.raises(CheckpointError, match="has no cls_token and no sep_token"):
        word_pieces(words(tmp_path, lines))


@pytest.mark.parametrize("sign", ["\u2028", "\x85", "\x1c"])
def test_a_token_may_be_a_sign_that_python_takes_for_a_line_break(tmp_path, sign):
    found = word_pieces(words(tmp_path, [*WORDS[:5], sign, *WORDS[5:]]))
    assert found.n_vocab == len(WORDS) + 1
    assert found.encode("the cats") == [7, 8, 9]


def test_a_number_left_out_of_a_vocabulary_moves_no_other(tmp_path):
    ids = merges(tmp_path)
    before = pieces_in_bytes(tmp_path, (ids[END],)).encode("zebra ab")
    del ids["A"]
    merges(tmp_path, ids)
    after = pieces_in_bytes(tmp_path, (ids[END],))
    assert after.encode("zebra ab") == before == [ids[sign] for sign in [*"zebraĠ", "ab"]]
    after.save(tmp_path / "tokenizer.json")
    assert PretrainedTokenizer.load(tmp_path / "tokenizer.json").encode("zebra ab") == before


def test_the_first_end_is_the_tokenizers_and_the_others_end_as_well(tmp_path):
    ids = merges(tmp_path)
    assert pieces_in_bytes(tmp_path, (7, 9, 7)).specials == SpecialIds(7, None, 7, None, None, (9,))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": END}))
    marks = pieces_in_bytes(tmp_path, (7, ids[END])).specials
    assert (marks.end, marks.other_ends) == (ids[END], (7,))
    (tmp_path / "tokenizer_config.json").unlink()
    with pytest.raises(CheckpointError, match="neither the tokenizer nor the model .* end token"):
        pieces_in_bytes(tmp_path, ())


def test_an_end_that_is_no_token_is_refused(tmp_path):
    merges(tmp_path)
    with pytest.raises(CheckpointError, match="0 to 257, but found pad=999, end=999"):
        pieces_in_bytes(tmp_path, (999,))
    with pytest.raises(CheckpointError, match="but found other_ends=-5"):
        pieces_in_bytes(tmp_path, (3, -5))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", r"vocab\.json is damaged: "),
        ("[" * 99999, r"vocab\.json is damaged: "),
        ("[]", r"vocab\.json must hold an object, and holds list"),
        ("{}", r"expected a number for each token, found nothing"),
        ('{"a": "b"}', r"expected a number for each token, found 'a': 'b'"),
        ('{"a": -1}', r"found 'a': -1"),
        ('{"a": 1e3}', r"found 'a': 1000\.0"),
        ('{"a": 99999999999999999999}', r"found 'a': 9999"),
        ('{"a": 1, "b": 1}', r"two of its tokens have the same number"),
    ],
)
def test_a_damaged_vocabulary_is_told(tmp_path, text, words):
    merges(tmp_path)
    (tmp_path / "vocab.json").write_text(text)
    with pytest.raises(CheckpointError, match=words):
        pieces_in_bytes(tmp_path, (0,))


def test_merges_of_tokens_that_are_not_there_are_told(tmp_path):
    merges(tmp_path, lines=("a nothing",))
    with pytest.raises(CheckpointError, match="tokens and merges do not fit together"):
        pieces_in_bytes(tmp_path, (0,))


@pytest.mark.parametrize("name", ["vocab.txt", "vocab.json", "merges.txt", "chat_template.jinja"])
def test_a_file_that_is_no_utf_8_is_told_by_name(tmp_path, name):
    merges(words(tmp_path))
    (tmp_path / name).write_bytes(b"\xff\xfe a")
    read = {
        "vocab.txt": word_pieces,
        "chat_template.jinja": published_template,
    }.get(name, lambda folder: pieces_in_bytes(folder, (0,)))
    with pytest.raises(CheckpointError, match=rf"{name} is damaged: it is not UTF-8"):
        read(tmp_path)


def test_a_folder_in_the_place_of_a_file_is_told(tmp_path):
    (words(tmp_path) / "special_tokens_map.json").mkdir()
    with pytest.raises(CheckpointError, match=r"cannot read .*special_tokens_map\.json: Is a dir"):
        word_pieces(tmp_path)


def test_a_token_for_the_unknown_that_is_not_there_is_refused(tmp_path):
    (words(tmp_path) / "special_tokens_map.json").write_text('{"unk_token": "nope"}')
    with pytest.raises(CheckpointError, match=r"vocab\.txt has no 'nope', .* name another unk_tok"):
        word_pieces(tmp_path)
    tokenizers.Tokenizer(models.WordLevel({"a": 0}, unk_token="?")).save(
        str(tmp_path / "tokenizer.json")
    )
    with pytest.raises(CheckpointError, match=r"tokenizer\.json has no '\?'"):
        word_pieces(tmp_path)


def test_digits_stand_alone_where_a_file_cuts_as_smollm():
    tokens = [*ALPHABET, "12"]
    alone, together = (pieces_of(tokens, ["1 2"], (), cut) for cut in ("smollm", "gpt-2"))
    assert alone.encode("a12").tokens == ["a", "1", "2"]
    assert together.encode("a12").tokens == ["a", "12"]
    assert pieces_of(tokens, ["1 2"], (), None).encode("12").tokens == ["12"]
    with pytest.raises(CheckpointError, match="rule 'qwen2' .* known are gpt-2, default, smollm"):
        pieces_of(tokens, [], (), "qwen2")


def test_tokens_of_control_are_found_whole():
    inner = pieces_of(["<", "s", ">", "<s>"], [], [1, 1, 1, 3], None)
    assert inner.encode("<s>s").ids == [3, 1]


def test_a_beginning_stands_before_a_text_when_asked_for():
    inner = opened_with(pieces_of(["a", "<|b c|>"], [], [1, 3], None), 1)
    assert inner.encode("a").ids == [1, 0]
    assert inner.encode("a", add_special_tokens=False).ids == [0]


def test_of_several_templates_the_default_one_is_taken(tmp_path):
    assert published_template(tmp_path) is None
    several = [{"name": "tools", "template": "t"}, {"name": "default", "template": "d"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": several}))
    assert published_template(tmp_path) == "d"
    (tmp_path / "chat_template.jinja").write_text("j")
    assert published_template(tmp_path) == "j"
