"""OpenAI's own client against the running server, and what it refuses."""

import json
import re

import httpx
import numpy as np
import pytest
import torch
from language_models import language_model, weights_of
from starlette.testclient import TestClient
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from regard.interop.bert import write_bert
from regard.interop.gpt2 import write_gpt2
from regard.interop.importing import import_model
from regard.models.encoder import Encoder
from regard.models.settings import EncoderConfig
from regard.server.app import make_app
from regard.tasks.opening import load

openai = pytest.importorskip("openai", reason="openai is not installed")


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("writer")
    table = {t: i for i, t in enumerate(["<e>", *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    inner = Tokenizer(models.BPE(table, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(["<e>"])
    model = language_model(n_vocab=len(table), activation="gelu_tanh", max_len=40)
    (folder / "theirs").mkdir()
    write_gpt2(model.config, weights_of(model), folder / "theirs")
    inner.save(str(folder / "theirs" / "tokenizer.json"))
    (folder / "theirs" / "special_tokens_map.json").write_text('{"eos_token": "<e>"}')
    import_model(folder / "theirs", folder / "small")
    return load(folder / "small", device="cpu")


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedder")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "sat"]
    torch.manual_seed(0)
    sizes = {"d_model": 12, "n_heads": 3, "d_ff": 20, "n_layers": 2, "max_len": 9}
    model = Encoder(EncoderConfig(n_vocab=len(words), **sizes))
    (folder / "theirs").mkdir()
    write_bert(model.config, weights_of(model), folder / "theirs")
    (folder / "theirs" / "vocab.txt").write_text("\n".join(words))
    import_model(folder / "theirs", folder / "vectors")
    return load(folder / "vectors", device="cpu")


def client_of(address, key="none"):
    return openai.OpenAI(base_url=f"{address.rstrip('/')}/v1", api_key=key, max_retries=0)


def test_completions_are_what_the_run_writes(writer, serving):
    client = client_of(serving(writer))
    assert [model.id for model in client.models.list()] == ["small"]
    assert client.models.retrieve("small").id == "small"
    found = client.completions.create(model="small", prompt="a tea", max_tokens=6, temperature=0)
    wanted = writer.generate("a tea", max_new=6, temperature=0)
    assert found.choices[0].text == wanted
    assert found.usage.prompt_tokens == 5
    many = client.completions.create(
        model="small", prompt=["a", "tea"], max_tokens=4, n=2, seed=7, user="somebody"
    )
    assert [one.index for one in many.choices] == [0, 1, 2, 3]
    again = client.completions.create(model="small", prompt=["a", "tea"], max_tokens=4, n=2, seed=7)
    assert [one.text for one in many.choices] == [one.text for one in again.choices]


def test_a_stream_joined_is_the_text(writer, serving):
    client = client_of(serving(writer))
    texts = (writer.generate("a tea", max_new=12, seed=seed) for seed in range(99))
    seed = next(seed for seed, text in enumerate(texts) if len(text) > 5)
    how = {"model": "small", "prompt": "a tea", "max_tokens": 12, "seed": seed}
    whole = client.completions.create(**how)
    parts = list(client.completions.create(**how, stream=True))
    assert "".join(part.choices[0].text for part in parts) == whole.choices[0].text
    reasons = [part.choices[0].finish_reason for part in parts]
    assert set(reasons[:-1]) == {None}
    assert reasons[-1] == whole.choices[0].finish_reason
    assert len(parts) > 2


def test_embeddings_in_numbers_and_in_base64(embedder, serving):
    address = serving(embedder)
    client = client_of(address)
    found = client.embeddings.create(model="vectors", input=["the cats", "sat"])  # asks for base64
    wanted = embedder.embed(["the cats", "sat"])
    np.testing.assert_allclose([one.embedding for one in found.data], wanted, atol=1e-6)
    sent = {"model": "vectors", "input": "the cats"}
    plain = httpx.post(f"{address.rstrip('/')}/v1/embeddings", json=sent).json()
    np.testing.assert_allclose(plain["data"][0]["embedding"], wanted[0], atol=1e-6)


def test_a_key_is_asked_for(writer, serving):
    address = serving(writer, api_key="secret")
    with pytest.raises(openai.AuthenticationError):
        client_of(address, "wrong").models.list()
    assert client_of(address, "secret").models.list().data[0].id == "small"


WRONG = [
    ({"model": "other"}, 404, "there is no model 'other'; this server has 'small'"),
    ({"prompt": "a" * 41}, 422, "41 tokens, but the model's context holds 40; shorten it$"),
    ({"prompt": "a" * 41, "stream": True}, 422, "context holds 40; shorten it$"),
    ({"temperature": -1}, 422, "temperature must be at least 0"),
    ({"max_tokens": 0}, 422, "max_tokens must be at least 1"),
    ({"n": 2, "stream": True}, 422, "a stream holds one text"),
    ({"prompt": 5}, 422, "^prompt must be a text or a list of at most 64 texts$"),
    ({"prompt": ["a", 5]}, 422, "^prompt must be a text or a list of at most 64 texts$"),
    ({"prompt": []}, 422, "^prompt must not be empty$"),
    ({"prompt": ["a" * 5001]}, 422, "^prompt may have at most 5,000 characters a text$"),
    ({"stop": ["a", 5]}, 422, "^stop must be a text or a list of at most 16 texts$"),
    ({"stop": ""}, 422, "^stop must not hold an empty text$"),
    ({"max_tokens": True}, 422, "^max_tokens must be a number, not true or false$"),
    ({"temperature": False}, 422, "^temperature must be a number, not true or false$"),
    ({"top_p": 0}, 422, "^top_p must be more than 0"),
    ({"seed": 2**63}, 422, "^seed must be less than 9223372036854775808$"),
    ({"stream": "perhaps"}, 422, "^stream must be true or false$"),
]


UNSUPPORTED = {
    "logit_bias": ({"50": -100}, {}),
    "suffix": ("the end", ""),
    "best_of": (3, 1),
    "echo": (True, False),
    "frequency_penalty": (0.5, 0.0),
    "tools": ([{"type": "function"}], []),
    "response_format": ({"type": "json_object"}, {"type": "text"}),
}


@pytest.mark.parametrize("field", UNSUPPORTED)
def test_a_field_that_would_change_the_text_is_refused_and_not_ignored(talker, field):
    """In the form in which OpenAI tells its errors, so that its clients show it."""
    wanted, nothing = UNSUPPORTED[field]
    with TestClient(make_app(talker), base_url="http://localhost") as client:
        for path, body in (
            ("/v1/completions", {"prompt": "a"}),
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}),
        ):
            asked = {"model": "talker", "max_tokens": 2, **body}
            answer = client.post(path, json={**asked, field: wanted})
            assert answer.status_code == 400
            assert answer.json()["error"] == {
                "message": f"{field} is not supported here; leave it out",
                "type": "invalid_request_error",
                "param": field,
                "code": "unsupported_parameter",
            }
            for value in (nothing, None):
                assert client.post(path, json={**asked, field: value}).status_code == 200
        as_many = {"model": "talker", "prompt": "a", "max_tokens": 2, "n": 2, "best_of": 2}
        assert client.post("/v1/completions", json=as_many).status_code == 200


@pytest.mark.parametrize(("change", "status", "why"), WRONG, ids=str)
def test_refusals_say_why(writer, serving, change, status, why):
    address = serving(writer)
    body = {"model": "small", "prompt": "a", "max_tokens": 2} | change
    answer = httpx.post(f"{address.rstrip('/')}/v1/completions", json=body)
    assert answer.status_code == status
    assert re.search(why, answer.json()["error"]["message"])


def test_a_run_offers_only_what_it_can(writer, embedder, serving):
    for run, path in ((writer, "embeddings"), (embedder, "completions")):
        address = serving(run).rstrip("/")
        assert httpx.post(f"{address}/v1/{path}", json={"model": "x"}).status_code == 404
        manual = httpx.get(f"{address}/docs")
        assert manual.status_code == 200
        assert path not in manual.text
        assert f"/v1/models/{run.folder.path.name}</pre>" in manual.text
        assert "the page" in manual.text
        assert json.loads(httpx.get(f"{address}/healthz").text)["status"] == "ok"


def test_too_long_a_text_is_not_cut_in_silence(embedder, serving):
    address = serving(embedder).rstrip("/")
    body = {"model": "vectors", "input": "cat " * 8}
    answer = httpx.post(f"{address}/v1/embeddings", json=body)
    assert answer.status_code == 422
    assert "8 tokens, at most 7 go in" in answer.json()["error"]["message"]


def test_a_stream_that_came_to_a_stop_says_so(writer, serving):
    client = client_of(serving(writer))
    texts = (writer.generate("a tea", max_new=12, seed=seed) for seed in range(99))
    seed, text = next((seed, text) for seed, text in enumerate(texts) if len(text) > 5)
    how = {"model": "small", "prompt": "a tea", "max_tokens": 12, "seed": seed, "stop": text[2]}
    parts = list(client.completions.create(**how, stream=True))
    assert "".join(part.choices[0].text for part in parts) == text[: text.index(text[2])]
    assert parts[-1].choices[0].finish_reason == "stop"


def test_vectors_have_as_many_numbers_as_they_have(embedder, serving):
    address = f"{serving(embedder).rstrip('/')}/v1/embeddings"
    body = {"model": "vectors", "input": "the cats"}
    answer = httpx.post(address, json={**body, "dimensions": 5})
    assert answer.status_code == 422
    why = "dimensions must be 12, which all vectors of this model have"
    assert answer.json()["error"]["message"] == why
    assert httpx.post(address, json={**body, "dimensions": 12}).status_code == 200


def test_a_body_that_is_no_json_is_a_bad_request_as_it_is_everywhere(writer, serving):
    headers = {"content-type": "application/json"}
    why = "the body is not JSON"
    as_openai = {"message": why, "type": "invalid_request_error", "param": None, "code": None}
    for path, error in (("/v1/completions", as_openai), ("/api/generate", why)):
        answer = httpx.post(f"{serving(writer)}{path}", content=b'{"model": ', headers=headers)
        assert (answer.status_code, answer.json()) == (400, {"error": error})
