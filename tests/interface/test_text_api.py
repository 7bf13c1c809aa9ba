"""The page's API for runs that read one text: what it answers is what the run says."""

import base64
import json
import zlib
from contextlib import contextmanager

import numpy as np
import pytest
from starlette.testclient import TestClient
from text_runs import KINDS, short_run

import regard
from regard.server.app import make_app
from regard.server.limits import Limits

TEXT = "a b c d"
PAIRS = ("pairs", "answers")
EDITS = [{"kind": "temperature", "value": 4.0}]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Kind -> a short run of it, trained when it is first asked for."""

    class Runs(dict):
        def __missing__(self, kind):
            folder = short_run(kind, tmp_path_factory.mktemp(kind))
            self[kind] = regard.load(folder, device="cpu")
            return self[kind]

    return Runs()


@contextmanager
def client_of(run, **options):
    app = make_app(run, **options)
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        yield client


@pytest.fixture
def post(runs):
    """Ask a run of a kind -> status and what was answered."""

    def asked(kind, path, body, **options):
        with client_of(runs[kind], **options) as client:
            answer = client.post(path, json=body)
            return answer.status_code, answer.json()

    return asked


def events(text):
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    return [
        (first.removeprefix("event: "), json.loads(second.removeprefix("data: ")))
        for first, second in blocks
    ]


# ------------------------------------------------------------------ what a run says


def test_labels_come_with_their_probabilities_the_likeliest_first(post, runs):
    status, answer = post("classification", "/api/classify", {"text": TEXT})
    run = runs["classification"]
    assert status == 200
    assert answer["label"] == run.classify(TEXT) == answer["labels"][0]["label"]
    shares = {one["label"]: one["probability"] for one in answer["labels"]}
    expected = dict(zip(run.labels.names, run.probabilities([TEXT])[0].tolist(), strict=True))
    assert shares == pytest.approx(expected)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)


def test_a_pair_is_classified_and_half_of_one_is_refused(post, runs):
    _, answer = post("pairs", "/api/classify", {"text": "a b", "other": "a c"})
    assert answer["label"] == runs["pairs"].classify(("a b", "a c"))
    status, answer = post("pairs", "/api/classify", {"text": "a b"})
    assert status == 422
    assert "pairs" in answer["error"]
    status, answer = post("classification", "/api/classify", {"text": "a b", "other": "a c"})
    assert status == 422


def test_masks_are_filled_as_the_run_fills_them(post, runs):
    text = "a <mask> c <mask>"
    _, answer = post("masked", "/api/fill", {"text": text, "n": 3})
    found = runs["masked"].fill(text, 3)
    assert answer["text"] == found.text
    shown = [[one["token"] for one in guesses] for guesses in answer["masks"]]
    assert shown == [[guess.token for guess in guesses] for guesses in found.masks]
    status, answer = post("masked", "/api/fill", {"text": TEXT})
    assert status == 422
    assert "there is no <mask>" in answer["error"]


def test_vectors_and_neighbours_are_those_of_the_run(post, runs):
    run = runs["similarity"]
    _, answer = post("similarity", "/api/embed", {"texts": ["a b", "c"]})
    np.testing.assert_allclose(answer["vectors"], run.embed(["a b", "c"]), atol=1e-6)
    others = ["c d", "a b", "h"]
    _, answer = post("similarity", "/api/nearest", {"text": "a b", "others": others})
    near = answer["nearest"]
    assert [(one["text"], one["score"]) for one in near] == [
        (text, pytest.approx(score, abs=1e-6)) for text, score in run.nearest("a b", others)
    ]
    assert near[0]["text"] == "a b"


def test_words_that_a_run_has_never_seen_are_told(post):
    for kind, path, body in (
        ("classification", "/api/classify", {"text": "a zebra a"}),
        ("masked", "/api/fill", {"text": "a zebra <mask>"}),
        ("similarity", "/api/nearest", {"text": "a", "others": ["zebra b"]}),
        ("language", "/api/explain", {"source": "a zebra"}),
    ):
        _, answer = post(kind, path, body)
        assert answer["unknown"] == ["zebra"]


def test_a_text_that_is_written_comes_in_pieces_and_again_by_its_seed(runs):
    run = runs["language"]
    asked = {"prompt": "a c", "max_tokens": 8, "temperature": 2.0, "top_k": 5}
    with client_of(run) as client:
        first = client.post("/api/generate", json=asked)
        *tokens, (last, done) = events(first.text)
        again = events(client.post("/api/generate", json=asked | {"seed": done["seed"]}).text)
        calm = events(client.post("/api/generate", json=asked | {"temperature": 0}).text)
    assert first.headers["content-type"].startswith("text/event-stream")
    assert last == "done"
    assert "".join(data["text"] for _, data in tokens) == done["text"]
    assert again[-1][1]["text"] == done["text"]
    expected = run.generate("a c", max_new=8, temperature=2.0, top_k=5, seed=done["seed"])
    assert done["text"] == expected
    assert calm[-1][1]["text"] == run.generate("a c", max_new=8, temperature=0)
    assert len(calm) > 3


def test_a_stop_ends_a_text_and_says_so(runs):
    asked = {"prompt": "a c", "max_tokens": 8, "temperature": 0}
    with client_of(runs["language"]) as client:
        whole = events(client.post("/api/generate", json=asked).text)[-1][1]
        stop = whole["text"].split()[2]
        cut = events(client.post("/api/generate", json={**asked, "stop": [stop]}).text)[-1][1]
    assert cut["text"] == whole["text"].partition(stop)[0]
    assert cut["finished"]


def test_a_question_that_would_be_cut_is_refused(post, runs):
    room = runs["answers"].model.config.max_len
    body = {"question": "what " * 2 * room, "text": "a c x"}
    status, answer = post("answers", "/api/answer", body)
    assert status == 422
    assert f"more than half of the {room} tokens" in answer["error"]
    assert post("answers", "/api/answer", {"question": "what c", "text": "a c x"})[0] == 200


# ------------------------------------------------------------------ looking inside

LOOKS = {
    "classification": ({"source": TEXT}, (TEXT,)),
    "pairs": ({"source": "a b", "other": "a c"}, ("a b", "a c")),
    "answers": ({"source": "what c", "other": "a c x"}, ("what c", "a c x")),
    "similarity": ({"source": TEXT}, (TEXT,)),
    "masked": ({"source": "a <mask> c"}, ("a <mask> c",)),
    "language": ({"source": "a c", "target": " e g"}, ("a c", " e g")),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("edits", [[], EDITS], ids=["plain", "edited"])
def test_the_weights_sent_are_those_of_the_look(post, runs, kind, edits):
    body, given = LOOKS[kind]
    _, sent = post(kind, "/api/explain", {**body, "edits": edits})
    look = runs[kind].explain(*given, edit=edits)
    (name,) = look.attentions
    assert sent["source_tokens"] == list(look.source_tokens)
    assert sent["outcome"] == json.loads(json.dumps(look.as_json()["outcome"]))
    for layer, weights in enumerate(sent["attentions"][name]):
        assert weights == look.weights(name, layer).tolist()


def test_weights_are_packed_where_that_is_asked_for(post, runs):
    packed = {"name": "encoder.self", "layer": 1}
    _, sent = post("classification", "/api/explain", {"source": TEXT, "packed": packed})
    look = runs["classification"].explain(TEXT)
    for layer, one in enumerate(sent["attentions"]["encoder.self"]):
        raw = np.frombuffer(zlib.decompress(base64.b64decode(one["data"])), np.uint8)
        numbers = raw.reshape(4, -1).T.copy().view("<f4").reshape(one["shape"])
        np.testing.assert_array_equal(numbers, look.weights("encoder.self", layer))


@pytest.mark.parametrize("kind", ["classification", "language"])
def test_steps_and_rollout_are_sent_when_asked_for(post, runs, kind):
    body, given = LOOKS[kind]
    look = runs[kind].explain(*given)
    (name,) = look.attentions
    step = {"name": name, "layer": 1, "head": 0, "token": 2}
    _, sent = post(kind, "/api/explain", {**body, "steps": step, "rollout": name})
    assert sent["steps"] == json.loads(json.dumps(look.steps(**step).as_json()))
    np.testing.assert_allclose(sent["rollout"], look.rollout(name))
    status, _ = post(kind, "/api/explain", {**body, "rollout": "nothing"})
    assert status == 422


def test_a_language_model_writes_on_by_itself_within_what_can_be_looked_at(post, runs):
    body = {"source": "a c", "max_tokens": 20}
    _, sent = post("language", "/api/explain", body, limits=Limits(look_tokens=7))
    assert len(sent["source_tokens"]) + len(sent["target_tokens"]) <= 7
    assert sent["target_tokens"]
    assert runs["language"].generate("a c", temperature=0).startswith(sent["outcome"]["text"])


WRONG = [
    ("classification", "/api/explain", {"source": "a " * 15}, "15 tokens, at most 14 can be"),
    ("pairs", "/api/explain", {"source": "a " * 9, "other": "b " * 9}, "18 tokens, at most 13"),
    ("pairs", "/api/classify", {"text": "a " * 9, "other": "b " * 9}, "18 tokens, at most 13"),
    ("language", "/api/explain", {"source": "a " * 30}, "at most 24 can be looked at"),
    ("language", "/api/generate", {"prompt": "a " * 30}, "the model's context holds 24"),
    ("language", "/api/generate", {"prompt": "a", "temperature": -1}, "temperature must be"),
    ("language", "/api/generate", {"prompt": "a", "stop": [""]}, "must not be empty"),
    ("language", "/api/generate", {"max_tokens": True}, "max_tokens must be a number, not true"),
    (
        "language",
        "/api/explain",
        {"source": "a", "edits": [{"kind": "swap", "first": True, "second": 0}]},
        "first must be a number, not true",
    ),
    ("masked", "/api/fill", {"text": "<mask>", "n": 0}, "n must be at least 1"),
    ("similarity", "/api/nearest", {"text": "a", "others": []}, "others"),
    ("similarity", "/api/explain", {"source": "a", "other": "b"}, ""),
    ("classification", "/api/classify", {"text": "a", "more": 1}, "more is not known here"),
]


@pytest.mark.parametrize(("kind", "path", "body", "why"), WRONG)
def test_refusals_say_why(post, kind, path, body, why):
    status, answer = post(kind, path, body)
    assert status == 422
    assert why in answer["error"]


# ------------------------------------------------------------------ what there is

PATHS = {
    "classification": {"/api/classify", "/api/embed", "/api/nearest", "/api/importance"},
    "pairs": {"/api/classify", "/api/embed", "/api/nearest", "/api/importance"},
    "similarity": {"/api/embed", "/api/nearest"},
    "answers": {"/api/answer", "/api/embed", "/api/nearest"},
    "masked": {"/api/fill", "/api/embed", "/api/nearest", "/api/importance"},
    "language": {"/api/generate", "/api/words", "/api/importance"},
}
PROGRESS = {"/api/heads/progress", "/api/search/progress"}
TRAINING = {"/api/training", "/api/training/film"}
ASKED = {"/api/info", "/api/heads", *PROGRESS, *TRAINING, "/api/drawing", "/api/words"}
"""By GET."""
ALWAYS = {*ASKED - {"/api/words"}, "/api/explain", "/api/search", "/api/story", "/api/read"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_has_the_page_and_the_paths_that_it_can_answer(runs, kind):
    with client_of(runs[kind]) as client:
        paths = set(client.get("/openapi.json").json()["paths"])
        page, manual = client.get("/"), client.get("/docs").text
    assert {path for path in paths if path.startswith("/api/")} == PATHS[kind] | ALWAYS
    assert all(f" {path}</code>" in manual for path in paths)
    assert '<script type="module" src="/static/page-' in page.text
    assert "unsafe-inline" not in page.headers["content-security-policy"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_told_of_a_run_can_be_asked_of_it(runs, kind):
    run = runs[kind]
    with client_of(run) as client:
        info = client.get("/api/info").json()
        assert info["task"] == run.task
        assert info["pairs"] == (kind in PAIRS)
        n_words = 10 if kind == "answers" else 8  # what and x
        assert info["knows"] == f"{n_words} words, in lower case, without punctuation"
        assert info["examples"]
        for example in info["examples"]:
            other = {"other": example["other"]} if kind in PAIRS else {}
            answer = client.post("/api/explain", json={"source": example["text"], **other})
            assert answer.status_code == 200
            (name, layers), *rest = answer.json()["attentions"].items()
            expected = {"name": name, "layers": len(layers), "heads": len(layers[0])}
            assert info["attentions"] == [expected]
            assert not rest


def test_all_that_costs_work_asks_for_the_key(runs):
    for kind, paths in PATHS.items():
        with client_of(runs[kind], api_key="sesame") as client:
            for path in paths | ALWAYS:
                method = "get" if path in ASKED else "post"
                assert getattr(client, method)(path).status_code == 401
            key = {"source": "a", "api_key": "sesame"}
            if kind not in PAIRS:
                assert client.post("/api/explain", json=key).status_code == 200
            assert client.get("/").status_code == client.get("/static/page.js").status_code == 200


def test_words_that_a_language_model_can_say_are_offered(runs):
    with client_of(runs["language"]) as client:
        assert client.get("/api/words", params={"begins": "c"}).json() == ["c"]


def test_a_text_that_fills_the_context_can_be_looked_at(post, runs):
    run = runs["language"]
    for n in range(1, 24):
        prompt = " ".join("aceg"[i % 4] for i in range(n))
        text = run.generate(prompt, max_new=50, temperature=0)
        if len(run.framing.read(prompt)) + len(run.framing.inside(text)) == run.context + 1:
            break
    else:
        pytest.fail("no text fills the context")
    for packed in (None, {"name": "decoder.self", "layer": 0}):
        status, sent = post(
            "language", "/api/explain", {"source": prompt, "target": text, "packed": packed}
        )
        assert status == 200
        assert sent["outcome"]["text"] == text
        assert len(sent["source_tokens"]) + len(sent["target_tokens"]) == run.context
    status, _ = post("language", "/api/explain", {"source": prompt, "target": f"{text} a a"})
    assert status == 422
