"""``logprobs`` of OpenAI's paths, beside what a plain pass over the text finds."""

import math

import pytest
import torch

from regard.decoding.sampling import seeded

MESSAGES = [{"role": "user", "content": "a tea"}]


def complete(client, **how):
    body = {"model": "talker", "prompt": "a tea", "max_tokens": 5, "seed": 3, **how}
    answer = client.post("/v1/completions", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"]


def chat(client, **how):
    body = {"model": "talker", "messages": MESSAGES, "max_tokens": 5, "seed": 3, **how}
    answer = client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"]


def scores(talker, read, ids):
    """Token by token, each after a pass of its own: (T, V) log-probabilities."""
    with torch.no_grad():
        rows = [talker.model(torch.tensor([[*read, *ids[:n]]]))[0, -1] for n in range(len(ids))]
    return torch.stack(rows).double().log_softmax(dim=-1)


@pytest.mark.parametrize("temperature", [0, 1.3])
def test_a_completion_tells_each_token_and_the_best_in_its_place(client, talker, temperature):
    read = talker.prompt_ids("a tea", 5)
    config = talker.generation(max_new=5, temperature=temperature)
    for seed in range(99):  # until a text does not end at once
        ((text,),) = talker.generator.texts([read], config, rng=seeded(seed))
        if len(text.ids) > 3:
            break
    (one,) = complete(client, logprobs=3, temperature=temperature, seed=seed)
    wanted, told = scores(talker, read, text.ids), one["logprobs"]
    assert one["text"] == text.text
    names = [name.replace("▁", " ") for name in text.tokens]
    assert told["tokens"] == names
    right = [float(wanted[t, i]) for t, i in enumerate(text.ids)]
    assert told["token_logprobs"] == pytest.approx(right, abs=1e-4)
    for t, best in enumerate(told["top_logprobs"]):
        top = wanted[t].topk(3).values.tolist()
        assert 3 <= len(best) <= 4  # the one that was written is told in any case
        assert best[names[t]] == pytest.approx(right[t], abs=1e-4)
        assert sorted(best.values(), reverse=True)[:3] == pytest.approx(top, abs=1e-4)
    offsets = told["text_offset"]
    assert offsets[0] == 0
    assert offsets == sorted(offsets)
    assert offsets[-1] <= len(one["text"])


def test_zero_asks_for_the_tokens_alone_and_nothing_for_nothing(client):
    (one,) = complete(client, logprobs=0, temperature=0)
    assert [len(best) for best in one["logprobs"]["top_logprobs"]] == [1] * 5
    for nothing in ({}, {"logprobs": None}, {"logprobs": False}):
        assert complete(client, **nothing)[0]["logprobs"] is None


def test_each_of_several_texts_has_its_own(client):
    many = complete(client, prompt=["a", "tea"], n=2, logprobs=1, temperature=0)
    for i, prompt in enumerate(("a", "a", "tea", "tea")):
        (alone,) = complete(client, prompt=prompt, logprobs=1, temperature=0)
        told, wanted = (one["logprobs"]["token_logprobs"] for one in (many[i], alone))
        assert many[i]["text"] == alone["text"]
        assert told == pytest.approx(wanted, abs=1e-5)
    assert many[0]["logprobs"] != many[2]["logprobs"]


def test_a_text_that_ends_at_once_has_none(client, talker):
    empty = (seed for seed in range(99) if not talker.generate("a", max_new=1, seed=seed))
    (one,) = complete(client, prompt="a", max_tokens=1, seed=next(empty), logprobs=2)
    assert one["logprobs"]["tokens"] == []


def test_a_turn_of_a_conversation_tells_them_as_a_list(client, talker):
    (one,) = chat(client, logprobs=True, top_logprobs=2, temperature=0)
    talk = talker.conversation(MESSAGES, max_new=5, temperature=0)
    read = talk.prompts.ids(MESSAGES)
    ((text,),) = talker.generator.texts([read], talk.config, rng=seeded(3))
    wanted = scores(talker, read, text.ids)
    content = one["logprobs"]["content"]
    assert len(content) == len(text.ids)
    for t, told in enumerate(content):
        assert told["logprob"] == pytest.approx(float(wanted[t].max()), abs=1e-4)
        best = [other["logprob"] for other in told["top_logprobs"]]
        assert best == pytest.approx(wanted[t].topk(2).values.tolist(), abs=1e-4)
        assert told["token"] == told["top_logprobs"][0]["token"]
        is_torn = told["token"].startswith("\\x")
        assert told["bytes"] == (None if is_torn else list(told["token"].encode()))
        assert math.exp(told["logprob"]) <= 1
    (bare,) = chat(client, logprobs=True, temperature=0)
    assert {len(told["top_logprobs"]) for told in bare["logprobs"]["content"]} == {0}
    assert chat(client)[0]["logprobs"] is None


def test_what_a_stop_cut_off_is_not_told(client):
    whole = complete(client, logprobs=0, temperature=0)[0]
    stop = whole["text"][2]
    cut = complete(client, logprobs=0, temperature=0, stop=stop)[0]
    n = sum(at < len(cut["text"]) for at in whole["logprobs"]["text_offset"])
    assert cut["text"] == whole["text"].split(stop)[0]
    assert cut["logprobs"]["tokens"] == whole["logprobs"]["tokens"][:n]


@pytest.mark.parametrize(
    ("path", "change", "status", "param"),
    [
        ("completions", {"logprobs": 6}, 422, None),
        ("completions", {"logprobs": True}, 422, None),
        ("completions", {"logprobs": 1, "stream": True}, 400, "logprobs"),
        ("chat/completions", {"logprobs": True, "top_logprobs": 21}, 422, None),
        ("chat/completions", {"top_logprobs": 2}, 400, "top_logprobs"),
        ("chat/completions", {"logprobs": True, "stream": True}, 400, "logprobs"),
    ],
    ids=str,
)
def test_what_cannot_be_told_is_refused(client, path, change, status, param):
    body = {"model": "talker", "prompt": "a", "messages": MESSAGES, "max_tokens": 2, **change}
    answer = client.post(f"/v1/{path}", json=body)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert "logprobs" in error["message"]
    assert param is None or error["param"] == param
