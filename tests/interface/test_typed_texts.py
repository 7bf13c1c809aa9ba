"""What people type works: capitals and punctuation are read as a plain world writes, visibly."""

import json
import shutil

import pytest
import yaml
from starlette.testclient import TestClient

import regard
from regard.server.app import make_app

NOTE = "regard: read in small letters and without punctuation, as the model knows texts; as: "


@pytest.fixture(scope="module")
def plain_path(run_path, tmp_path_factory):
    """The short run, as if it had learned a world that knows neither capitals nor signs."""
    path = tmp_path_factory.mktemp("plain") / "run"
    shutil.copytree(run_path, path)
    config = yaml.safe_load((path / "config.yaml").read_text())
    config["data"] = {"world": "sentences", "direction": "en-fr"}
    (path / "config.yaml").write_text(yaml.safe_dump(config))
    return path


@pytest.fixture(scope="module")
def client(plain_path):
    app = make_app(regard.load(plain_path, device="cpu"))
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        yield client


def test_capitals_and_signs_do_not_change_a_translation(run, plain_path):
    _, expected, quiet = run("translate", plain_path, stdin="a b c\n")
    code, out, err = run("translate", plain_path, stdin="“A B”, c.\n")
    assert (code, out) == (0, expected)
    assert (quiet, err) == ("", f"{NOTE}a b c\n")


def test_of_many_lines_it_is_told_how_many_were_read_otherwise(run, plain_path):
    _, _, err = run("translate", plain_path, stdin="a b\nA b.\nC!\n")
    assert (
        err
        == NOTE.replace("read in", "2 texts read in").replace("; as", "; the first as") + "a b\n"
    )


def test_json_tells_what_was_read(run, plain_path):
    _, out, _ = run("translate", plain_path, "--json", stdin="A b.\na b\n")
    first, second = map(json.loads, out.splitlines())
    assert first["source"] == "A b."
    assert first["changed"] == [{"typed": "A b.", "read": "a b"}]
    assert "changed" not in second
    assert first["translation"] == second["translation"]


def test_a_look_has_the_words_that_were_read_and_names_the_unknown_as_they_are_read(
    run, plain_path
):
    code, out, err = run("explain", plain_path, "A b, Zebra.", "--format", "json")
    found = json.loads(out)
    assert (code, found["source"]) == (0, "A b, Zebra.")
    assert found["source_tokens"] == ["a", "b", "<unk>", "</s>"]
    assert err == f"{NOTE}a b zebra\nregard: 1 unknown word read as <unk>: zebra\n"


@pytest.mark.parametrize("words", ["Xyzzy foo!", "?!"])
@pytest.mark.parametrize("verb", ["translate", "explain"])
def test_where_nothing_is_known_examples_are_told_in_one_line(refused, plain_path, verb, words):
    given = ("translate", plain_path) if verb == "translate" else (verb, plain_path, words)
    said = refused(*given, stdin=f"{words}\n")
    assert f"the model knows no word of '{words}'; take texts like those" in said
    assert "such as: the animal did not cross the street" in said
    assert "; john loves mary" in said


def test_a_run_of_files_reads_capitals_and_signs_as_they_are(run, run_path):
    _, _, err = run("translate", run_path, stdin="A b.\n")
    told = "regard: 2 unknown words read as <unk>: A, .; `a` is known: set text.lowercase=true"
    assert err == f"{told} and train again\n"


def test_the_server_tells_what_it_changed(client):
    words = {"source": "en", "target": "fr"}
    plain = client.post("/translate", json={"q": "a b", **words}).json()
    typed = client.post("/translate", json={"q": "A b.", **words}).json()
    assert typed == {**plain, "changed": [{"typed": "A b.", "read": "a b"}]}
    both = client.post("/translate", json={"q": ["A b.", "a b"], **words}).json()
    assert both["changed"] == [[{"typed": "A b.", "read": "a b"}], []]
    look = client.post("/api/explain", json={"source": "A b."}).json()
    assert look["changed"] == [{"typed": "A b.", "read": "a b"}]
    assert client.post("/api/explain", json={"source": "a b"}).json()["changed"] == []
    done = client.get("/api/stream", params={"source": "A b."}).text.split("data: ")[-1]
    assert json.loads(done)["changed"] == [{"typed": "A b.", "read": "a b"}]


def test_the_server_refuses_what_it_knows_nothing_of_with_examples(client):
    for path, body in (
        ("/translate", {"q": "Xyzzy!", "source": "en", "target": "fr"}),
        ("/api/explain", {"source": "Xyzzy!"}),
        ("/api/importance", {"source": "Xyzzy!", "step": 0}),
    ):
        response = client.post(path, json=body)
        assert response.status_code == 422
        assert "knows no word of 'Xyzzy!'" in response.json()["error"]
        assert "john loves mary" in response.json()["error"]


def test_a_text_that_is_being_typed_is_read_before_it_is_asked_about(client):
    def read(text):
        return client.post("/api/read", json={"text": text}).json()

    assert read("a b") == {"unknown": [], "read": None, "known": True}
    assert read("A b, 😀 Zebra.") == {"unknown": [[7, 12]], "read": "a b zebra", "known": True}
    assert read("A b.\nZoo!") == {"unknown": [[5, 8]], "read": "a b\nzoo", "known": True}
    assert read("zoo") == {"unknown": [[0, 3]], "read": None, "known": False}
    assert read("")["known"]


def test_what_is_wrong_with_a_text_is_told_without_the_name_of_its_field(client):
    def error(path, **body):
        return client.post(path, json=body).json()["error"]

    assert error("/api/explain", source="") == "the text must not be empty"
    assert error("/api/read", text="a" * 10**5).startswith("the text may have at most ")
    assert error("/api/explain") == "source is missing"  # that is a program's mistake
