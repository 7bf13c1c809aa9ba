import gzip
import json
import lzma

import pytest

from regard.core.errors import DataError
from regard.data.corpora import Corpus, hold_out, read_pairs, read_splits
from regard.data.pairs import Pair
from regard.data.settings import DataSettings

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
        read_pairs(files)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("packing", PACK)
def test_parallel_files_are_read(write, packing):
    sides = ["".join(f"{row[i]}\n" for row in ROWS) for i in (0, 1)]
    files = (write("train.en", sides[0], packing), write("train.fr", sides[1], packing))
    assert read_pairs(files) == Corpus(PAIRS, 0)


@pytest.mark.parametrize("packing", PACK)
def test_tsv_is_read(write, packing):
    content = "".join(f"{source}\t{target}\n" for source, target in ROWS)
    assert read_pairs(write("train.tsv", content, packing)) == Corpus(PAIRS, 0)


@pytest.mark.parametrize("packing", PACK)
def test_jsonl_is_read_whatever_else_a_line_holds(write, packing):
    lines = [json.dumps({"id": 7, "target": target, "source": source}) for source, target in ROWS]
    assert read_pairs(write("train.jsonl", "\n".join(lines), packing)) == Corpus(PAIRS, 0)


def test_windows_lines_and_a_byte_order_mark_are_no_text(write):
    assert read_pairs(write("a.tsv", "\ufeffa\tb\r\nc\td\r\n")).pairs == (
        Pair("a", "b"),
        Pair("c", "d"),
    )


def test_lines_with_an_empty_side_are_skipped_and_counted(write):
    only = (Pair("c", "z"),)
    assert read_pairs((write("s", "a\n\nc\n"), write("t", " \ny\nz\n"))) == Corpus(only, 2)
    assert read_pairs(write("a.tsv", "a\t\n\n\ty\nc\tz\n \n\t\n")) == Corpus(only, 5)
    content = '\n{"source": "", "target": "y"}\n{"source": "c", "target": "z"}\n'
    assert read_pairs(write("a.jsonl", content)) == Corpus(only, 2)


@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl"])
def test_an_empty_file_is_refused(write, name):
    path = write(name, "")
    assert told(path) == f"{path}: empty; expected one sentence pair a line"


def test_two_empty_files_are_refused(write):
    files = (write("s", ""), write("t", ""))
    assert told(files) == f"{files[0]} and {files[1]}: empty; expected one sentence pair a line"


def test_files_of_nothing_but_empty_lines_are_refused(write):
    path = write("a.tsv", "\n\nx\t\n")
    assert told(path) == f"{path}: no line has text on both sides (3 empty)"


@pytest.mark.parametrize(("line", "n_tabs"), [("no tab here", 0), ("a\tb\tc", 2), ("a\tb\t", 2)])
def test_a_tsv_line_needs_exactly_one_tab(write, line, n_tabs):
    path = write("a.tsv", f"a\tb\n{line}\n")
    assert told(path).startswith(
        f"{path}:2: expected source, one tab, target, but found {n_tabs} tabs in "
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
        ('["a", "b"]', 'expected {"source": "…", "target": "…"}, but found \'["a", "b"]\''),
        ('{"source": "a", "target": null}', "'target' must be a string, but is 'null'"),
        ('{"source": "\\ud800", "target": "b"}', "'source' holds half a character"),
    ],
)
def test_a_line_without_the_two_strings_is_located(write, line, finding):
    path = write("a.jsonl", f'{{"source": "a", "target": "b"}}\n{line}\n')
    assert told(path).startswith(f"{path}:2: {finding}")


@pytest.mark.parametrize("name", ["a.txt", "a", "a.csv.gz", "a.gz"])
def test_a_single_file_of_unknown_format_is_refused(name):
    assert told(name).startswith(f"{name}: a single file must be .tsv or .jsonl")


def test_files_of_unequal_length_are_refused(write):
    files = (write("a.en", "1\n2\n"), write("a.fr", "1\n"))
    assert told(files).startswith(f"files of unequal length: {files[1]} ends after line 1,")


def numbered(n):
    return tuple(Pair(f"source {i}", f"target {i}") for i in range(n))


def test_holding_out_parts_the_pairs_and_keeps_their_order():
    pairs = numbered(50)
    kept, held = hold_out(pairs, 7, seed=0)
    assert len(held) == 7
    assert sorted((*kept, *held), key=pairs.index) == list(pairs)
    assert list(kept) == sorted(kept, key=pairs.index)
    assert list(held) == sorted(held, key=pairs.index)


def test_holding_out_depends_on_seed_and_sources_only():
    pairs = numbered(50)
    held = hold_out(pairs, 7, seed=0)[1]
    assert set(hold_out(pairs[::-1], 7, seed=0)[1]) == set(held)
    assert set(hold_out(pairs, 7, seed=1)[1]) != set(held)


def test_no_source_is_on_both_sides():
    pairs = tuple(Pair(f"source {i % 10}", f"target {i}") for i in range(50))
    for n in (1, 8, 20, 49, 50):
        kept, held = hold_out(pairs, n, seed=3)
        assert kept
        assert held
        assert len(held) <= max(n, 5)
        assert not {pair.source for pair in kept} & {pair.source for pair in held}


def test_one_source_cannot_be_parted():
    with pytest.raises(
        DataError, match=r"only 1 source sentence; give more, or name .*data\.valid"
    ):
        hold_out((Pair("a", "b"), Pair("a", "c")), 1, seed=0)


def test_splits_are_read_from_their_files(write):
    data = DataSettings(
        train=write("a.tsv", "a\tb\n\n"), valid=write("v.tsv", "c\td"), test=write("t.tsv", "e\tf")
    )
    assert read_splits(data) == {
        "train": Corpus((Pair("a", "b"),), 1),
        "valid": Corpus((Pair("c", "d"),), 0),
        "test": Corpus((Pair("e", "f"),), 0),
    }


def test_a_twentieth_of_train_is_held_out_when_there_is_no_valid(write):
    train = write("a.tsv", "\n" + "".join(f"s{i}\tt{i}\n" for i in range(60)))
    splits = read_splits(DataSettings(train=train))
    assert {name: len(corpus.pairs) for name, corpus in splits.items()} == {"train": 57, "valid": 3}
    assert (splits["train"].n_empty, splits["valid"].n_empty) == (1, 0)
    assert read_splits(DataSettings(train=train, world_seed=1))["valid"] != splits["valid"]


def test_no_more_than_a_thousand_are_held_out(write):
    train = write("a.tsv", "".join(f"s{i}\tt{i}\n" for i in range(20_100)))
    assert len(read_splits(DataSettings(train=train))["valid"].pairs) == 1000
