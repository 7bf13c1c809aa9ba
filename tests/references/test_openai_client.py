"""OpenAI's own client shows what the server says: every error with its message, field and word."""

import pytest
from chats import chat_folder
from starlette.testclient import TestClient
from text_runs import short_run

from regard.server.app import make_app
from regard.tasks.opening import load

openai = pytest.importorskip("openai", reason="openai is not installed")

HELLO = [{"role": "user", "content": "a"}]


def client_of(run, key="none", **how):
    """Their client, and no network between it and the server."""
    inner = TestClient(make_app(run, **how), base_url="http://localhost")
    options = {"base_url": "http://localhost/v1", "api_key": key, "max_retries": 0}
    return openai.OpenAI(http_client=inner, **options)


@pytest.fixture(scope="module")
def talker(tmp_path_factory):
    return load(chat_folder(tmp_path_factory.mktemp("talker")), device="cpu")


def test_a_wrong_field_is_named(talker):
    client = client_of(talker)
    with pytest.raises(openai.UnprocessableEntityError) as told:
        client.chat.completions.create(model="talker", messages=HELLO, max_tokens=0)
    assert told.value.param == "max_tokens"
    assert told.value.type == "invalid_request_error"
    assert "max_tokens must be at least 1" in told.value.message


def test_a_model_that_is_not_here_is_not_found(talker):
    with pytest.raises(openai.NotFoundError) as told:
        client_of(talker).completions.create(model="other", prompt="a")
    assert (told.value.param, told.value.code) == ("model", "model_not_found")
    assert "there is no model 'other'" in told.value.message


def test_a_path_that_is_not_here_is_told_as_their_errors_are(talker):
    with pytest.raises(openai.NotFoundError) as told:
        client_of(talker).embeddings.create(model="talker", input="a")
    assert told.value.code == "unknown_url"


def test_their_client_reads_how_probable_the_tokens_are(talker):
    client = client_of(talker)
    asked = {"model": "talker", "max_tokens": 3, "temperature": 0}
    (text,) = client.completions.create(prompt="a", logprobs=2, **asked).choices
    assert len(text.logprobs.tokens) == len(text.logprobs.token_logprobs) == 3
    assert text.logprobs.top_logprobs[0][text.logprobs.tokens[0]] == pytest.approx(
        text.logprobs.token_logprobs[0]
    )
    (turn,) = client.chat.completions.create(
        messages=HELLO, logprobs=True, top_logprobs=2, **asked
    ).choices
    for one in turn.logprobs.content:
        assert len(one.top_logprobs) == 2
        assert one.logprob == pytest.approx(one.top_logprobs[0].logprob)


def test_a_wrong_key_and_asking_too_often_have_their_words(talker):
    with pytest.raises(openai.AuthenticationError) as wrong:
        client_of(talker, "wrong", api_key="secret").models.list()
    assert (wrong.value.code, "that key is wrong" in wrong.value.message) == (
        "invalid_api_key",
        True,
    )
    client = client_of(talker, rate_limit=1)
    client.models.list()
    with pytest.raises(openai.RateLimitError) as often:
        client.models.list()
    assert (often.value.type, often.value.code) == ("rate_limit_error", "rate_limit_exceeded")
    assert "a client may send 1 requests a minute" in often.value.message


def test_what_breaks_inside_a_stream_is_raised(talker, monkeypatch):
    def broken(*_args, **_how):
        yield "a"
        raise ValueError("nobody's business")

    monkeypatch.setattr(type(talker.generator), "pieces", broken)
    client = client_of(talker)
    parts = client.completions.create(model="talker", prompt="a", max_tokens=3, stream=True)
    with pytest.raises(openai.APIError, match="something went wrong") as told:
        list(parts)
    assert told.value.type == "server_error"


def test_every_kind_of_run_is_a_model(run_path, tmp_path):
    for path in (run_path, short_run("classification", tmp_path)):
        run = load(path, device="cpu")
        client = client_of(run)
        assert [one.id for one in client.models.list()] == [path.name]
        assert client.models.retrieve(path.name).owned_by == "regard"
