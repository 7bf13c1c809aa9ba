"""Conversations by OpenAI's own client against the running server, and what is refused."""

import httpx
import pytest
from chats import chat_folder

from regard.decoding.sampling import seeded
from regard.tasks.opening import load

openai = pytest.importorskip("openai", reason="openai is not installed")

MESSAGES = [
    {"role": "system", "content": "be"},
    {"role": "user", "content": [{"type": "text", "text": "a "}, {"type": "text", "text": "tea"}]},
]
PLAIN = [MESSAGES[0], {"role": "user", "content": "a tea"}]


def client_of(address):
    return openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)


def test_answers_are_what_the_run_says(talker, serving):
    client = client_of(serving(talker))
    found = client.chat.completions.create(
        model="talker", messages=MESSAGES, max_tokens=6, temperature=0
    )
    talk = talker.conversation(PLAIN, max_new=6, temperature=0)
    assert found.choices[0].message.content == talk.reply()
    assert found.choices[0].message.role == "assistant"
    assert found.choices[0].finish_reason == ("stop" if talk.finished else "length")
    assert found.usage.prompt_tokens == len(talk.prompts.ids(PLAIN))


def test_several_answers_end_with_the_turn_or_by_the_newer_limit(talker, serving):
    talk = talker.conversation(PLAIN, max_new=4)
    ids, on = talk.prompts.ids(PLAIN), talker.generation(max_new=4)
    for seed in range(999):  # until one ends with its turn, after which a text would go on
        (wanted,) = talker.generator.texts([ids], talk.config, rng=seeded(seed), n=3)
        (further,) = talker.generator.texts([ids], on, rng=seeded(seed), n=3)
        if wanted != further and not all(one.finished for one in wanted):
            break
    assert wanted != further
    client = client_of(serving(talker))
    how = {"max_tokens": 1, "max_completion_tokens": 4, "n": 3, "seed": seed}
    found = client.chat.completions.create(model="talker", messages=PLAIN, **how)
    assert [one.index for one in found.choices] == [0, 1, 2]
    assert [one.message.content for one in found.choices] == [one.text for one in wanted]
    reasons = ["stop" if one.finished else "length" for one in wanted]
    assert [one.finish_reason for one in found.choices] == reasons


def test_a_stream_joined_is_the_answer(talker, serving):
    client = client_of(serving(talker))
    texts = (talker.chat(PLAIN, max_new=12, seed=seed) for seed in range(99))
    seed = next(seed for seed, text in enumerate(texts) if len(text) > 5)
    how = {"model": "talker", "messages": PLAIN, "max_tokens": 12, "seed": seed}
    whole = client.chat.completions.create(**how).choices[0]
    parts = [part.choices[0] for part in client.chat.completions.create(**how, stream=True)]
    assert len(parts) > 2
    assert "".join(part.delta.content or "" for part in parts) == whole.message.content
    assert {part.finish_reason for part in parts[:-1]} == {None}
    assert parts[-1].finish_reason == whole.finish_reason


PICTURE = 'messages.0.content may have parts of the "type" "text" only'
WRONG = [
    ({"model": "other"}, 404, "there is no model 'other'"),
    ({"messages": []}, 422, "messages"),
    ({"messages": [{"role": "robot", "content": "a"}]}, 422, "messages.0.role must be 'system'"),
    ({"messages": [{"role": "user", "content": "a" * 130}]}, 422, "context holds 120; shorten it"),
    ({"messages": [{"role": "user", "content": 5}]}, 422, "messages.0.content must be a text or"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 422, PICTURE),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, 422, "must be a text or"),
    ({"n": 2, "stream": True}, 422, "a stream holds one text"),
    ({"max_tokens": 0}, 422, "max_tokens must be at least 1"),
]


@pytest.mark.parametrize(("change", "status", "why"), WRONG, ids=str)
def test_refusals_say_why(talker, serving, change, status, why):
    body = {"model": "talker", "messages": PLAIN, "max_tokens": 2} | change
    answer = httpx.post(f"{serving(talker)}/v1/chat/completions", json=body)
    assert answer.status_code == status
    assert why in answer.json()["error"]["message"]
    assert "[" not in answer.json()["error"]["message"]  # no types of the library


def test_a_run_without_a_template_says_so(talker, serving, tmp_path):
    plain = load(chat_folder(tmp_path, template=None), device="cpu")
    address = serving(plain)
    body = {"model": "talker", "messages": PLAIN}
    answer = httpx.post(f"{address}/v1/chat/completions", json=body)
    assert answer.status_code == 404
    assert "'talker' has no template for conversations" in answer.json()["error"]["message"]
    assert "chat/completions" not in httpx.get(f"{address}/docs").text
    assert "chat/completions" in httpx.get(f"{serving(talker)}/docs").text
