"""``/api/chat``: answers with their tokens, and where the model looked when it wrote one."""

import json

import numpy as np
import pytest
from chats import chat_folder
from starlette.testclient import TestClient

from regard.server.app import make_app
from regard.tasks.opening import load

MESSAGES = [{"role": "user", "content": "a tea"}]


def answer(client, **how):
    """The pieces of an answer, and its last event."""
    body = {"messages": MESSAGES, "max_tokens": 12, **how}
    blocks = client.post("/api/chat", json=body).text.strip().split("\n\n")
    events = [(one.split("\n")[0][7:], json.loads(one.split("\n")[1][6:])) for one in blocks]
    assert [name for name, _ in events[:-1]] == ["token"] * (len(events) - 1)
    assert events[-1][0] == "done"
    return [data["text"] for _, data in events[:-1]], events[-1][1]


@pytest.mark.parametrize("seed", range(4))
def test_an_answer_is_what_the_run_says_and_its_tokens_make_it_up(client, talker, seed):
    pieces, whole = answer(client, seed=seed)
    assert whole["text"] == talker.chat(MESSAGES, max_new=12, seed=seed) == "".join(pieces)
    assert "".join(token["text"] for token in whole["tokens"]) == whole["text"]
    assert len(whole["tokens"]) <= 12


def test_a_look_shows_the_position_that_wrote_a_token(client, talker):
    _, whole = answer(client, temperature=0)
    ids = [token["id"] for token in whole["tokens"]]
    told = client.post("/api/chat/look", json={"messages": MESSAGES, "ids": ids, "token": 2}).json()
    read = talker.conversation(MESSAGES).prompts.ids(MESSAGES)
    look = talker.look_at_ids(read, ids)
    row = len(read) + 1
    assert told["n_read"] == len(read)
    assert told["tokens"] == talker.tokenizer.tokens([*read, *ids[:2]])
    for name, layers in look.attentions.items():
        for found, weights in zip(told["weights"][name], layers, strict=True):
            np.testing.assert_allclose(found, weights[:, row, : row + 1], atol=1e-6)
            np.testing.assert_allclose(np.sum(found, axis=-1), 1, atol=1e-5)
    assert told["probability"] == pytest.approx(look.written.probabilities[2], rel=1e-4)
    best = told["choices"][0]  # at temperature 0 it wrote what was most probable
    assert (best["text"], best["probability"]) == (told["token"], told["probability"])


def test_the_token_that_fills_the_context_can_be_looked_at(client, talker):
    read = talker.conversation(MESSAGES).prompts.ids(MESSAGES)
    ids = [5] * (talker.context + 1 - len(read))
    body = {"messages": MESSAGES, "ids": ids, "token": len(ids) - 1, "max_tokens": 1}
    told = client.post("/api/chat/look", json=body).json()
    assert len(told["tokens"]) == talker.context
    assert told["probability"] is None


@pytest.mark.parametrize(
    ("path", "change", "why"),
    [
        ("", {"messages": []}, "messages"),
        ("", {"messages": [{"role": "robot", "content": "a"}]}, "role must be"),
        ("", {"messages": [{"role": "user", "content": "a" * 200}]}, "last turn alone has"),
        ("", {"temperature": -1}, "temperature"),
        ("/look", {"ids": [], "token": 0}, "ids"),
        ("/look", {"ids": [3], "token": 1}, "the answer has tokens 0 to 0"),
        ("/look", {"ids": [99_999], "token": 0}, "each less than"),
    ],
    ids=str,
)
def test_what_is_wrong_is_told(client, path, change, why):
    answer = client.post(f"/api/chat{path}", json={"messages": MESSAGES, **change})
    assert answer.status_code == 422
    assert why in answer.json()["error"]


def test_only_runs_with_a_template_chat(client, tmp_path):
    assert client.get("/api/info").json()["chats"] is True
    plain = load(chat_folder(tmp_path, template=None), device="cpu")
    with TestClient(make_app(plain), base_url="http://localhost") as other:
        assert other.get("/api/info").json()["chats"] is False
        assert other.post("/api/chat", json={"messages": MESSAGES}).status_code == 404
