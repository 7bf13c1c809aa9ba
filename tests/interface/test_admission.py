"""Who is let in: other websites, guessed keys, clients that ask too often or have gone."""

import json
import threading
import time
import urllib.request

import pytest
from letters import pairs
from starlette.testclient import TestClient

import regard
from regard.decoding import beam, greedy, static_search
from regard.server import admission
from regard.server.admission import GUESSES, MOST_CLIENTS, Rate, RequestRate
from regard.server.app import make_app
from regard.server.limits import Limits
from regard.tasks.translator import Run

ASKED = {"q": "a b", "source": "ab", "target": "ba"}
BROWSER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/605.1"}


@pytest.fixture(scope="module")
def run(run_path):
    return regard.load(run_path, device="cpu")


def client_of(run, **options):
    return TestClient(make_app(run, **options), base_url="http://127.0.0.1:8000")


# ------------------------------------------------------------------ other websites

FOREIGN = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:9999"},
    {"Origin": "http://127.0.0.1:8000.evil.example"},
    {"Origin": ""},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:8000"},
    {**BROWSER},
    {**BROWSER, "X-Regard-Token": "guess"},
]
OWN = [
    {},
    {"User-Agent": "python-requests/2"},
    {"Origin": "http://127.0.0.1:8000", **BROWSER},
    {"Sec-Fetch-Site": "same-origin", "Origin": "https://behind.a.proxy", **BROWSER},
    {"Sec-Fetch-Site": "none", **BROWSER},
]


@pytest.mark.parametrize("headers", FOREIGN)
def test_another_website_cannot_make_a_browser_use_the_server(run, headers, monkeypatch):
    def spawned(*_words, **_how):
        raise AssertionError("a process was started")

    monkeypatch.setattr("asyncio.create_subprocess_exec", spawned)
    with client_of(run) as client:
        answers = [
            client.post("/translate", data=ASKED, headers=headers),
            client.get("/api/stream?source=a", headers=headers),
            client.get("/api/heads", headers=headers),
            client.get("/metrics", headers=headers),
        ]
        if "User-Agent" not in headers:  # no browser sends JSON elsewhere without asking first
            answers.append(client.post("/translate", json=ASKED, headers=headers))
            answers.append(client.post("/api/explain", json={"source": "a"}, headers=headers))
        assert {answer.status_code for answer in answers} == {403}
        assert "not other websites" in answers[0].json()["error"]
        assert client.get("/", headers=headers).status_code == 200  # a link to the page is no harm


@pytest.mark.parametrize("headers", OWN)
def test_programs_and_the_page_itself_are_answered(run, headers):
    with client_of(run) as client:
        assert client.post("/translate", data=ASKED, headers=headers).status_code == 200
        assert client.get("/api/stream?source=a", headers=headers).status_code == 200


def test_the_page_has_a_token_for_browsers_that_do_not_say_who_asks(run):
    with client_of(run) as client, client_of(run) as other:
        page = client.get("/").text
        token = page.split('name="regard-token" content="')[1].split('"')[0]
        assert len(token) > 20
        assert token not in other.get("/").text
        headers = {**BROWSER, "X-Regard-Token": token}
        assert client.get("/api/stream?source=a", headers=headers).status_code == 200
        assert other.get("/api/stream?source=a", headers=headers).status_code == 403
        behind = {**headers, "Origin": "http://a.proxy.that.renames"}
        assert client.get("/api/stream?source=a", headers=behind).status_code == 200


def test_programs_that_call_themselves_browsers_are_answered(run):
    with client_of(run) as client:
        assert client.post("/translate", json=ASKED, headers=BROWSER).status_code == 200
    with client_of(run, api_key="0123456789") as client:
        headers = {**BROWSER, "Authorization": "Bearer 0123456789"}
        assert client.get("/v1/models", headers=headers).status_code != 403


def test_a_browser_that_asks_first_is_granted_nothing(run):
    preflight = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    with client_of(run) as client:
        for path in ("/translate", "/api/explain", "/", "/healthz"):
            answer = client.options(path, headers=preflight)
            assert answer.status_code in (403, 405)
            assert not [name for name in answer.headers if name.startswith("access-control")]


# ------------------------------------------------------------------ keys and rates


@pytest.fixture
def clock(monkeypatch):
    """Time that stands still until it is moved."""

    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

    found = Clock()
    monkeypatch.setattr(admission, "time", found)
    return found


def test_whoever_guesses_keys_has_to_wait_and_nobody_else(run, clock):
    with client_of(run, api_key="a long secret"[2:]) as client:
        right = {"Authorization": "Bearer long secret"}

        def guess(number):
            return client.get("/api/words", headers={"Authorization": f"Bearer guess {number}"})

        assert [guess(i).status_code for i in range(GUESSES)] == [401] * GUESSES
        slowed = guess("again")
        assert slowed.status_code == 429
        assert slowed.headers["Retry-After"] == "10"
        assert client.get("/api/words", headers=right).status_code == 429  # a guess like any other
        assert client.post("/translate", data={**ASKED, "api_key": "x"}).status_code == 429
        assert client.get("/api/words").status_code == 401  # it guesses nothing
        assert client.get("/healthz").status_code == 200
        clock.now += 10
        assert client.get("/api/words", headers=right).status_code == 200
        assert guess("more").status_code == 401
        assert guess("more").status_code == 429
    other = TestClient(client.app, base_url="http://127.0.0.1:8000", client=("192.0.2.7", 1))
    assert other.get("/api/words", headers=right).status_code == 200


def test_a_client_may_ask_so_often_and_then_by_the_minute(run, clock):
    with client_of(run, rate_limit=3) as client:
        found = [client.post("/translate", json=ASKED) for _ in range(4)]
        assert [one.status_code for one in found] == [200, 200, 200, 429]
        assert found[-1].headers["Retry-After"] == "20"
        assert found[-1].json() == {"error": "a client may send 3 requests a minute; wait 20 s"}
        assert client.get("/").status_code == client.get("/static/page.js").status_code == 200
        clock.now += 20
        assert client.post("/translate", json=ASKED).status_code == 200
        assert client.post("/translate", json=ASKED).status_code == 429


def test_no_rate_of_requests_keeps_a_scraper_from_its_numbers(run, clock):
    with client_of(run, rate_limit=1, api_key="0123456789") as client:
        key = {"Authorization": "Bearer 0123456789"}
        for path in ("/metrics", "/healthz") * 3:
            assert client.get(path, headers=key).status_code == 200
        found = [client.post("/translate", json=ASKED, headers=key) for _ in range(2)]
        assert [one.status_code for one in found] == [200, 429]
        wrong = {"Authorization": "Bearer guess"}
        guesses = [client.get("/metrics", headers=wrong) for _ in range(GUESSES + 1)]
        assert [one.status_code for one in guesses] == [401] * GUESSES + [429]


def test_clients_are_forgotten_rather_than_remembered_without_end(clock):
    rate = RequestRate(1)
    for number in range(MOST_CLIENTS + 50):
        rate.check(f"client {number}")
    assert len(rate._left) == MOST_CLIENTS
    assert Rate.wait(rate, "client 0") == 0
    assert Rate.wait(rate, f"client {MOST_CLIENTS}") == 60


# ------------------------------------------------------------------ much work, and nobody waits


def test_one_request_cannot_ask_for_work_without_end(run):
    """A hundred lines of two thousand characters, in eight versions each."""
    line = " ".join(["a b c d e"] * 40)
    with client_of(run) as client:
        asked = {**ASKED, "q": [line] * 60, "alternatives": 7}
        answer = client.post("/translate", json=asked)
        assert answer.status_code == 422
        told = "12,000 tokens in 8 versions are 96,000, and one request may ask for 32,768"
        assert told in answer.json()["error"]


def test_pieces_of_a_request_give_what_the_whole_gives(run):
    lines = [source for source, _ in pairs(12, 7)]
    with client_of(run, limits=Limits(batch_characters=30)) as client:
        asked = {**ASKED, "q": "\n".join(lines), "alternatives": 2}
        cut = client.post("/translate", json=asked).json()
    with client_of(run) as client:
        assert client.post("/translate", json=asked).json() == cut
    assert cut["translatedText"].split("\n") == run.translate(lines)


@pytest.fixture
def held(monkeypatch):
    """Searches wait at their first step; -> the steps so far, and what lets them go on."""
    steps, go_on, check = [], threading.Event(), static_search.check_wanted

    def waiting():
        steps.append(1)
        assert go_on.wait(30)
        check()

    for module in (beam, greedy, static_search):
        monkeypatch.setattr(module, "check_wanted", waiting)
    yield steps, go_on
    go_on.set()


LONG = {**ASKED, "q": "a b c d e a b c d e", "alternatives": 7}


def test_what_got_its_503_goes_no_further(run, held):
    steps, go_on = held
    with client_of(run, limits=Limits(seconds=0.5)) as client:
        assert client.post("/translate", json=LONG).status_code == 503
        go_on.set()
        while client.app.state.service.worker._began is not None:
            time.sleep(0.01)
        assert len(steps) == 1


def test_what_a_client_asked_that_has_gone_goes_no_further(run, held, serving):
    steps, go_on = held
    address = serving(run)
    body, kind = json.dumps(LONG).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{address}/translate", body, kind)
    with pytest.raises(TimeoutError):
        urllib.request.urlopen(request, timeout=1.0)
    while 'status="499"' not in _read(f"{address}/metrics"):
        time.sleep(0.01)
    go_on.set()
    given = json.dumps({"source": "a b", "target": "b a"}).encode()  # nothing is searched for
    look = urllib.request.Request(f"{address}/api/explain", given, kind)
    with urllib.request.urlopen(look, timeout=30) as answer:  # the model's thread is free again
        assert answer.status == 200
    assert len(steps) == 1


def _read(address):
    with urllib.request.urlopen(address, timeout=30) as answer:
        return answer.read().decode()


# ------------------------------------------------------------------ engines that crash


class PanicException(BaseException):
    """As Rust code raises it: no Exception."""


def test_a_panic_is_a_500_and_health_fails_until_the_engine_is_whole(run, monkeypatch):
    broken, fixed = threading.Event(), threading.Event()
    translate, tokenizers = Run.translate, type(run.tokenizers.source)
    encode, engine = tokenizers.encode, run.tokenizers.source._inner

    def panicking(self, texts, **how):
        if fixed.is_set():
            return translate(self, texts, **how)
        broken.set()
        raise PanicException("called `Option::unwrap()` on a `None` value")

    def probed(self, text):
        if broken.is_set():
            raise PanicException
        return encode(self, text)

    monkeypatch.setattr(Run, "translate", panicking)
    monkeypatch.setattr(tokenizers, "encode", probed)
    with client_of(run) as client:
        answer = client.post("/translate", json=ASKED)
        assert (answer.status_code, "unwrap" in answer.text) == (500, False)
        down = client.get("/healthz")
        assert down.status_code == 503
        assert "has crashed" in down.json()["error"]
        assert client.post("/translate", json=ASKED).status_code == 500  # in checking the text
        fixed.set()
        broken.clear()
        assert client.get("/api/info").status_code == 200
        assert client.get("/healthz").json()["status"] == "ok"
        assert client.post("/translate", json=ASKED).status_code == 200
    assert run.tokenizers.source._inner is not engine  # a lock that Rust has poisoned stays so
