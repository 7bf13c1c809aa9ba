"""Questions from files: what is read, and what is refused with its place."""

import gzip
import json

import pytest

from regard.core.errors import ConfigError, DataError
from regard.core.settings import parse
from regard.data.corpora import read_corpus
from regard.data.settings import DataSettings
from regard.data.splits import read_splits


@pytest.fixture
def write(tmp_path):
    def to(name, text):
        path = tmp_path / name
        data = (text if isinstance(text, str) else json.dumps(text)).encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return str(path)

    return to


def settings(**given):
    return parse(DataSettings, {"train": "t.tsv", **given}, "data")


def told(path, **given):
    with pytest.raises((DataError, ConfigError)) as caught:
        read_corpus(path, "question", settings(**given))
    return str(caught.value)


def squad(*qas, context="Ann met Bob."):
    return {
        "version": "x",
        "data": [{"title": "t", "paragraphs": [{"context": context, "qas": [*qas]}]}],
    }


def plain(corpus):
    return [(one.text, one.context, one.answers, one.start) for one in corpus.examples]


def test_a_table_is_question_text_and_answer(write):
    found = read_corpus(write("a.tsv", "who ran? \tthe cat ran.\t the cat\n"), "question")
    assert plain(found) == [("who ran?", "the cat ran.", ("the cat",), 0)]
    assert found.examples[0].where.endswith("a.tsv:1")
    assert found.examples[0].label == "the cat"


def test_columns_are_chosen_and_headers_passed_over(write):
    path = write("a.txt", "id\tAnswer\tquestion\tcontext\n7\tb\twhat?\ta b\n")
    found = read_corpus(path, "question", settings(columns=[3, 4, 2]))
    assert plain(found) == [("what?", "a b", ("b",), 2)]
    assert found.notes("train") == ["train: 1 header line passed over"]


def test_lines_that_are_empty_in_some_part_are_counted(write):
    found = read_corpus(write("a.tsv", "q?\ta b\tb\n\nq?\t \tb\nq?\ta\t\n"), "question")
    assert len(found.examples) == 1
    assert found.n_empty == 3
    assert "no question in it; expected one per line (1 empty" in told(write("b.tsv", " \ta\tb\n"))


def test_an_answer_is_found_as_whole_words_first(write):
    found = read_corpus(
        write("a.tsv", "q?\tthe cattle saw a cat, a cat.\tcat\nq?\tcattle\tcat\n"), "question"
    )
    assert [one.start for one in found.examples] == [17, 0]


def test_json_lines_may_have_several_answers_and_say_where_the_first_begins(write):
    lines = [
        {"context": " Ann or Ann", "answer": ["Ann", "Ann ", "or Ann"], "answer_start": [8, 1, 5]},
        {"context": "Ann", "answer": "Ann", "more": 1},
        {"context": "x  Ann", "answer": " Ann", "answer_start": 2},
    ]
    text = "\n".join(json.dumps({"question": "who?", **line}) for line in lines)
    found = read_corpus(write("a.jsonl", text), "question")
    assert plain(found) == [
        ("who?", " Ann or Ann", ("Ann", "or Ann"), 8),
        ("who?", "Ann", ("Ann",), 0),
        ("who?", "x  Ann", ("Ann",), 3),
    ]


def test_squads_form_is_read_packed_or_not_and_unanswered_questions_are_passed_over(write):
    qas = [
        {"id": "q1", "question": "Whom?", "answers": [{"text": "Bob", "answer_start": 8}]},
        {"id": "q2", "question": "Why?", "answers": [], "is_impossible": True},
        {"question": "Who?", "answers": [{"text": "Ann"}, {"text": "Ann met", "answer_start": 0}]},
    ]
    for name in ("a.json", "a.json.gz"):
        found = read_corpus(write(name, squad(*qas)), "question")
        assert plain(found) == [
            ("Whom?", "Ann met Bob.", ("Bob",), 8),
            ("Who?", "Ann met Bob.", ("Ann", "Ann met"), 0),
        ]
        assert found.examples[0].where.endswith(f"{name}: question q1")
        assert found.notes("x") == ["x: 1 questions passed over, having no answer"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "q?\ta b\tb\nq?\ta b\tc", "a.tsv:2: the answer 'c' is not in its text 'a b'"),
        ("a.tsv", "q?\ta b\n", "a.tsv:1: expected question TAB context TAB answer"),
        ("a.tsv", "q?\ta b\tb\tmore\n", "name the columns that count in data.columns"),
        ("a.jsonl", '{"question": "q?"}', "'context' and 'answer', but found 'question'"),
        ("a.jsonl", "[1]", "but found '[1]'"),
        ("a.jsonl", "no", "a.jsonl:1: not JSON"),
        ("a.jsonl", '{"question": 1, "context": "a", "answer": "a"}', "'question' must be a str"),
        (
            "a.jsonl",
            '{"question": "q", "context": "a b", "answer": "b", "answer_start": 0}',
            "a.jsonl:1: the answer is 'b', but answer_start=0 says 'a' in the text 'a b'",
        ),
        (
            "a.jsonl",
            '{"question": "q", "context": "a b", "answer": "a", "answer_start": -3}',
            "answer_start=-3 says",
        ),
        (
            "a.jsonl",
            '{"question": "q", "context": "a", "answer": "a", "answer_start": "0"}',
            "'answer_start' must be a whole number",
        ),
        ("a.json", "{", "a.json: not JSON"),
        ("a.json", {"data": 3}, "expected SQuAD's form"),
        ("a.json", {"rows": []}, "expected an object with 'data', but found 'rows'"),
        (
            "a.json",
            squad({"id": "q7", "question": "Who?", "answers": [{"text": "Eve"}]}),
            "a.json: question q7: the answer 'Eve' is not in its text 'Ann met Bob.'",
        ),
        (
            "a.json",
            squad({"question": "Who?", "answers": [{"text": "Ann", "answer_start": 4}]}),
            "question number 1: the answer is 'Ann', but answer_start=4 says 'met'",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(write, name, text, message):
    assert message in told(write(name, text))


def test_two_files_and_patterns_are_no_questions(write):
    assert "expected one file of questions" in told(("a.tsv", "b.tsv"))
    assert "of questions, name data.columns" in told("a.tsv", pattern="(?P<text>.*)")


@pytest.mark.parametrize("hold_out", [None, 8])
def test_questions_about_one_text_are_held_out_together(write, tmp_path, hold_out):
    lines = [f"q{i}?\ttext {i // 4} end\tend\n" for i in range(80)]
    write("t.tsv", "".join(lines))
    splits = read_splits(settings(folder=str(tmp_path), hold_out=hold_out), "question")
    sizes = {"train": 76, "valid": 4} if hold_out is None else {"train": 64, "valid": 8, "test": 8}
    assert {name: len(one.examples) for name, one in splits.items()} == sizes
    contexts = [one.context for split in splits.values() for one in split.examples]
    apart = [{one.context for one in split.examples} for split in splits.values()]
    assert sum(map(len, apart)) == len({*contexts}) == 20


@pytest.mark.parametrize("name", ["q.JSONL", "q.Jsonl.gz"])
def test_the_case_of_a_file_name_is_nothing(write, name):
    line = json.dumps({"question": "who?", "context": "Ann ran.", "answer": "Ann"})
    assert plain(read_corpus(write(name, f"{line}\n"), "question")) == [
        ("who?", "Ann ran.", ("Ann",), 0)
    ]
