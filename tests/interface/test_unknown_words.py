"""A text in which no word is known is refused by runs that read one, too."""

import pytest
from starlette.testclient import TestClient
from text_runs import short_run

import regard
from regard.core.errors import DataError
from regard.server.app import make_app


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    return regard.load(short_run("classification", tmp_path_factory.mktemp("c")), device="cpu")


def test_a_classifier_refuses_it_with_examples(loaded):
    with TestClient(make_app(loaded), base_url="http://127.0.0.1") as client:
        answer = client.post("/api/classify", json={"text": "quux zork"})
        assert answer.status_code == 422
        assert "the model knows no word of 'quux zork'; take texts like" in answer.json()["error"]
        assert client.post("/api/classify", json={"text": "quux a"}).status_code == 200
    with pytest.raises(DataError, match="knows no word of 'quux zork'"):
        loaded.explain("quux zork")


def test_who_reads_some_of_it_is_told_in_python_too(loaded, tmp_path, caplog):
    caplog.set_level("WARNING", logger="regard")  # a server of another test may have raised it
    loaded.classify(["quux a", "a b"])
    writer = regard.load(short_run("language", tmp_path), device="cpu")
    writer.generate("a quux", max_new=1)
    assert caplog.messages == ["1 unknown word read as <unk>: quux"] * 2
    assert loaded.explain("quux a").warnings == writer.explain("a quux").warnings
    assert loaded.explain("quux a").warnings == ("1 unknown word read as <unk>: quux",)


def test_a_line_of_such_words_is_refused_with_its_number(run, loaded):
    code, _, err = run("classify", loaded.folder.path, stdin="a b\nquux zork\n")
    assert code == 2
    assert "line 2: the model knows no word of 'quux zork'" in err
