"""Pictures over HTTP are data URLs, never paths; runs refuse what others read."""

import html
import json
import re

import pytest
from fastapi.testclient import TestClient
from picture_runs import counting_run, data_url, png, scene

import regard
from regard.server.app import make_app
from regard.server.limits import Limits

GIVEN = data_url(png(scene()))
SVG = data_url(
    b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "svg+xml"
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return regard.load(counting_run(tmp_path_factory.mktemp("counting")), device="cpu")


@pytest.fixture(scope="module")
def client(run):
    with TestClient(make_app(run), base_url="http://localhost") as client:
        yield client


@pytest.fixture(scope="module")
def text_client(run_path):
    run = regard.load(run_path, device="cpu")
    with TestClient(make_app(run), base_url="http://localhost") as client:
        yield client


def refused(client, path, body):
    """The one line that says why."""
    response = client.post(path, json=body)
    assert response.status_code == 422
    (why,) = response.json().values()
    assert "\n" not in why
    return why


def test_a_picture_is_classified_and_explained(client, run):
    answer = client.post("/api/classify", json={"image": GIVEN}).json()
    assert answer["label"] == run.classify(scene())
    edit = {"kind": "occlude", "row": 1, "column": 2}
    sent = client.post("/api/explain", json={"source": GIVEN, "edits": [edit]}).json()
    look = run.explain(scene(), edit=edit).as_json()
    assert json.loads(json.dumps(look)) == {key: sent[key] for key in look}


def test_what_is_no_picture_is_refused_and_no_file_is_read(client, tmp_path):
    (tmp_path / "a.png").write_bytes(png(scene()))
    for path, field in (("/api/classify", "image"), ("/api/explain", "source")):
        for given in (str(tmp_path / "a.png"), "a b c", "file:///etc/passwd", 3, None):
            assert f"{field} must be a picture as a data URL" in refused(
                client, path, {field: given}
            )
        assert "must not be an SVG" in refused(client, path, {field: SVG})
        assert "SVG is not read" in refused(client, path, {field: SVG.replace("svg+xml", "png")})
        assert "not base64" in refused(client, path, {field: "data:image/png;base64,@@"})
        cut = data_url(png(scene())[:200])
        assert "damaged or cut off" in refused(client, path, {field: cut})
    assert refused(client, "/api/classify", {"text": "a b"}) == (
        "image is missing; text is not known here"
    )
    assert "occlude.row" in refused(
        client,
        "/api/explain",
        {"source": GIVEN, "edits": [{"kind": "occlude", "row": 9, "column": 0}]},
    )


def test_a_picture_for_a_run_of_texts_is_refused(text_client):
    assert refused(text_client, "/api/explain", {"source": GIVEN}) == (
        "source must be a text, not a picture"
    )
    assert "reads texts" in refused(
        text_client,
        "/api/explain",
        {"source": "a b", "edits": [{"kind": "occlude", "row": 0, "column": 0}]},
    )


def test_only_runs_of_pictures_take_large_bodies(client, text_client, run):
    body = {"source": GIVEN + "A" * 400_000}  # base64 with something behind the file
    assert client.post("/api/explain", json=body).status_code == 200
    assert text_client.post("/api/explain", json=body).status_code == 413
    limits = Limits(picture_bytes=300_000)
    with TestClient(make_app(run, limits=limits), base_url="http://localhost") as small:
        assert small.post("/api/explain", json=body).status_code == 413


def test_the_form_asks_for_an_image_and_examples_are_pictures(client):
    info = client.get("/api/info").json()
    assert info["form"]["fields"] == [
        {"name": "image", "kind": "image", "label": "A picture", "optional": False}
    ]
    assert info["form"]["views"][0] == "picture"
    assert "occlude" in info["form"]["edits"]
    assert [one["name"] for one in info["attentions"]] == ["encoder.self"]
    assert len(info["examples"]) == 6
    assert all(one["text"].startswith("data:image/png;base64,") for one in info["examples"])


def test_a_run_without_examples_still_tells_its_attentions(run, monkeypatch):
    monkeypatch.setattr("regard.tasks.pictures.saved_examples", lambda _: [])
    with TestClient(make_app(run), base_url="http://localhost") as client:
        info = client.get("/api/info").json()
    assert info["examples"] == []
    assert info["attentions"] == [{"name": "encoder.self", "layers": 2, "heads": 2}]


def test_the_manual_shows_a_command_that_works_with_a_small_picture(client):
    text = html.unescape(client.get("/docs").text)
    (command,) = re.findall(r"curl .*?-d '(\{.*?\})' localhost/api/classify", text)
    assert len(command) < 400
    assert client.post("/api/classify", json=json.loads(command)).status_code == 200
