import gzip
import json
import lzma

import pytest

from regard.core.errors import DataError
from regard.data.corpora import read_corpus
from regard.data.records import Corpus, Pair
from regard.data.settings import DataSettings
from regard.data.splits import read_splits

PACK = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}
ROWS = [("john loves mary", "john aime mary"), ("été\u2028là", "“x”\x0b"), (" a ", "b")]
PAIRS = (Pair("john loves mary", "john aime mary"), Pair("été\u2028là", "“x”"), Pair("a", "b"))


@pytest.fixture
def write(tmp_path):
    def write(name: str, content: str, packing: str = "") -> str:
        path = tmp_path / (name + packing)
        path.write_bytes(PACK[packing](content.encode()))
        return str(path)

    return write


def told(files):
    with pytest.raises(DataError) as caught:
        read_corpus(files, "pair")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("packing", PACK)
def test_parallel_files_are_read(write, packing):
    sides = ["".join(f"{row[i]}\n" for row in ROWS) for i in (0, 1)]
    files = (write("train.en", sides[0], packing), write("train.fr", sides[1], packing))
    assert read_corpus(files, "pair") == Corpus(PAIRS, 0)


@pytest.mark.parametrize("packing", PACK)
def test_tsv_is_read(write, packing):
    content = "".join(f"{source}\t{target}\n" for source, target in ROWS)
    assert read_corpus(write("train.tsv", content, packing), "pair") == Corpus(PAIRS, 0)


@pytest.mark.parametrize("packing", PACK)
def test_jsonl_is_read_whatever_else_a_line_holds(write, packing):
    lines = [json.dumps({"id": 7, "target": target, "source": source}) for source, target in ROWS]
    assert read_corpus(write("train.jsonl", "\n".join(lines), packing), "pair") == Corpus(PAIRS, 0)


def test_windows_lines_and_a_byte_order_mark_are_no_text(write):
    assert read_corpus(write("a.tsv", "\ufeffa\tb\r\nc\td\r\n"), "pair").examples == (
        Pair("a", "b"),
        Pair("c", "d"),
    )


def test_lines_with_an_empty_side_are_skipped_and_counted(write):
    only = (Pair("c", "z"),)
    assert read_corpus((write("s", "a\n\nc\n"), write("t", " \ny\nz\n")), "pair") == Corpus(only, 2)
    assert read_corpus(write("a.tsv", "a\t\n\n\ty\nc\tz\n \n\t\n"), "pair") == Corpus(only, 5)
    content = '\n{"source": "", "target": "y"}\n{"source": "c", "target": "z"}\n'
    assert read_corpus(write("a.jsonl", content), "pair") == Corpus(only, 2)


@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl"])
def test_an_empty_file_is_refused(write, name):
    path = write(name, "")
    assert told(path) == f"{path}: no pair in it; expected one per line"


def test_two_empty_files_are_refused(write):
    files = (write("s", ""), write("t", ""))
    assert told(files) == f"{files[0]} and {files[1]}: no pair in it; expected one per line"


def test_files_of_nothing_but_empty_lines_are_refused(write):
    path = write("a.tsv", "\n\nx\t\n")
    assert told(path) == f"{path}: no pair in it; expected one per line (3 empty)"


@pytest.mark.parametrize(("line", "n_tabs"), [("no tab here", 0), ("a\tb\tc", 2), ("a\tb\t", 2)])
def test_a_tsv_line_needs_exactly_one_tab(write, line, n_tabs):
    path = write("a.tsv", f"a\tb\n{line}\n")
    assert told(path).startswith(
        f"{path}:2: expected 2 columns as in the first line, but found {n_tabs + 1} in "
    )


@pytest.mark.parametrize("line", ['{"source": "a", "targ', "a\tb", "[" * 100_000])
def test_a_line_that_is_not_json_is_located(write, line):
    path = write("a.jsonl", f'{{"source": "a", "target": "b"}}\n\n{line}\n')
    assert told(path).startswith(f"{path}:3: not JSON (")


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        ('{"source": "a", "targt": "b"}', "no key 'target' (did you mean 'targt'?); expected"),
        ("{}", "no key 'source'; expected"),
        ('["a", "b"]', "expected an object with 'source' and 'target', but found '[\"a\", \"b\"]'"),
        ("null", "expected an object with 'source' and 'target', but found"),
        ('{"source": "a", "target": null}', "'target' must be a string, but is 'null'"),
        ('{"source": "\\ud800", "target": "b"}', "'source' holds half a character"),
    ],
)
def test_a_line_without_the_two_strings_is_located(write, line, finding):
    path = write("a.jsonl", f'{{"source": "a", "target": "b"}}\n{line}\n')
    assert told(path).startswith(f"{path}:2: {finding}")


@pytest.mark.parametrize("name", ["a.doc", "a", "a.pdf.gz", "a.gz"])
def test_a_single_file_of_unknown_format_is_refused(name):
    assert told(name).startswith(f"{name}: a single file must be .tsv, .txt")


def test_a_txt_file_is_a_table_too(write):
    assert read_corpus(write("fra.txt", "Go.\tVa !\n", ".gz"), "pair").examples == (
        Pair("Go.", "Va !"),
    )


def test_a_csv_file_is_read(write):
    path = write("a.csv", '"Go, now.",Va !\n')
    assert read_corpus(path, "pair").examples == (Pair("Go, now.", "Va !"),)


def test_columns_are_chosen_and_others_passed_over(write):
    path = write("a.tsv", "english\tfrench\tby whom\n\nanother\tone\n")
    assert read_corpus(path, "pair", DataSettings(train=path, columns=(2, 1))) == Corpus(
        (Pair("french", "english"), Pair("one", "another")), 1
    )
    assert told(path).endswith(
        "'english\\tfrench\\tby whom'; name the columns that count in data.columns"
    )


def test_a_line_without_the_column_is_located(write):
    path = write("a.tsv", "a\tb\tc\nd\te\n")
    with pytest.raises(DataError) as caught:
        read_corpus(path, "pair", DataSettings(train=path, columns=(3, 1)))
    assert str(caught.value) == (
        f"{path}:2: data.columns names column 3, but there are 2 in 'd\\te'"
    )


def test_files_of_unequal_length_are_refused(write):
    files = (write("a.en", "1\n2\n"), write("a.fr", "1\n"))
    assert told(files).startswith(f"files of unequal length: {files[1]} ends after line 1,")


def test_splits_are_read_from_their_files(write):
    data = DataSettings(
        train=write("a.tsv", "a\tb\n\n"), valid=write("v.tsv", "c\td"), test=write("t.tsv", "e\tf")
    )
    assert read_splits(data, "pair") == {
        "train": Corpus((Pair("a", "b"),), 1),
        "valid": Corpus((Pair("c", "d"),), 0),
        "test": Corpus((Pair("e", "f"),), 0),
    }


def test_a_twentieth_of_train_is_held_out_when_there_is_no_valid(write):
    train = write("a.tsv", "\n" + "".join(f"s{i}\tt{i}\n" for i in range(60)))
    splits = read_splits(DataSettings(train=train), "pair")
    assert {name: len(corpus.examples) for name, corpus in splits.items()} == {
        "train": 57,
        "valid": 3,
    }
    assert (splits["train"].n_empty, splits["valid"].n_empty) == (1, 0)
    assert read_splits(DataSettings(train=train, world_seed=1), "pair")["valid"] != splits["valid"]


def test_no_more_than_a_thousand_are_held_out(write):
    train = write("a.tsv", "".join(f"s{i}\tt{i}\n" for i in range(20_100)))
    assert len(read_splits(DataSettings(train=train), "pair")["valid"].examples) == 1000


@pytest.mark.parametrize("packing", PACK)
def test_files_are_found_in_their_folder_packed_or_not(write, tmp_path, packing):
    for name, text in {"a.en": "1\n2\n", "a.de": "eins\nzwei\n", "v.tsv": "3\tdrei\n"}.items():
        write(name, text, packing)
    data = DataSettings(folder=str(tmp_path), train=("a.en", "a.de"), valid="v.tsv")
    assert read_splits(data, "pair") == {
        "train": Corpus((Pair("1", "eins"), Pair("2", "zwei"))),
        "valid": Corpus((Pair("3", "drei"),)),
    }


def test_a_plain_file_comes_before_a_packed_one(write, tmp_path):
    write("a.tsv", "plain\tplain\n")
    write("a.tsv", "packed\tpacked\n", ".gz")
    splits = read_splits(DataSettings(folder=str(tmp_path), train="a.tsv", valid="a.tsv"), "pair")
    assert splits["train"].examples == (Pair("plain", "plain"),)


def refused(**settings):
    with pytest.raises(DataError) as caught:
        read_splits(DataSettings(**settings), "pair")
    return str(caught.value)


def test_a_wrong_folder_is_told_with_all_it_lacks(write, tmp_path):
    write("a.en", "1\n")
    files = {"train": ("a.en", "a.de"), "valid": "v.tsv"}
    assert refused(folder=str(tmp_path), **files) == (
        f"the folder {tmp_path} lacks a.de, v.tsv (.gz and .xz were looked for too); "
        "say where the files lie with data.folder"
    )
    nowhere = tmp_path / "nowhere"
    assert refused(folder=str(nowhere), **files).startswith(
        f"the folder {nowhere} does not exist and should hold a.en, a.de, v.tsv ("
    )


def test_a_missing_file_without_a_folder_is_answered_with_the_nearest(write, tmp_path):
    write("train.tsv", "a\tb\n")
    assert "(did you mean 'train.tsv'?)" in refused(train=str(tmp_path / "trian.tsv"))


def test_valid_and_test_are_held_out_of_train(write):
    train = write("a.tsv", "".join(f"s{i}\tt{i}\n" for i in range(60)))
    splits = read_splits(DataSettings(train=train, hold_out=7), "pair")
    sizes = {name: len(corpus.examples) for name, corpus in splits.items()}
    assert sizes == {"train": 46, "valid": 7, "test": 7}
    assert len({pair for corpus in splits.values() for pair in corpus.examples}) == 60


def test_a_split_with_a_file_is_not_held_out(write):
    train = write("a.tsv", "".join(f"s{i}\tt{i}\n" for i in range(60)))
    splits = read_splits(
        DataSettings(train=train, valid=write("v.tsv", "a\tb"), hold_out=7), "pair"
    )
    sizes = {name: len(corpus.examples) for name, corpus in splits.items()}
    assert sizes == {"train": 53, "valid": 1, "test": 7}


def test_both_directions_of_a_file_are_parted_alike(write):
    train = write("a.tsv", "".join(f"s{i % 50}\tt{i % 70}\n" for i in range(90)))
    there = read_splits(DataSettings(train=train, hold_out=12), "pair")
    back = read_splits(DataSettings(train=train, hold_out=12, columns=(2, 1)), "pair")
    for name, corpus in there.items():
        assert tuple(pair.reversed() for pair in corpus.examples) == back[name].examples
