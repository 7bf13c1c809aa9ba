"""``/api/story``: every kind of run tells the way of a token."""

import pytest
from picture_runs import counting_run, data_url, png, scene
from starlette.testclient import TestClient
from text_runs import short_run

import regard
from regard.server.app import make_app


def story(folder, **body):
    app = make_app(regard.load(folder, device="cpu"))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        return client.post("/api/story", json=body)


def steps(name, token, layer=0, head=0):
    return {"name": name, "layer": layer, "head": head, "token": token}


def test_a_translator_tells_it_and_a_wrong_question_is_refused(run_path):
    app = make_app(regard.load(run_path, device="cpu"))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        asked = {"source": "a b c", "steps": steps("decoder.cross", 1, head=1)}
        found = client.post("/api/story", json=asked).json()
        assert found["steps"]["head"] == 1
        assert [one["text"] for one in found["words"]] == ["a", "b", "c", "</s>"]
        assert found["outcome"]["chosen"] == found["writes"]
        assert client.post("/api/story", json={"source": "a b c"}).status_code == 422
        asked["steps"]["layer"] = 7
        answer = client.post("/api/story", json=asked)
        assert answer.status_code == 422
        assert "layers 0 to" in answer.json()["error"]


def test_a_language_model_tells_what_comes_next(tmp_path):
    folder = short_run("language", tmp_path)
    asked = {"source": "a c e", "max_tokens": 2, "steps": steps("decoder.self", 2)}
    found = story(folder, **asked).json()
    assert [one["text"] for one in found["words"]][-3:] == ["a", "c", "e"]
    assert (found["reads"], found["writes"]) == ("c", "e")
    assert sum(one["probability"] for one in found["outcome"]["choices"]) <= 1.0001
    assert found["story"]["embedded"]["kind"] == "learned"


def test_an_encoder_tells_its_label(tmp_path):
    folder = short_run("classification", tmp_path)
    found = story(folder, source="a b c", steps=steps("encoder.self", 0)).json()
    run = regard.load(folder, device="cpu")
    assert found["outcome"]["chosen"] == run.explain("a b c").answer
    assert found["kind"] == "blocks"


def test_a_picture_tells_its_patches(tmp_path):
    folder = counting_run(tmp_path)
    picture = data_url(png(scene()))
    found = story(folder, source=picture, steps=steps("encoder.self", 0)).json()
    assert len(found["words"]) == len(found["rows"]) > 4
    assert found["outcome"]["choices"][0]["text"] == found["outcome"]["chosen"]
    assert found["outcome"]["choices"][0]["probability"] == pytest.approx(
        max(one["probability"] for one in found["outcome"]["choices"])
    )
