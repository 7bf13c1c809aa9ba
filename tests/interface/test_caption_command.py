"""``regard caption``, its path, and conversations about a picture."""

import json

import pytest
from picture_runs import captioning_run, data_url, png, scene
from starlette.testclient import TestClient

import regard
from regard.cli.main import main
from regard.server.app import make_app


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return captioning_run(tmp_path_factory.mktemp("captions"))


@pytest.fixture(scope="module")
def run(folder):
    return regard.load(folder, device="cpu")


@pytest.fixture
def files(tmp_path):
    for name, n in (("one", 1), ("two", 2)):
        (tmp_path / f"{name}.png").write_bytes(png(scene(7, n)))
    return [str(tmp_path / f"{name}.png") for name in ("one", "two")]


@pytest.fixture(scope="module")
def client(run):
    with TestClient(make_app(run), base_url="http://127.0.0.1") as client:
        yield client


URL = data_url(png(scene(7, 2)))


def test_a_line_a_picture(folder, run, files, capsys):
    assert main(["caption", str(folder), *files]) == 0
    assert capsys.readouterr().out.splitlines() == run.caption(files)
    assert main(["caption", str(folder), *files, "--beam", "3", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["image"] for one in found] == files
    assert [one["caption"] for one in found] == run.caption(files, beam=3)
    assert found[0].keys() == {"image", "caption", "score", "tokens"}


def test_several_captions_a_picture(folder, run, files, capsys):
    assert main(["caption", str(folder), files[0], "--n-best", "2"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    wanted = run.caption(files[0], n_best=2, with_scores=True)
    assert [text for text, _ in lines] == [one.text for one in wanted]
    assert [float(score) for _, score in lines] == pytest.approx(
        [one.score for one in wanted], abs=1e-4
    )


def test_what_is_no_picture_is_told(folder, tmp_path, capsys):
    (tmp_path / "no.png").write_text("no")
    assert main(["caption", str(folder), str(tmp_path / "no.png")]) == 2
    assert "no.png: not a picture" in capsys.readouterr().err


def test_explain_and_evaluate_know_captioners(folder, files, capsys):
    asked = ["explain", str(folder), files[0], "--target", "two squares", "--format", "json"]
    assert main(asked) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["target_tokens"] == ["two", "squares", "</s>"]
    assert main(["evaluate", str(folder), "--split", "valid", "--beam", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["task"] == "captioning"
    assert main(["evaluate", str(folder), "--split", "valid"]) == 0
    out = capsys.readouterr().out
    assert "CIDEr" in out
    assert "chrF" not in out
    assert "nrefs:" in out


def test_a_path_captions_pictures(client, run):
    found = client.post("/api/caption", json={"image": URL}).json()
    assert found["caption"] == run.caption(URL)
    several = client.post("/api/caption", json={"image": URL, "n_best": 2}).json()
    assert [one["caption"] for one in several["hypotheses"]] == run.caption(URL, n_best=2)
    assert client.post("/api/caption", json={"image": "/etc/passwd"}).status_code == 422


def _asked(client, content, **more):
    body = {"model": "run", "messages": [{"role": "user", "content": content}], **more}
    return client.post("/v1/chat/completions", json=body)


PICTURE = {"type": "image_url", "image_url": {"url": URL}}


def test_a_conversation_about_a_picture_is_its_caption(client, run):
    found = _asked(client, [{"type": "text", "text": "What is it?"}, PICTURE]).json()
    (choice,) = found["choices"]
    assert choice["message"] == {"role": "assistant", "content": run.caption(URL)}
    assert choice["finish_reason"] == "stop"
    assert found["object"] == "chat.completion"
    assert found["usage"]["completion_tokens"] == len(run.caption(URL).split()) + 1
    several = _asked(client, [PICTURE], n=2).json()["choices"]
    assert [one["message"]["content"] for one in several] == run.caption(URL, n_best=2)
    cut = _asked(client, [PICTURE], max_tokens=1).json()["choices"][0]
    assert cut["finish_reason"] == "length"


def test_a_conversation_can_be_streamed_and_sampled(client, run):
    lines = _asked(client, [PICTURE], stream=True).text.split("\n\n")
    pieces = [
        json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")
    ]
    said = "".join(one["choices"][0]["delta"].get("content", "") for one in pieces)
    assert said == run.caption(URL)
    assert lines[-2] == "data: [DONE]"
    drawn = _asked(client, [PICTURE], temperature=2.0, seed=5).json()["choices"][0]
    assert drawn["message"]["content"] == run.caption(URL, temperature=2.0, seed=5)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("hello", "there is no picture"),
        ([PICTURE, PICTURE], "one picture a message, but there are 2; send one of them"),
        ([{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}], "data:image"),
        ([{"type": "input_audio", "input_audio": {}}], "image_url"),
        ([{**PICTURE, "image_url": {"url": data_url(b"no")}}], "not a picture"),
    ],
)
def test_what_is_no_conversation_about_a_picture_is_refused(client, content, told):
    answer = _asked(client, content)
    assert 400 <= answer.status_code < 500
    assert told in answer.text
