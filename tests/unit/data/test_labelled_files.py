"""Texts with labels and scores from files."""

import gzip
import json

import pytest

from regard.core.errors import ConfigError, DataError
from regard.core.settings import parse
from regard.data.corpora import read_corpus
from regard.data.records import Corpus, Labelled, numbered
from regard.data.settings import DataSettings
from regard.data.splits import read_splits


@pytest.fixture
def write(tmp_path):
    def to(name, text):
        path = tmp_path / name
        data = text.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return str(path)

    return to


def settings(**given):
    return parse(DataSettings, {"train": "t.tsv", **given}, "data")


def told(files, wanted="label", **given):
    with pytest.raises((DataError, ConfigError)) as caught:
        read_corpus(files, wanted, settings(**given))
    return str(caught.value)


def test_a_table_is_text_and_label_or_two_texts_and_a_label(write):
    one = read_corpus(write("a.tsv", "good \tyes\nbad\tno\n"), "label")
    assert one == Corpus((Labelled("good", label="yes"), Labelled("bad", label="no")))
    two = read_corpus(write("b.tsv", "a b\tc d\tsame\n"), "label")
    assert two.examples == (Labelled("a b", "c d", "same"),)
    assert two.examples[0].where.endswith("b.tsv:1")


def test_columns_are_chosen_in_the_order_they_are_named(write):
    path = write("a.csv", "0\tstars\tbad film\n1\tstars\tgood film\n")
    assert read_corpus(path, "label", settings(columns=[3, 1])).examples == (
        Labelled("bad film", label="0"),
        Labelled("good film", label="1"),
    )
    assert f"{path}:1: data.columns names column 4, but there are 3" in told(path, columns=[4, 1])


@pytest.mark.parametrize("header", ["label\tsentence", "Label\tcontent", "class\ttext"])
def test_a_line_that_names_the_columns_is_passed_over_and_counted(write, header):
    found = read_corpus(write("a.tsv", f"{header}\n1\tfine\n"), "label", settings(columns=[2, 1]))
    assert found == Corpus((Labelled("fine", label="1"),), n_headers=1)
    assert found.notes("train") == ["train: 1 header line passed over"]


def test_only_the_first_line_can_name_the_columns(write):
    found = read_corpus(write("a.tsv", "x\t1\ny\tlabel\n"), "label")
    assert [one.label for one in found.examples] == ["1", "label"]


def test_a_csv_file_is_a_table_too(write):
    text = (
        'text,label\n"good, and ""cheap""",yes\n\nplain  one,no\n"two\nlines\there",no\nlast,no\n'
    )
    found = read_corpus(write("a.csv.gz", text), "label")
    assert found == Corpus(
        (
            Labelled('good, and "cheap"', label="yes"),
            Labelled("plain  one", label="no"),
            Labelled("two lines here", label="no"),
            Labelled("last", label="no"),
        ),
        n_empty=1,
        n_headers=1,
    )
    assert [one.where.rpartition(":")[2] for one in found.examples] == ["2", "4", "5", "7"]
    columns = settings(columns=[2, 3, 1])
    pairs = read_corpus(write("b.csv", "yes,a,b,x\nno,c,d,y\n"), "label", columns)
    assert pairs.examples == (Labelled("a", "b", "yes"), Labelled("c", "d", "no"))


def test_a_pattern_may_take_several_columns_together(write):
    pattern = r"(?P<label>\d)\t(?P<text>.+)"
    table = write("a.tsv", "1\tall in one\n")
    records = write("a.csv", '"1","a title","a text, longer"\n')
    found = [read_corpus(path, "label", settings(pattern=pattern)) for path in (table, records)]
    assert [one.examples[0].text for one in found] == ["all in one", "a title\ta text, longer"]


@pytest.mark.parametrize("line", ['"a"b,c', '"a,b', "c,d,e"])
def test_a_record_that_is_no_csv_or_has_other_columns_is_told_with_its_line(write, line):
    path = write("a.csv", f'"x\ny",no\n{line}\n')
    message = told(path)
    assert message.startswith(f"{path}:3: ")
    assert "not CSV" in message or "expected 2 columns as in the first line" in message


def test_an_empty_csv_file_is_told(write):
    path = write("a.csv", "")
    assert told(path).startswith(f"{path}: no example in it")


def test_a_pattern_reads_lines_without_columns(write):
    path = write("trec.txt", "LOC:city What county is it ?\n\nHUM:desc Who was she ?\n")
    pattern = r"(?P<label>[A-Z]+):\S+ (?P<text>.+)"
    found = read_corpus(path, "label", settings(pattern=pattern))
    assert found == Corpus(
        (Labelled("What county is it ?", label="LOC"), Labelled("Who was she ?", label="HUM")),
        n_empty=1,
    )
    bad = write("bad.txt", "LOC:city What ?\n? LOC:city Who\n")
    assert f"{bad}:2: data.pattern does not match '? LOC:city Who'" in told(bad, pattern=pattern)
    only_text = told(path, pattern="(?P<text>.*)")
    assert "expected the groups text, label or text, other, label, but found text" in only_text


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "no regular expression"),
        ("(?P<label>.)", "text at least, but found label"),
        ("(?P<text>.)(?P<lable>.)", "but found text, lable"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused_at_once(pattern, message):
    with pytest.raises(ConfigError, match="data.pattern: ") as caught:
        settings(pattern=pattern)
    assert message in str(caught.value)


def test_a_pattern_and_columns_together_are_refused():
    with pytest.raises(ConfigError, match="data.columns is given too"):
        settings(pattern="(?P<text>.*)", columns=[1, 2])


def test_json_lines_have_keys(write):
    lines = [{"text": "a", "label": 3}, {"text": "b", "label": "x", "more": [1]}]
    path = write("a.jsonl", "\n".join(map(json.dumps, lines)) + "\n\n")
    assert read_corpus(path, "label") == Corpus(
        (Labelled("a", label="3"), Labelled("b", label="x")), n_empty=1
    )
    path = write("b.jsonl", '{"text": "a", "other": "b", "score": 2.5}\n')
    assert read_corpus(path, "score").examples == (Labelled("a", "b", score=2.5),)


@pytest.mark.parametrize(
    ("line", "wanted", "message"),
    [
        ('{"text": "a"}', "label", "expected an object with 'text' and 'label', but found 'text'"),
        ("[1]", "label", "expected an object with 'text' and 'label', but found"),
        ("{", "label", "not JSON"),
        ('{"text": 5, "label": "a"}', "label", "'text' must be a string, but is '5'"),
        ('{"text": "a", "label": true}', "label", "'label' must be a string, but is 'true'"),
        ('{"text": "\\ud800", "label": "a"}', "label", "half a character"),
        ('{"text": "a", "other": "b", "score": "5"}', "score", "expected a number as the score"),
    ],
)
def test_a_wrong_line_of_json_is_told_with_its_number(write, line, wanted, message):
    path = write("a.jsonl", f"\n{line}\n")
    found = told(path, wanted)
    assert found.startswith(f"{path}:2: ")
    assert message in found


def test_two_parallel_files_are_texts_and_labels_or_texts_and_others(write):
    both = (write("a.txt", "one\ntwo\n"), write("b.txt", "x\ny\n"))
    labels = [one.label for one in read_corpus(both, "label").examples]
    assert labels == ["x", "y"]
    assert read_corpus(both, "score").examples[1] == Labelled("two", "y")
    assert "expected one file of texts, but found two" in told(both, "text")


def test_scores_are_numbers_and_a_wrong_one_is_told_with_its_line(write):
    path = write("s.tsv", "a\tb\t4.5\nc\td\t0\n")
    assert [one.score for one in read_corpus(path, "score").examples] == [4.5, 0.0]
    for wrong in ("very", "nan", "inf"):
        bad = write("w.tsv", f"a\tb\t1\nc\td\t{wrong}\n")
        assert told(bad, "score") == (
            f"{bad}:2: expected a number as the score, but found {wrong!r}"
        )


def test_pairs_may_lack_scores_but_all_of_them_or_none(write):
    assert read_corpus(write("p.tsv", "a\tb\n"), "score").examples == (Labelled("a", "b"),)
    mixed = write("m.jsonl", '{"text":"a","other":"b","score":1}\n{"text":"a","other":"b"}\n')
    assert f"{mixed}:2: no 'score', but {mixed}:1 has one" in told(mixed, "score")


def test_a_line_of_another_kind_is_told(write):
    path = write("a.tsv", "a\tx\nb\n")
    assert f"{path}:2: expected 2 columns as in the first line, but found 1 in 'b'" in told(path)
    path = write("b.tsv", "no tab\n")
    message = told(path)
    assert message.startswith(f"{path}:1: expected text TAB label or text TAB other TAB label, but")
    assert "found 1 column in 'no tab'" in message
    path = write("c.tsv", "a\tb\tc\td\n")
    assert "name the columns that count in data.columns" in told(path)


def test_plain_texts_are_whole_lines(write):
    path = write("a.txt", "one\ttwo\n\n three \n")
    assert read_corpus(path, "text") == Corpus((Labelled("one\ttwo"), Labelled("three")), n_empty=1)


def test_nothing_to_read_is_refused(write):
    path = write("a.tsv", "\n\n")
    assert told(path) == f"{path}: no example in it; expected one per line (2 empty)"


def test_examples_without_a_text_or_a_label_are_skipped_and_counted(write):
    found = read_corpus(write("a.tsv", "a\tx\n\ty\nb\t \n"), "label")
    assert (len(found.examples), found.n_empty) == (1, 2)


def test_valid_is_held_out_and_shares_no_text_with_train(write):
    lines = "".join(f"text {i % 60}\t{i % 2}\n" for i in range(120))
    splits = read_splits(settings(train=write("t.tsv", lines)), "label")
    assert list(splits) == ["train", "valid"]
    train, valid = ({one.text for one in splits[name].examples} for name in splits)
    assert not train & valid
    assert 4 <= len(splits["valid"].examples) <= 8


def test_valid_and_test_are_held_out_where_that_is_asked_for(write):
    lines = "".join(f"a {i}\tb {i // 2}\t{i % 5}\n" for i in range(200))
    asked = settings(train=write("t.tsv", lines), hold_out=20)
    splits = read_splits(asked, "score")
    assert list(splits) == ["train", "valid", "test"]
    others = [{one.other for one in splits[name].examples} for name in splits]
    assert not others[0] & others[1] | others[0] & others[2] | others[1] & others[2]
    assert sum(len(one.examples) for one in splits.values()) == 200


def test_labels_get_numbers_and_an_unknown_one_is_told_with_its_place():
    known = {"no": 0, "yes": 1}
    assert numbered([Labelled("a", label="yes"), Labelled("b", label="no")], known) == [1, 0]
    with pytest.raises(DataError) as caught:
        numbered([Labelled("a", label="maybe", where="dev.tsv:7")], known)
    assert str(caught.value).startswith(
        "dev.tsv:7: label 'maybe' was not seen in training, which knows no, yes"
    )


def texts_of(corpus):
    return {text for one in corpus.examples for text in (one.text, one.other)}


def test_of_pairs_neither_text_is_in_both_parts(write):
    """Each pair stands there twice, the second time the other way round."""
    pairs = [(f"a {i}", f"b {i}") for i in range(200)]
    lines = "".join(f"{a}\t{b}\n{b}\t{a}\n" for a, b in pairs)
    splits = read_splits(settings(train=write("t.tsv", lines)), "score")
    assert len(splits["valid"].examples) == 20
    assert not texts_of(splits["train"]) & texts_of(splits["valid"])


@pytest.mark.parametrize(
    ("train", "valid", "wanted", "lacking"),
    [
        ("a\tb\tx\n", "a\tx\n", "label", "other"),
        ("a\tx\n", "a\tb\tx\n", "label", "other"),
        ("a\tb\t1\n", "a\tb\n", "score", "score"),
    ],
)
def test_splits_of_different_kinds_are_refused(write, train, valid, wanted, lacking):
    files = {"train": write("t.tsv", train), "valid": write("v.tsv", valid)}
    with pytest.raises(DataError) as caught:
        read_splits(settings(**files), wanted)
    lacks, has = files.values() if len(train) < len(valid) else reversed(files.values())
    assert str(caught.value) == (
        f"{lacks}:1: no {lacking!r}, but {has}:1 has one; give it in all lines or in none"
    )


@pytest.mark.parametrize("name", ["A.JSONL", "a.Jsonl.GZ"])
def test_the_ending_of_a_name_may_have_capitals(write, name, tmp_path):
    text = b'{"text": "a", "label": "x"}\n'
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith("GZ") else text)
    assert read_corpus(str(path), "label").examples == (Labelled("a", label="x"),)


@pytest.mark.parametrize(("name", "line"), [("a.tsv", "one\t1"), ("a.csv", "one,1")])
def test_a_table_with_several_columns_is_no_list_of_texts(write, name, line):
    path = write(name, f"{line}\n")
    message = told(path, "text")
    assert message.startswith(f"{path}:1: expected text, but found 2 columns in")
    assert message.endswith("; lines of another kind can be described by data.pattern")
    assert "data.columns" not in message  # which are two at least
    plain = read_corpus(write(name, "one 1\n\ntwo\n"), "text")
    assert plain == Corpus((Labelled("one 1"), Labelled("two")), n_empty=1)


HEADED = "sentence\tsentiment\n" + "good\t1\nbad\t0\n" * 2


def test_a_label_of_the_first_line_alone_is_told(write):
    found = read_corpus(write("a.tsv", HEADED), "label")
    assert len(found.examples) == 5
    assert found.notes("train") == [
        "train: 'sentiment' is the label of the first line alone; if that line names the columns, "
        "take it out"
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("twice.tsv", HEADED + "x\tsentiment\n"),
        ("later.tsv", "good\t1\n" + HEADED),
        ("rare.tsv", HEADED + "x\t2\n"),
        ("parted.jsonl", '{"text": "a", "label": "x"}\n' + '{"text": "b", "label": "y"}\n' * 2),
    ],
)
def test_other_rare_labels_are_not_told(write, name, text):
    assert read_corpus(write(name, text), "label").notes("train") == []


def test_a_field_of_csv_may_be_long(write):
    text = "a, " * 50_000
    found = read_corpus(write("a.csv", f'"{text}",good\n'), "label")
    assert [(one.text, one.label) for one in found.examples] == [(text.strip(), "good")]
