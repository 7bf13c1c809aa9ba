"""Documents with summaries from files: our columns and keys, and those of public data sets."""

import json

import pytest

from regard.core.errors import DataError
from regard.data.corpora import read_corpus
from regard.data.records import Document
from regard.data.settings import DataSettings


@pytest.fixture
def read(tmp_path):
    def from_text(text, name="some.jsonl", **settings):
        path = tmp_path / name
        path.write_text(text if isinstance(text, str) else f"{json.dumps(text)}\n")
        return read_corpus(str(path), "summary", DataSettings(train=str(path), **settings)).examples

    return from_text


def test_keys_of_our_own_and_white_space_is_one_space(read):
    assert read({"document": " a\n\nb  c ", "summary": "a\tc", "id": 7}) == (
        Document("a b c", "a c"),
    )


def test_sentences_are_joined(read):
    """As ECTSum has it."""
    assert read({"document": ["a b.", "c."], "summary": ["a.", "c."]}) == (
        Document("a b. c.", "a. c."),
    )


def test_several_references_of_which_the_first_is_learned(read):
    row = {"document": "a b", "summary": "a", "references": ["a", "b", "a", " "]}
    assert read(row) == (Document("a b", "a", references=("a", "b")),)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            {"id": "x", "body": "dear a\nb", "subjects": ["hello", "a letter"]},
            [Document("dear a b", "hello", references=("hello", "a letter"))],
        ),
        (
            {"source": ["We do.", "It is."], "target": ["they do"]},
            [Document("We do. It is.", "they do")],
        ),
        (
            {
                "document": "a story",
                "questions": [
                    {"question_text": "who?", "responses": [{"response_text": "he"}]},
                    {
                        "question_text": "why?",
                        "responses": [{"response_text": "so"}, {"response_text": "thus"}],
                    },
                ],
            },
            [
                Document("who? a story", "he"),
                Document("why? a story", "so", references=("so", "thus")),
            ],
        ),
        (
            {
                "meeting_transcripts": [
                    {"speaker": "A", "content": "good morning"},
                    {"speaker": "B", "content": "bye"},
                ],
                "general_query_list": [{"query": "Sum up.", "answer": "They met."}],
                "specific_query_list": [{"query": "Who left?", "answer": "B did."}],
            },
            [
                Document("Sum up. A: good morning B: bye", "They met."),
                Document("Who left? A: good morning B: bye", "B did."),
            ],
        ),
        (
            {
                "title": "T",
                "sections": [{"title": "1 One", "sentences": ["a.", "b."]}],
                "human_summary": ["s.", "t."],
            },
            [Document("T 1 One a. b.", "s. t.")],
        ),
    ],
    ids=["aeslc", "scitldr", "squality", "qmsum", "scisummnet"],
)
def test_keys_of_public_data_sets(row, expected, read):
    assert read(row) == tuple(expected)


def test_a_table_with_its_columns_named_in_the_first_line(read):
    assert read("document\tsummary\na b\ta\n", "some.tsv") == (Document("a b", "a"),)
    assert read("x\ta\ty\ta b\n", "more.tsv", columns=[4, 2]) == (Document("a b", "a"),)


def test_two_files(tmp_path):
    (tmp_path / "long.txt").write_text("a b\n\nc d\n")
    (tmp_path / "short.txt").write_text("a\n\nd\n")
    files = (str(tmp_path / "long.txt"), str(tmp_path / "short.txt"))
    corpus = read_corpus(files, "summary")
    assert corpus.examples == (Document("a b", "a"), Document("c d", "d"))
    assert corpus.n_empty == 1


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"document": "a"}, "some.jsonl:1: no key 'summary'"),
        ({"document": "a", "summary": 3}, "some.jsonl:1: 'summary' must be a string, but is '3'"),
        ({"body": "a", "subjects": [1]}, "some.jsonl:1: 'subjects' must be a string"),
        ({"document": "a", "questions": "why"}, "'questions' must be a list of objects"),
        ({"document": "a", "questions": [{}]}, "no key 'question_text'"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(row, told, read):
    with pytest.raises(DataError, match=told):
        read(row)
