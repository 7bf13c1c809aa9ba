"""Many files by one name: patterns of every format, pairs of patterns, and Parquet."""

import gzip
import json
import sys

import pytest

from regard.core.errors import DataError
from regard.data.corpora import read_corpus
from regard.data.file_patterns import expanded
from regard.data.language import lines_go_on, read_texts, text_splits
from regard.data.records import Pair
from regard.data.settings import DataSettings
from regard.data.splits import load_records

PAIRS = [Pair(f"s{i}", f"t{i}") for i in range(6)]


def tsv(pairs):
    return "".join(f"{one.source}\t{one.target}\n" for one in pairs)


def jsonl(pairs):
    return "".join(json.dumps({"source": x.source, "target": x.target}) + "\n" for x in pairs)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("{}.tsv", lambda path, pairs: path.write_text(tsv(pairs))),
        ("{}.txt", lambda path, pairs: path.write_text(tsv(pairs))),
        ("{}.jsonl", lambda path, pairs: path.write_text(jsonl(pairs))),
        ("{}.jsonl.gz", lambda path, pairs: path.write_bytes(gzip.compress(jsonl(pairs).encode()))),
    ],
)
def test_a_pattern_is_all_its_files_in_the_order_of_their_names(here, name, write):
    for part, pairs in {"b": PAIRS[2:4], "c": PAIRS[4:], "a": PAIRS[:2]}.items():
        write(here / name.format(part), pairs)
    assert read_corpus(name.format("*"), "pair").examples == tuple(PAIRS)
    found = load_records(
        DataSettings(folder=str(here), train=name.format("[ab]"), valid=name.format("c*")), "pair"
    )
    assert found.splits["train"] == tuple(PAIRS[:4])


def test_two_patterns_are_pairs_of_files(here):
    for part in (0, 3):
        for side in ("source", "target"):
            lines = [getattr(one, side) for one in PAIRS[part : part + 3]]
            (here / f"{part}.{side}").write_text("\n".join(lines) + "\n")
    assert read_corpus(("*.source", "*.target"), "pair").examples == tuple(PAIRS)
    (here / "1.source").write_text("x\n")
    told = r"^\*\.source matches 3 files and \*\.target 2: .*; 1\.source is the first"
    with pytest.raises(DataError, match=told):
        read_corpus(("*.source", "*.target"), "pair")


def test_every_file_may_have_its_header_and_bad_lines_are_told_by_file(here):
    for name in "ab":
        (here / f"{name}.tsv").write_text(f"text\tlabel\n{name} 1\tx\n{name} 2\ty\n\n")
    corpus = read_corpus("*.tsv", "label")
    assert [one.text for one in corpus.examples] == ["a 1", "a 2", "b 1", "b 2"]
    assert (corpus.n_headers, corpus.n_empty) == (2, 2)
    (here / "c.tsv").write_text("only one column\n")
    with pytest.raises(DataError, match=r"^c\.tsv:1: expected"):
        read_corpus("*.tsv", "label")


def test_plain_texts_of_many_files_are_one_text(here):
    (here / "1.txt").write_text("a\n\nb\n")
    (here / "2.txt").write_text("c\n")
    assert read_texts("*.txt") == ("a", "", "b", "c")
    settings = DataSettings(train="*.txt", hold_out=1)
    assert lines_go_on(settings)
    assert text_splits(settings) == {"train": ("a", "", "b"), "valid": ("c",)}
    (here / "3.txt").write_text("")
    with pytest.raises(DataError, match=r"^3\.txt: empty"):
        read_texts("*.txt")


def test_a_pattern_that_matches_nothing_is_told(here):
    with pytest.raises(DataError, match=rf"^no file matches the pattern {here}/\*\.tsv; correct"):
        read_corpus("*.tsv", "pair")


def test_a_file_of_that_very_name_is_no_pattern(here):
    for name in ("a[1].tsv", "a1.tsv"):
        (here / name).write_text(tsv(PAIRS[:1]))
    assert expanded("a[1].tsv") == ["a[1].tsv"]
    assert expanded("a?.tsv") == ["a1.tsv"]
    assert expanded("none.tsv") == ["none.tsv"]


def test_folders_inside_folders_are_found(here):
    for name in ("x/1.tsv", "x/y/2.tsv"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text(tsv(PAIRS[:1]))
    assert expanded("x/**/*.tsv") == ["x/1.tsv", "x/y/2.tsv"]


# ------------------------------------------------------------------ Parquet


def write_parquet(path, **columns):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), path, row_group_size=2)


def test_columns_of_parquet_are_keys_of_jsonl(here):
    sides = {side: [getattr(one, side) for one in PAIRS] for side in ("source", "target")}
    write_parquet(here / "a.parquet", **sides, more=range(6))
    assert read_corpus("a.parquet", "pair").examples == tuple(PAIRS)
    write_parquet(here / "b.parquet", text=["one", "two"])
    assert read_texts("b.parquet") == ("one", "two")
    assert not lines_go_on(DataSettings(train="b.parquet"))
    write_parquet(here / "c.parquet", text=["one", "two"], label=[0, 1])
    assert [one.label for one in read_corpus("c.parquet", "label").examples] == ["0", "1"]


def test_a_column_that_parquet_lacks_is_told_with_those_it_has(here):
    write_parquet(here / "a.parquet", src=["a"], target=["b"])
    told = r"^a\.parquet: row 1: no key 'source'.* expected .* but found 'src', 'target'$"
    with pytest.raises(DataError, match=told):
        read_corpus("a.parquet", "pair")
    write_parquet(here / "b.parquet", source=[b"\xff"], target=["b"])
    with pytest.raises(DataError, match=r"^b\.parquet: row 1: 'source' must be a string, but is"):
        read_corpus("b.parquet", "pair")


def test_what_is_no_parquet_is_told(here):
    pytest.importorskip("pyarrow")
    (here / "a.parquet").write_text("no")
    with pytest.raises(DataError, match=r"^a\.parquet: cannot be read as Parquet \(.*fetch it"):
        read_corpus("a.parquet", "pair")
    with pytest.raises(DataError, match=r"^no file b\.parquet in "):
        read_corpus("b.parquet", "pair")


def test_without_pyarrow_the_extra_is_named(here, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (here / "a.parquet").write_text("")
    with pytest.raises(DataError, match=r"pyarrow, .* not installed; .*regard\[parquet\]"):
        read_corpus("a.parquet", "pair")
