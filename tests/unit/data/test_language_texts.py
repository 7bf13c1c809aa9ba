import gzip
import lzma

import pytest

from regard.core.errors import ConfigError, DataError
from regard.data.language import lines_go_on, read_texts, text_splits
from regard.data.settings import DataSettings


@pytest.fixture
def write(tmp_path):
    def put(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return put


def test_a_line_is_a_text_as_it_stands_empty_ones_too(write):
    path = write("a.txt", " one \n\ntwo\tthree\r\n")
    assert read_texts(path) == (" one ", "", "two\tthree")


@pytest.mark.parametrize(
    ("name", "pack"), [("a.txt.gz", gzip.compress), ("a.txt.xz", lzma.compress)]
)
def test_packed_files_are_read(write, name, pack):
    assert read_texts(write(name, pack(b"one\ntwo\n"))) == ("one", "two")


def test_jsonl_has_a_field_text_which_may_have_line_breaks(write):
    path = write("a.jsonl", '{"text": "one\\ntwo", "more": 1}\n\n{"text": ""}\n')
    assert read_texts(path) == ("one\ntwo", "")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "", "a.txt: empty; expected a text a line"),
        ("a.txt", "\n \n", "a.txt: 2 lines, and no text in any"),
        ("a.txt", b"one\n\xff\n", r"a.txt:2: not UTF-8 .*; save the file as UTF-8"),
        ("a.tsv", "one\ttwo\n", r"a.tsv: a table, .* give a .txt file"),
        ("a.txt.gz", b"\x1f\x8b\x08", "cut short or damaged"),
        ("a.jsonl", '{"text": "x"}\n{', "a.jsonl:2: not JSON"),
        ("a.jsonl", '{"text": "x"}\n[1]', "a.jsonl:2: expected an object with 'text', but found"),
        ("a.jsonl", '{"texts": "x"}', r"a.jsonl:1: no key 'text' \(did you mean 'texts'\?\)"),
        ("a.jsonl", '{"text": 3}', "a.jsonl:1: 'text' must be a string, but is '3'"),
        ("a.jsonl", '{"text": "\\ud800"}', "a.jsonl:1: 'text' holds half a character"),
    ],
)
def test_a_bad_file_is_told_by_file_line_and_remedy(write, name, content, message):
    with pytest.raises(DataError, match=message):
        read_texts(write(name, content))


def test_without_a_file_for_valid_the_last_lines_are_held_out(write):
    lines = tuple(f"line {i}" for i in range(60))
    path = write("a.txt", "\n".join(lines))
    splits = text_splits(DataSettings(train=path))
    assert splits == {"train": lines[:57], "valid": lines[57:]}
    splits = text_splits(DataSettings(train=path, hold_out=7))
    assert splits == {"train": lines[:53], "valid": lines[53:]}


def test_at_least_one_line_is_held_out_and_one_is_kept(write):
    assert text_splits(DataSettings(train=write("a.txt", "a\nb\n"))) == {
        "train": ("a",),
        "valid": ("b",),
    }
    with pytest.raises(DataError, match=r"one.txt: cannot hold out 1 of 1 lines"):
        text_splits(DataSettings(train=write("one.txt", "a\n")))


def test_files_for_every_split_are_read_from_their_folder(write, tmp_path):
    for name in ("x", "y", "z"):
        write(f"{name}.txt.gz", gzip.compress(f"{name}\n".encode()))
    data = DataSettings(folder=str(tmp_path), train="x.txt", valid="y.txt", test="z.txt")
    assert text_splits(data) == {"train": ("x",), "valid": ("y",), "test": ("z",)}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"train": ["a.en", "a.fr"]}, "data.train names two files"),
        ({"train": "a.txt", "columns": [1, 2]}, "data.columns is for pairs"),
        ({"train": "a.txt", "pattern": "(?P<text>.*)"}, "data.pattern is for labels"),
        ({"train": "a.txt", "valid": "b.txt", "hold_out": 3}, "data.valid names a file; keep one"),
        ({"world": "copy"}, "'copy' has no texts to go on from; choose sentences"),
    ],
)
def test_what_is_said_of_pairs_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        text_splits(DataSettings(**settings))


@pytest.mark.parametrize(("direction", "word"), [("en-fr", "the"), ("fr-en", "le")])
def test_the_world_gives_the_sentences_of_the_source_language(direction, word):
    splits = text_splits(DataSettings(world="sentences", direction=direction, n_train=200))
    assert set(splits) == {"train", "valid", "test", "pronouns", "order", "long"}
    assert any(word in text.split() for text in splits["train"])
    assert not set(splits["train"]) & set(splits["test"])


def test_lines_of_a_plain_file_go_on_and_entries_and_sentences_do_not():
    assert lines_go_on(DataSettings(train="a.txt.gz"))
    assert not lines_go_on(DataSettings(train="a.jsonl.gz"))
    assert not lines_go_on(DataSettings(world="sentences"))
