"""``regard summarize``, and the same over HTTP."""

import json

import pytest
import summaries
from starlette.testclient import TestClient

import regard
from regard.server.app import make_app

LONG = "a b c d e f g h " * 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return summaries.short_run(tmp_path_factory.mktemp("letters"))


@pytest.fixture(scope="module")
def summarizer(folder):
    return regard.load(folder, device="cpu")


@pytest.fixture
def client(summarizer):
    with TestClient(make_app(summarizer), base_url="http://127.0.0.1:8000") as one:
        yield one


def test_a_document_a_line(run, folder, summarizer):
    code, out, err = run("summarize", folder, stdin="a b c\n\nd e f\n")
    first, last = summarizer.summarize(["a b c", "d e f"])
    assert (code, out, err) == (0, f"{first}\n\n{last}\n", "")


def test_files_are_documents_however_many_lines_they_have(run, folder, summarizer, tmp_path):
    names = [tmp_path / "one.txt", tmp_path / "other.txt"]
    names[0].write_text("a b\n\nc d\n")
    names[1].write_text("e f")
    code, out, _ = run("summarize", folder, *names)
    assert (code, out.split("\n")[:-1]) == (0, summarizer.summarize(["a b c d", "e f"]))


def test_an_empty_file_is_told(run, folder, tmp_path):
    (tmp_path / "empty.txt").write_text("\n")
    told = f"regard: {tmp_path / 'empty.txt'} is empty, and so is its summary\n"
    assert run("summarize", folder, tmp_path / "empty.txt") == (0, "\n", told)


def test_json_and_n_best(run, folder):
    _, out, _ = run("summarize", folder, "--json", "--n-best", 2, stdin="a b c\n")
    found = json.loads(out)
    assert found["document"] == "a b c"
    assert [found["summary"], found["score"]] == [*found["hypotheses"][0].values()][:2]
    assert len(found["hypotheses"]) == 2


def test_what_is_too_long_is_refused_after_all_before_it_or_cut(run, folder, summarizer):
    code, out, err = run("summarize", folder, stdin=f"a b\n{LONG}\n")
    assert (code, out) == (2, summarizer.summarize("a b") + "\n")
    assert err.startswith("regard: standard input, line 2: 33 tokens with the end token, but ")
    code, out, err = run("summarize", folder, "--truncate", stdin=f"a b\n{LONG}\n")
    assert (code, out.count("\n")) == (0, 2)
    assert err == "regard: 1 document cut to 24 tokens\n"


def test_documents_that_are_too_long_to_be_evaluated_are_told_with_both_lengths(
    run, folder, tmp_path
):
    path = tmp_path / "some.jsonl"
    path.write_text(summaries.lines([("a b c", "a c"), (LONG, "a b")]))
    code, out, err = run("evaluate", folder, path, "--json")
    assert (code, json.loads(out)["too_long"]) == (0, 1)
    assert (
        "1 document too long, summaries left empty; the longest has 33 tokens with the end" in err
    )
    assert "the model reads 24 (model.max_len)" in err
    assert "Traceback" not in err
    code, _, err = run("explain", folder, LONG)
    assert (code, err.count("\n")) == (2, 1)
    assert "let summarize cut it (--truncate, truncate=True)" in err


def test_a_document_of_unknown_words_is_refused(refused, folder):
    told = refused("summarize", folder, stdin="foo bar\n")
    assert told.startswith("regard: standard input, line 1: the model knows no word of 'foo bar';")


def test_unknown_words_are_told(run, folder):
    code, _, err = run("summarize", folder, stdin="a foo\n")
    assert (code, err) == (0, "regard: 1 unknown word read as <unk>: foo\n")


def test_a_missing_file_and_a_run_of_another_task_are_told(refused, folder, run_path, tmp_path):
    assert "no file none.txt in " in refused("summarize", folder, tmp_path / "none.txt")
    assert "this needs a summarizer; use `regard translate`" in refused("summarize", run_path)
    assert "use `regard summarize` with it" in refused("translate", folder)


def test_evaluate_prints_a_table_and_takes_files(run, folder, tmp_path):
    code, out, _ = run("evaluate", folder)
    assert code == 0
    assert "ROUGE-L" in out
    assert "log-per" in out
    assert "rouge-score:" in out
    (tmp_path / "some.tsv").write_text("document\tsummary\na b c\ta c\n")
    code, out, err = run("evaluate", folder, tmp_path / "some.tsv", "--json")
    assert (code, json.loads(out)["n"]) == (0, 1)
    (tmp_path / "a.txt").write_text("a b c\nd e\n")
    (tmp_path / "b.txt").write_text("a c\nd e\n")
    files = ("--source", tmp_path / "a.txt", "--reference", tmp_path / "b.txt")
    code, out, err = run("evaluate", folder, *files, "--json")
    assert (code, err, json.loads(out)["n"]) == (0, "", 2)


def test_over_http(client, summarizer):
    found = client.post("/api/summarize", json={"document": "a b foo"}).json()
    assert found == {
        "summary": summarizer.summarize("a b foo"),
        "cut": False,
        "unknown": ["foo"],
        "changed": [],
    }
    cut = client.post("/api/summarize", json={"document": LONG, "truncate": True}).json()
    assert (cut["summary"], cut["cut"]) == (summarizer.summarize(LONG, truncate=True), True)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"document": LONG}, "33 tokens with the end token, but the model reads 24"),
        ({"document": "foo bar"}, "the model knows no word of"),
        ({"document": ""}, "document"),
        ({}, "document"),
        ({"document": "a", "beam": 3}, "beam"),
        ({"document": "a" * 200_001}, "document"),
    ],
)
def test_what_is_wrong_over_http_is_told(body, told, client):
    answer = client.post("/api/summarize", json=body)
    assert answer.status_code == 422
    assert told in answer.text


def test_the_page_asks_for_a_document_and_looks_inside(client):
    told = client.get("/api/info").json()
    assert told["form"]["path"] == "/api/summarize"
    assert [field["name"] for field in told["form"]["fields"]] == ["document"]
    assert told["form"]["go"] == "Summarize"
    assert {one["name"] for one in told["attentions"]} >= {"encoder.self", "decoder.cross"}
    look = client.post("/api/explain", json={"source": "a b c"}).json()
    assert look["source_tokens"] == ["a", "b", "c", "</s>"]
    assert client.post("/translate", json={"q": "a"}).status_code == 404


def test_summarizers_make_no_ensemble(refused, folder):
    for verb in ("summarize", "evaluate"):
        assert "make no ensemble" in refused(verb, folder, folder)
