"""One request cannot take the server away: what it asks for is bounded, what it began ends."""

import threading

import pytest
import torch
from starlette.testclient import TestClient

from regard.decoding import protocol
from regard.decoding.sampling import Sampler
from regard.server.app import make_app
from regard.server.limits import Limits

TALK = {"model": "talker", "messages": [{"role": "user", "content": "a"}], "max_tokens": 60}
TEXT = {"model": "talker", "prompt": "a", "max_tokens": 60}
ASKED = {
    "a text": ("/v1/completions", TEXT),
    "a text as it comes": ("/v1/completions", {**TEXT, "stream": True}),
    "an answer": ("/v1/chat/completions", TALK),
    "an answer as it comes": ("/v1/chat/completions", {**TALK, "stream": True}),
    "the page's text": ("/api/generate", {"prompt": "a", "max_tokens": 60}),
}


def client_of(run, **limits):
    app = make_app(run, limits=Limits(**limits))
    return TestClient(app, base_url="http://127.0.0.1:8000")


@pytest.mark.parametrize("what", ASKED)
def test_what_takes_too_long_stops_at_the_next_token(talker, what, monkeypatch):
    steps, go_on = [], threading.Event()
    log_probs = protocol.log_probs

    def slow(logits):
        steps.append(1)
        assert len(steps) < 3 or go_on.wait(30)
        return log_probs(logits)

    monkeypatch.setattr(protocol, "log_probs", slow)
    # One piece is all.
    monkeypatch.setattr("regard.tasks.generation.certain", lambda text, stops: "")
    monkeypatch.setattr(Sampler, "__call__", lambda self, probs, rows, t: torch.full_like(rows, 50))
    path, body = ASKED[what]
    with client_of(talker, seconds=1.0) as client:
        answer = client.post(path, json=body)
        assert answer.status_code == 503
        told = answer.json()["error"]
        assert "this took more than 1 s" in (told["message"] if path.startswith("/v1/") else told)
        go_on.set()
        assert client.post("/v1/completions", json={**TEXT, "max_tokens": 1}).status_code == 200
    assert len(steps) <= 4


TOO_MUCH = [
    ("/v1/completions", {**TEXT, "prompt": ["a"] * 64, "n": 16, "max_tokens": 4096}, "1024 texts"),
    ("/v1/chat/completions", {**TALK, "n": 16}, "16 texts of up to 60 tokens are 960 tokens"),
]


@pytest.mark.parametrize(("path", "body", "why"), TOO_MUCH)
def test_more_than_one_request_may_have_written_is_refused(talker, path, body, why):
    with client_of(talker, new_tokens=900) as client:
        answer = client.post(path, json=body)
        assert answer.status_code == 422
        told = answer.json()["error"]["message"]
        assert why in told
        assert "one request may ask for 900; ask for fewer texts" in told
        assert client.post(path, json={**body, "n": 1, "max_tokens": 4}).status_code == 200
