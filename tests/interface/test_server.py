"""The server: LibreTranslate's paths, looking inside, guards, and how it ends."""

import asyncio
import dataclasses
import html
import json
import shlex
import shutil
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace

import httpx
import pytest
import torch
import uvicorn
import yaml
from letters import pairs
from libretranslatepy import LibreTranslateAPI
from starlette.testclient import TestClient

import regard
from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import DataError
from regard.data.splits import load_records
from regard.decoding.protocol import next_log_probs
from regard.recipes.recipe import load_recipe
from regard.runs.heads import head_measures
from regard.runs.train import train
from regard.server.app import make_app
from regard.server.batcher import MODEL
from regard.server.errors import BusyError, RefusedError, as_json
from regard.server.heads import HeadMeasuring, main
from regard.server.limits import Limits, address_of, listen
from regard.server.processes import CANNOT
from regard.server.service import Service
from regard.server.translation import greedy_events
from regard.tasks.base import TASKS
from regard.tasks.examples import EXAMPLES, save_examples
from regard.tasks.recipe import recipe_from
from regard.tasks.translation import PRONOUNS, antecedents
from regard.tasks.translator import Run
from regard.text.specials import END_ID, SPECIALS
from regard.text.words import split
from regard.visual.heads import COLUMNS

TEXTS = [source for source, _ in pairs(12, 7)]
MARKUP = "<img src=x onerror=alert(1)>"
JSON = {"source": "ab", "target": "ba"}


@pytest.fixture(scope="module")
def run(run_path):
    return regard.load(run_path, device="cpu")


@pytest.fixture
def client_of(run):
    """A client for an app with the given options."""

    @contextmanager
    def make(**options):
        app = make_app(run, **options)
        with TestClient(app, base_url="http://127.0.0.1:8000") as client:
            yield client

    return make


@pytest.fixture
def client(client_of):
    with client_of() as client:
        yield client


@pytest.fixture
def gate(monkeypatch):
    """Translations wait until it opens."""
    opened = threading.Event()
    began = threading.Event()
    translate = Run.translate

    def slow(self, texts):
        began.set()
        assert opened.wait(30)
        return translate(self, texts)

    monkeypatch.setattr(Run, "translate", slow)
    opened.began = began
    yield opened
    opened.set()


@contextmanager
def serving(app, drain=30):
    """A real server on a free port; -> itself and its address."""
    with listen("127.0.0.1", 0) as listening:
        address = address_of(listening)
        config = uvicorn.Config(
            app, log_level="critical", ws="none", timeout_graceful_shutdown=drain
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield server, address
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


# ------------------------------------------------------------------ LibreTranslate


def test_json_and_forms_are_translated_as_the_run_translates(client, run):
    asked = {"q": TEXTS[0], **JSON}
    expected = {"translatedText": run.translate(TEXTS[0])}
    assert client.post("/translate", json=asked).json() == expected
    assert client.post("/translate", data=asked).json() == expected
    assert client.post("/translate", data=asked, files={"x": b""}).json() == expected


def test_a_list_gives_a_list_and_auto_names_the_language(client, run):
    answer = client.post("/translate", json={"q": TEXTS, "source": "auto", "target": "ba"}).json()
    assert answer["translatedText"] == run.translate(TEXTS)
    assert [one["language"] for one in answer["detectedLanguage"]] == ["ab"] * len(TEXTS)
    form = client.post("/translate", data={"q": TEXTS[:2], **JSON}).json()
    assert form == {"translatedText": run.translate(TEXTS[:2])}
    assert client.post("/translate", json={"q": [], **JSON}).json() == {"translatedText": []}
    assert client.post("/translate", json={"q": "", **JSON}).json() == {"translatedText": ""}


def test_each_line_is_translated_by_itself_and_lines_stay_lines(client, run):
    first, second = run.translate(TEXTS[:2])
    text = f"{TEXTS[0]}\r\n \n{TEXTS[1]}\n"
    for body in ({"json": {"q": text, **JSON}}, {"data": {"q": text, **JSON}}):
        said = client.post("/translate", **body).json()["translatedText"]
        assert said == f"{first}\n\n{second}\n"
    several = client.post("/translate", json={"q": [text, TEXTS[1]], **JSON}).json()
    assert several["translatedText"] == [f"{first}\n\n{second}\n", second]
    many = client.post("/translate", json={"q": "a\n" * 129, **JSON})
    assert many.status_code == 422
    assert many.json()["error"] == "there are 129 lines, at most 128 go in; send fewer at once"
    assert client.post("/translate", json={"q": "a\n\n" * 128, **JSON}).status_code == 200


def test_words_that_are_read_as_unknown_are_told(client):
    one = client.post("/translate", json={"q": f"{TEXTS[0]}\na zebra", **JSON}).json()
    assert one["unknown"] == ["zebra"]
    both = client.post("/translate", json={"q": [TEXTS[0], "a zebra"], **JSON}).json()
    assert both["unknown"] == [[], ["zebra"]]
    assert "unknown" not in client.post("/translate", json={"q": TEXTS[0], **JSON}).json()


def test_json_that_is_sent_as_a_form_is_told_by_its_header(client):
    body, form = json.dumps({"q": "a", **JSON}), "application/x-www-form-urlencoded"
    why = {"error": "this looks like JSON: send it with Content-Type: application/json"}
    for kind in (form, "text/plain"):
        answer = client.post("/translate", content=body, headers={"Content-Type": kind})
        assert (answer.status_code, answer.json()) == (415, why)
    look = client.post(
        "/api/explain", content=json.dumps({"source": "a"}), headers={"Content-Type": form}
    )
    assert (look.status_code, look.json()) == (415, why)
    other = client.post("/api/explain", content="source=a", headers={"Content-Type": form})
    assert (other.status_code, other.json()) == (422, {"error": "the body must be a JSON object"})


def test_whoever_asks_for_no_path_is_told_which_there_are(client):
    does = "this run is of the task translation: ask /translate; see /docs"
    near = client.post("/api/explian", json={"source": "a"})
    why = f"there is no path '/api/explian' here; did you mean /api/explain?; {does}"
    assert (near.status_code, near.json()) == (404, {"error": why})
    far = client.post("/v1/embeddings", json={"input": "a"}).json()["error"]
    assert far["code"] == "unknown_url"
    assert far["message"].endswith(does)
    assert "did you mean" not in far["message"]
    by = client.get("/translate")
    assert (by.status_code, by.headers["Allow"]) == (405, "POST")
    assert by.json() == {"error": "this path is asked by POST, not by GET"}
    long = client.get("/" + "x" * 3000).json()["error"]
    assert len(long) < 400


def test_alternatives_are_the_next_best_and_never_the_translation(client, run):
    asked = {"q": TEXTS[0], **JSON, "alternatives": 2}
    answer = client.post("/translate", json=asked).json()
    said = run.translate(TEXTS[0])
    others = [text for text in run.translate(TEXTS[0], n_best=3) if text != said]
    assert answer == {"translatedText": said, "alternatives": others[:2]}
    assert others
    form = client.post("/translate", data={**asked, "q": TEXTS[:2]}).json()
    assert form["alternatives"][0] == others[:2]
    assert len(form["alternatives"]) == 2
    lines = client.post("/translate", json={**asked, "q": "\n".join(TEXTS[:2])}).json()
    assert [one.split("\n")[0] for one in lines["alternatives"]] == others[:2]
    wrong = client.post("/translate", json={**asked, "alternatives": 99})
    assert wrong.json() == {"error": "alternatives must be at most 7"}


def test_a_translation_begins_with_the_prefix_that_is_asked_for(client, run):
    asked = {"q": f"{TEXTS[0]}\n{TEXTS[1]}", **JSON, "prefix": "h g"}
    expected = "\n".join(run.translate(TEXTS[:2], prefix=["h g", ""]))
    assert expected.startswith("h g")
    for body in ({"json": asked}, {"data": asked}):
        assert client.post("/translate", **body).json() == {"translatedText": expected}
    several = {"q": TEXTS[:2], **JSON, "prefix": ["h g", "a"], "alternatives": 2}
    for body in ({"json": several}, {"data": several}):
        answer = client.post("/translate", **body).json()
        assert answer["translatedText"] == run.translate(TEXTS[:2], prefix=["h g", "a"])
        for prefix, others in zip(("h g", "a"), answer["alternatives"], strict=True):
            assert others
            assert all(text.startswith(prefix) for text in others)
    for wrong, words in (
        (
            "a zebra",
            "prefix: the model cannot write 'zebra'; begin with words that it was trained on",
        ),
        (["a", "b"], "prefix: 2 texts for the 1 of q; send one for each"),
        (1, "prefix must be a text or a list of at most 64 texts"),
    ):
        answer = client.post("/translate", json={**asked, "prefix": wrong})
        assert (answer.status_code, answer.json()) == (422, {"error": words})


def test_fields_that_only_others_know_are_ignored(client, run):
    extras = {"format": "text", "api_key": "", "x": [1]}
    answer = client.post("/translate", json={"q": TEXTS[0], **JSON, **extras})
    assert answer.json()["translatedText"] == run.translate(TEXTS[0])


def test_the_public_client_of_libretranslate_works(run):
    with serving(make_app(run, api_key="secret")) as (_, address):
        api = LibreTranslateAPI(address, api_key="secret")
        assert api.translate(TEXTS[0], "ab", "ba") == run.translate(TEXTS[0])
        assert api.languages() == [
            {"code": "ab", "name": "ab", "targets": ["ba"]},
            {"code": "ba", "name": "ba", "targets": []},
        ]
        assert api.detect(TEXTS[0]) == [{"confidence": 0, "language": "ab"}]
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            LibreTranslateAPI(address, api_key="guess").translate("a b", "ab", "ba")
        refused.value.close()


def test_requests_at_once_get_what_each_would_get_alone(run):
    """Texts, lists, forms and looks, mixed; and some did share a batch."""
    app = make_app(run, limits=Limits(window=0.05))
    asked = [{"json": {"q": text, **JSON}} for text in TEXTS]
    asked += [{"data": {"q": text, **JSON}} for text in TEXTS]
    asked += [{"json": {"q": TEXTS[i : i + 3], **JSON}} for i in range(5)]
    looks = [{"json": {"source": text}} for text in TEXTS[:4]]

    async def all_answers(together):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            calls = [client.post("/translate", **one) for one in asked]
            calls += [client.post("/api/explain", **one) for one in looks]
            if together:
                return [one.json() for one in await asyncio.gather(*calls)], None
            found = [(await call).json() for call in calls]
            return found, (await client.get("/metrics")).text

    together, _ = asyncio.run(all_answers(together=True))
    alone, metrics = asyncio.run(all_answers(together=False))
    assert together == alone
    n_requests = 2 * len(asked)
    n_batches = float(metrics.split("regard_batch_texts_count ")[1].split()[0])
    assert n_batches < n_requests - 10


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"q": "a", "source": "fr", "target": "ba"}),
        (400, {"q": "a", "source": "ab", "target": "ab"}),
        (422, {"q": "a", "source": "ab"}),
        (422, {"q": 7, **JSON}),
        (422, {"q": ["a", None], **JSON}),
        (422, {"q": "a", **JSON, "format": "html"}),
        (422, {"q": "a" * 5001, **JSON}),
        (422, {"q": ["a"] * 65, **JSON}),
        (422, {"q": "a " * 600, **JSON}),
        (422, {"q": "\ud800", **JSON}),
        (422, ["q"]),
        (422, None),
    ],
)
def test_what_cannot_be_translated_is_refused_with_a_reason(client, status, body):
    raw = json.dumps(body)
    answer = client.post("/translate", content=raw, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]


COMPLAINTS = {
    "q must be a text or a list of at most 64 texts": [{"q": 5}, {"q": ["a"] * 65}, {"q": [1]}],
    "q may have at most 5,000 characters a text": [{"q": "a" * 5001}, {"q": ["", "a" * 5001]}],
    "q is missing": [{}],
    "the body must be a JSON object": [[1], "a"],
    "format must be 'text'": [{"q": "a", "format": "html"}],
}


@pytest.mark.parametrize("words", COMPLAINTS)
def test_what_is_wrong_with_a_request_is_told_in_words_for_people(client, words):
    for body in COMPLAINTS[words]:
        whole = {**JSON, **body} if isinstance(body, dict) else body
        assert client.post("/translate", json=whole).json() == {"error": words}
        assert client.post("/detect", json=whole).status_code in (200, 422)


LOOK_COMPLAINTS = {
    "source is missing": {},
    "source must be a text": {"source": 1},
    "the text must not be empty": {"source": ""},
    "unknown is not known here": {"source": "a", "unknown": 1},
    "edits.0 has no known kind; it must be one of 'ablate', 'force', 'temperature', "
    "'no_positions', 'swap', 'force_token', 'occlude'": {
        "source": "a",
        "edits": [{"kind": "melt"}],
    },
    "edits.0 needs a field kind": {"source": "a", "edits": [{}]},
    "edits.0.swap.first must be at least 0": {
        "source": "a",
        "edits": [{"kind": "swap", "first": -1, "second": 0}],
    },
    "edits.0.temperature.value must be a number": {
        "source": "a",
        "edits": [{"kind": "temperature", "value": "x"}],
    },
    "edits may have at most 16 entries": {
        "source": "a",
        "edits": [{"kind": "no_positions"}] * 17,
    },
    "steps.token must be a token or the number of its row": {
        "source": "a",
        "steps": {"name": "decoder.cross", "layer": 0, "head": 0, "token": [1]},
    },
    "the body must be a JSON object": [1],
}


@pytest.mark.parametrize("words", LOOK_COMPLAINTS)
def test_what_is_wrong_with_a_look_is_told_in_words_for_people(client, words):
    assert client.post("/api/explain", json=LOOK_COMPLAINTS[words]).json() == {"error": words}


@pytest.mark.parametrize(
    ("path", "place", "body"),
    [
        ("/translate", "the text", {"q": "\ud800", **JSON}),
        ("/translate", "q.0", {"q": ["\ud800"], **JSON}),
        ("/api/explain", "the text", {"source": "\ud800"}),
        (
            "/api/explain",
            "steps.token",
            {"source": "a", "steps": {"name": "a", "layer": 0, "head": 0, "token": "\ud800"}},
        ),
    ],
)
def test_half_a_character_is_told_with_the_field_that_holds_it(client, path, place, body):
    kind = {"Content-Type": "application/json"}
    answer = client.post(path, content=json.dumps(body), headers=kind)
    words = "must be a text in Unicode, and it holds half a character"
    assert answer.json() == {"error": f"{place} {words}"}


def test_broken_json_is_called_so(client):
    kind = {"Content-Type": "application/json"}
    for path in ("/api/explain", "/translate"):
        answer = client.post(path, content=b"{", headers=kind)
        assert answer.json() == {"error": "the body is not JSON"}
    assert client.get("/api/stream").json() == {"error": "source is missing"}


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (400, "application/json", b"{"),
        (400, "application/json", b"\xff"),
        (400, "application/json", b"[" * 100_000),
        (400, "application/json", b"1" * 5_000),
        (415, "text/plain", b"q=a"),
        (415, "", b""),
        (422, "application/x-www-form-urlencoded", b"%ff=%00&q"),
        (400, "multipart/form-data", b"x"),
        (422, "multipart/form-data; boundary=x", b"--x\r\nnonsense"),
    ],
)
def test_nonsense_is_never_a_fault_of_the_server(client, status, kind, body):
    answer = client.post("/translate", content=body, headers={"Content-Type": kind})
    assert answer.status_code == status


# ------------------------------------------------------------------ looking inside


def test_the_weights_sent_are_the_weights_of_the_look(client, run):
    text = TEXTS[1]
    sent = client.post("/api/explain", json={"source": text}).json()
    look = run.explain(text)
    assert sent["translation"] == look.translation
    assert sent["source_tokens"] == list(look.source_tokens)
    assert sent["attentions"].keys() == look.attentions.keys()
    for name, layers in sent["attentions"].items():
        for layer, weights in enumerate(layers):
            assert weights == look.weights(name, layer).tolist()


def test_a_given_target_edits_and_steps_reach_the_run(client, run):
    edit = {"kind": "ablate", "name": "decoder.cross", "layer": 0, "head": 1}
    step = {"name": "decoder.cross", "layer": 0, "head": 0, "token": 1}
    asked = {"source": "a b", "target": "b a", "edits": [edit], "steps": step}
    sent = client.post("/api/explain", json=asked).json()
    look = run.explain("a b", "b a", edit=edit)
    assert sent["target_tokens"] == ["b", "a", "</s>"]
    assert sent["attentions"]["decoder.cross"][0] == look.weights("decoder.cross").tolist()
    assert sent["steps"] == json.loads(json.dumps(look.steps(**step).as_json()))


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"source": ""},
        {"source": " "},
        {"source": "a", "edits": [{"kind": "melt"}]},
        {"source": "a", "edits": [{"kind": "temperature", "value": 0}]},
        {"source": "a", "edits": [{"kind": "temperature", "value": 1e-40}]},
        {"source": "a", "edits": [{"kind": "ablate", "name": "nose", "layer": 0, "head": 0}]},
        {"source": "a", "edits": [{"kind": "swap", "first": 0, "second": 99}]},
        {"source": "a", "steps": {"name": "decoder.cross", "layer": 9, "head": 0, "token": 0}},
        {"source": "a", "steps": {"name": "decoder.cross", "layer": 0, "head": 0, "token": "z"}},
        {"source": "a " * 200},
        {"source": "a", "target": "a " * 200},
        {"source": "a", "unknown": 1},
    ],
)
def test_looks_that_cannot_be_are_refused_with_a_reason(client, body):
    answer = client.post("/api/explain", json=body)
    assert answer.status_code == 422
    assert answer.json()["error"]


def test_markup_stays_text(client):
    """As JSON, never as HTML; and no browser may guess otherwise."""
    answer = client.post("/api/explain", json={"source": MARKUP, "target": MARKUP})
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.json()["source"] == MARKUP


def test_info_names_every_attention(client, run):
    info = client.get("/api/info").json()
    assert info["languages"] == ["ab", "ba"]
    assert info["task"] == "translation"
    assert info["special_ids"] == {token: i for i, token in enumerate(SPECIALS)}
    assert info["examples"] == [source for source, _ in pairs(5, 2)]  # held out
    assert info["attentions"] == [
        {"name": name, "layers": len(layers), "heads": layers[0].shape[0]}
        for name, layers in run.explain("a").attentions.items()
    ]


@pytest.mark.parametrize("direction", ["en-fr", "fr-en"])
def test_the_world_of_sentences_shows_the_lectures_examples_and_knows_their_words(direction):
    recipe = load_recipe("transformer", [f"direction={direction}"])
    shown = TASKS["translation"].examples(SimpleNamespace(recipe=recipe))
    assert len(shown) == 5
    known = {
        word
        for pair in load_records(recipe.data, "pair").splits["train"]
        for word in split(pair.source)
    }
    assert all(set(split(text)) <= known for text in shown)


@pytest.fixture
def copied(run, tmp_path):
    """The run in a folder of its own, with other settings."""

    def make(**data):
        path = tmp_path / "copied"
        shutil.copytree(run.folder.path, path)
        settings = yaml.safe_load((path / "config.yaml").read_text())
        settings["data"] |= data
        (path / "config.yaml").write_text(yaml.safe_dump(settings))
        return regard.load(path, device="cpu")

    return make


@pytest.mark.parametrize("named", ["valid", "test", "train"])
def test_no_file_is_shown_that_a_run_only_names(copied, tmp_path, named):
    """A stranger's folder must not have us read what is ours."""
    secret, other_secret = tmp_path / "secret.tsv", tmp_path / "secret.json"
    secret.write_text("sesame a b\tc\n" * 20)
    other_secret.write_text('[{"text": "sesame"}]')
    only = dict.fromkeys(("valid", "test"))
    other = copied(**{**only, named: str(secret)})
    other.folder.path.joinpath(EXAMPLES).unlink()
    assert TASKS["translation"].examples(other) == []
    other.folder.path.joinpath(EXAMPLES).symlink_to(other_secret)
    with TestClient(make_app(other), base_url="http://localhost") as client:
        for path in ("/docs", "/openapi.json", "/api/info", "/"):
            answer = client.get(path)
            assert (answer.status_code, "sesame" in answer.text) == (200, False)


def test_a_run_that_replaces_another_deletes_its_examples():
    assert [name for name, task in TASKS.items() if EXAMPLES not in task.files] == []


def test_no_data_is_shown_to_whoever_has_no_key(client_of, run):
    shown = TASKS["translation"].examples(run)
    with client_of() as client:
        assert html.escape(json.dumps(shown[0])) in client.get("/docs").text
    with client_of(api_key="secret") as client:
        for path in ("/docs", "/openapi.json", "/", "/healthz", "/languages", "/static/page.js"):
            answer = client.get(path)
            assert answer.status_code == 200
            assert not [text for text in shown if text in answer.text]


@pytest.mark.parametrize(
    "text", ["{", "{}", "[1]", '["a"]', '[{"text": 1}]', '[{"text": "a", "path": "b"}]', "[" * 9999]
)
def test_examples_that_were_not_written_here_are_not_shown(copied, text):
    other = copied()
    other.folder.path.joinpath(EXAMPLES).write_text(text)
    assert TASKS["translation"].examples(other) == []


def test_examples_are_short_enough_to_be_looked_at(copied):
    short = [source for source, _ in pairs(9, 2) if len(source) < 9][:4]
    lines = ["a " * 200, "a b c d e f", *short]
    other = copied()
    save_examples(other.folder.path, [{"text": line} for line in lines])
    assert Service(other, None, Limits(look_tokens=5), None).examples() == short
    assert Service(other, None, Limits(), None).examples() == lines[1:]


def test_words_that_the_model_has_never_seen_are_named(client, run):
    sent = client.post("/api/explain", json={"source": "a John b Mary b"}).json()
    assert sent["unknown"] == ["John", "Mary"] == run.unknown_words("a John b Mary b")
    assert sent["source_tokens"].count("<unk>") == 2
    swap = {"kind": "swap", "first": 1, "second": 3}
    sent = client.post("/api/explain", json={"source": "a John b Mary b", "edits": [swap]}).json()
    assert sent["unknown"] == ["Mary", "John"]  # as they stand now
    assert client.post("/api/explain", json={"source": "a b"}).json()["unknown"] == []
    *_, (_, done) = events(client.get("/api/stream?source=a+John%0Ab+x").text)
    assert done["unknown"] == ["John", "x"]


def test_a_translation_that_is_cut_off_is_told_with_it(client, run):
    hot = {"kind": "temperature", "value": 8.0, "name": None}
    ablate = {"kind": "ablate", "name": "decoder.self", "layer": 0, "head": 1}
    sent = client.post("/api/explain", json={"source": "a b c d", "edits": [ablate, hot]}).json()
    (note,) = run.explain("a b c d", edit=[ablate, hot]).warnings
    assert sent["notes"] == [note]
    decode = run.recipe.decode.model_copy(update={"max_len": 2})
    short = dataclasses.replace(run, recipe=run.recipe.model_copy(update={"decode": decode}))
    *_, (done, *_) = greedy_events(short, "a b c d\na b c")
    assert "2 translations cut off after 2 tokens" in done["notes"][0]
    *_, (_, done) = events(client.get("/api/stream", params={"source": "a b"}).text)
    assert done["notes"] == []
    assert client.post("/api/explain", json={"source": "a b"}).json()["notes"] == []


def test_words_to_choose_from_are_those_that_can_be_said(client, run):
    words = client.get("/api/words").json()
    assert {"a", "b", "</s>"} <= set(words)
    assert not {"<pad>", "<s>"} & set(words)
    assert words == sorted(words)
    assert client.get("/api/words?begins=b").json() == ["b"]
    assert client.get("/api/words?begins=never").json() == []
    assert client.get("/api/words", params={"begins": "x" * 101}).status_code == 422


def test_the_beam_is_searched_for_under_the_edits(client, run):
    edit = {"kind": "temperature", "value": 8.0, "name": None}
    forced = {"kind": "force_token", "position": 1, "token": "e"}
    plain = client.post("/api/beam", json={"source": "a b c"}).json()
    for edits in ([edit], [edit, forced]):
        sent = client.post("/api/beam", json={"source": "a b c", "edits": edits}).json()
        assert sent == json.loads(json.dumps(run.beam("a b c", edit=edits).as_json()))
        assert sent != plain
    wrong = {"kind": "ablate", "name": "nose", "layer": 0, "head": 0}
    assert client.post("/api/beam", json={"source": "a", "edits": [wrong]}).status_code == 422


def test_info_says_what_the_model_knows_and_how_heads_are_measured(client, run):
    info = client.get("/api/info").json()
    n_words = run.tokenizers.source.n_vocab - len(SPECIALS)
    assert info["knows"].startswith(f"{n_words} words")
    assert "in lower case, without punctuation" in info["knows"]
    assert info["measures"] == [column._asdict() for column in COLUMNS]
    assert info["antecedents"] is None  # this world has none


def test_the_head_that_finds_antecedents_is_told_with_its_score(run, tmp_path):
    direction = {"direction": "en-fr", "world": "sentences"}
    data = run.recipe.data.model_copy(update=direction)
    folder = RunFolder(tmp_path)
    other = dataclasses.replace(
        run, folder=folder, recipe=run.recipe.model_copy(update={"data": data})
    )
    assert antecedents(other) is None  # the run is not at its end
    scores = {
        "antecedent_accuracy": 0.45,
        "antecedent_accuracy_by": "encoder.self layer 1 head 3",
        "antecedent_accuracy_shuffled": 0.1,
    }
    folder.scores.write_text(json.dumps({"scores": {"test": scores}}))
    assert antecedents(other) == {
        "name": "encoder.self",
        "layer": 1,
        "head": 3,
        "share": 0.45,
        "shuffled": 0.1,
        "rule": None,  # a run from before, whose scores have none
        "pronouns": ("it", "they", "he", "she"),
        "written": ("il", "elle", "ils", "elles"),
    }
    ruled = {**scores, "antecedent_accuracy_rule": 0.5}
    folder.scores.write_text(json.dumps({"scores": {"test": ruled}}))
    assert antecedents(other)["rule"] == 0.5
    mean = {**scores, "antecedent_accuracy_by": "encoder.self layer 0 mean"}
    folder.scores.write_text(json.dumps({"scores": {"test": mean}}))
    assert antecedents(other)["head"] is None
    for nothing in ({}, [], {"scores": []}, {"scores": {"test": 1}}):
        folder.scores.write_text(json.dumps(nothing))
        assert antecedents(other) is None


@pytest.mark.parametrize("direction", ["en-fr", "fr-en"])
def test_pronouns_are_those_of_the_world(direction):
    pairs = load_records(
        load_recipe("transformer", [f"direction={direction}"]).data, "pair"
    ).splits["valid"]
    found = {split(pair.source)[at] for pair in pairs for at, _ in pair.antecedents or ()}
    assert found == set(PRONOUNS[direction[:2]])


def test_the_beam_sent_is_the_tree_of_the_run(client, run):
    asked = {"source": "a b c", "n_beams": 3, "prefix": ["b"]}
    tree = run.beam("a b c", n_beams=3, prefix=("b",)).as_json()
    assert client.post("/api/beam", json=asked).json() == json.loads(json.dumps(tree))
    assert client.post("/api/beam", json={"source": "a b"}).json()["n_beams"] == 4
    for wrong in ({"n_beams": 99}, {"n_beams": 0}, {"prefix": ["never seen"]}, {"prefix": "b"}):
        assert client.post("/api/beam", json={"source": "a b", **wrong}).status_code == 422


def test_a_prefix_that_the_model_has_no_places_for_is_refused(settings, tmp_path):
    few = {"positions": "learned", "max_len": 16}
    small = {**settings, "model": {**settings["model"], **few}}
    train(recipe_from({**small, "train": {**settings["train"], "max_steps": 1}}), tmp_path / "run")
    app = make_app(regard.load(tmp_path / "run", device="cpu"))
    with TestClient(app, base_url="http://localhost") as client:
        answer = client.post("/api/beam", json={"source": "a b", "prefix": ["a"] * 20})
    assert answer.status_code == 422
    assert "16 places" in answer.json()["error"]


def test_heads_are_measured_once_by_a_process_of_their_own(client, run, monkeypatch):
    expected = as_json(head_measures(run, load_records(run.recipe.data, "pair")).as_json())
    progress = {"state": "idle", "done": 0, "of": 0}
    assert client.get("/api/heads/progress").json() == progress
    assert client.get("/api/heads").content == expected
    monkeypatch.setattr("sys.executable", "nothing to start")
    assert client.get("/api/heads").content == expected
    assert client.get("/api/heads/progress").json() == {"state": "done", "done": 6, "of": 6}


def test_while_heads_are_measured_it_is_told_how_far_that_is(run, monkeypatch):
    said = "import sys, time; print('2 of 6', file=sys.stderr, flush=True); time.sleep(30)"
    start = asyncio.create_subprocess_exec

    async def other(_program, *_words, **how):
        return await start(sys.executable, "-c", said, **how)

    async def told():
        measuring = HeadMeasuring(run, seconds=30)
        waiting = asyncio.create_task(measuring.result())
        while not measuring.progress()["done"]:
            await asyncio.sleep(0.02)
        found = measuring.progress()
        measuring.close()
        await asyncio.gather(waiting, return_exceptions=True)
        return found, measuring.progress()["state"]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", other)
    assert asyncio.run(told()) == ({"state": "measuring", "done": 2, "of": 6}, "idle")


def test_heads_without_their_data_are_not_there(run, monkeypatch):
    def gone(_settings, _kind):
        raise DataError("secret place")

    monkeypatch.setattr("regard.tasks.translation.load_records", gone)
    assert main(str(run.folder.path), "cpu") == CANNOT
    measuring = HeadMeasuring(run, seconds=30)
    measuring.words = ["nowhere", "cpu"]
    with pytest.raises(RefusedError, match="cannot be measured") as refused:
        asyncio.run(measuring.result())
    assert refused.value.status == 404


@pytest.mark.parametrize(("error", "times"), [(RefusedError(404, "none"), 1), (BusyError(), 2)])
def test_whoever_waits_for_the_heads_gets_the_same_refusal(run, monkeypatch, error, times):
    begun = []

    async def fails(_self):
        begun.append(1)
        await asyncio.sleep(0.01)
        raise error

    async def asked():
        measuring = HeadMeasuring(run, seconds=30)
        found = [
            await asyncio.gather(*some, return_exceptions=True)
            for some in (
                [measuring.result() for _ in range(5)],
                [measuring.result()],
            )
        ]
        return [one for some in found for one in some]

    monkeypatch.setattr(HeadMeasuring, "_made", fails)
    assert asyncio.run(asked()) == [error] * 6
    assert len(begun) == times


def test_a_client_that_goes_leaves_the_heads_to_the_others(run, monkeypatch):
    async def slow(_self):
        await asyncio.sleep(0.05)
        return b"{}"

    async def asked():
        measuring = HeadMeasuring(run, seconds=30)
        first, second = (asyncio.create_task(measuring.result()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    monkeypatch.setattr(HeadMeasuring, "_made", slow)
    assert asyncio.run(asked()) == b"{}"


def test_nobody_waits_for_the_heads_when_the_server_ends_or_the_time_is_over(run):
    async def ended():
        measuring = HeadMeasuring(run, seconds=30)
        waiting = asyncio.create_task(measuring.result())
        await asyncio.sleep(0.2)
        measuring.close()
        await waiting

    with pytest.raises(BusyError, match="ending"):
        asyncio.run(ended())
    with pytest.raises(BusyError, match="took more"):
        asyncio.run(HeadMeasuring(run, seconds=0.2).result())


# ------------------------------------------------------------------ streaming


def events(text):
    """(name, data) of each event."""
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    return [
        (first.removeprefix("event: "), json.loads(second.removeprefix("data: ")))
        for first, second in blocks
    ]


def test_a_line_without_a_known_word_is_refused(client):
    for answer in (
        client.get("/api/stream", params={"source": "z"}),
        client.post("/translate", json={**JSON, "q": ["a b", "z z"]}),
    ):
        assert answer.status_code == 422
        assert "the model knows no word of 'z" in answer.json()["error"]


@pytest.mark.parametrize("text", [*TEXTS[:6], "a b c d e a b c", "a z", " "])
def test_a_stream_grows_token_by_token_into_what_greedy_search_says(client, run, text):
    answer = client.get("/api/stream", params={"source": text})
    assert answer.headers["content-type"].startswith("text/event-stream")
    *tokens, (last, done) = events(answer.text)
    assert last == "done"
    assert done["translation"] == run.translate(text, beam=1)
    ids = run.hypotheses([text], beam=1)[0][0].ids
    assert [data["token"] for _, data in tokens] == run.tokenizers.target.tokens(ids)
    assert [data["text"] for _, data in tokens] == [
        run.tokenizers.target.decode(ids[: i + 1]) for i in range(len(ids))
    ]


def test_a_stream_of_several_lines_grows_line_by_line(client, run):
    text = f"\n{TEXTS[0]}\n\n{TEXTS[1]}"
    *tokens, (_, done) = events(client.get("/api/stream", params={"source": text}).text)
    first, second = (run.translate(one, beam=1) for one in TEXTS[:2])
    assert done["translation"] == f"\n{first}\n\n{second}"
    seen = [data["text"] for _, data in tokens]
    assert f"\n{first}" in seen
    assert seen[-1] == done["translation"]
    assert all(done["translation"].startswith(one) for one in seen)


@pytest.mark.parametrize(("max_len", "text"), [(64, "a"), (64, "a b c"), (9, "a b c")])
def test_a_stream_without_end_stops_where_greedy_search_stops(run, monkeypatch, max_len, text):
    def endless(logits, *control):
        log_probs = next_log_probs(logits, *control)
        log_probs[:, END_ID] = -torch.inf
        return log_probs

    monkeypatch.setattr("regard.decoding.greedy.next_log_probs", endless)
    monkeypatch.setattr("regard.decoding.greedy.can_stay", lambda *_, **__: False)  # step by step
    decode = run.recipe.decode.model_copy(update={"max_len": max_len})
    longer = dataclasses.replace(run, recipe=run.recipe.model_copy(update={"decode": decode}))
    *_, (done, *_) = greedy_events(longer, text)
    assert done["translation"] == longer.translate(text)


def test_a_stream_that_breaks_says_so(client, monkeypatch):
    seen = []

    def breaking(*given):
        seen.append(1)
        if len(seen) > 1:
            raise RuntimeError("secret")
        return next_log_probs(*given)

    monkeypatch.setattr("regard.decoding.greedy.next_log_probs", breaking)
    answer = client.get("/api/stream", params={"source": TEXTS[0]})
    assert events(answer.text)[-1][0] == "error"
    assert "secret" not in answer.text


# ------------------------------------------------------------------ guards


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST:1"])
def test_this_machine_is_answered_on_loopback(client, host):
    assert client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "10.0.0.1:8000"])
def test_a_name_that_only_points_here_is_not_answered_on_loopback(client_of, client, host):
    assert client.get("/healthz", headers={"Host": host}).status_code == 421
    with client_of(loopback=False, api_key="k") as public:
        assert public.get("/healthz", headers={"Host": host}).status_code == 200


def test_a_key_is_asked_of_all_that_costs_work(client_of):
    with client_of(api_key="secret") as client:
        for path in ("/", "/docs", "/healthz", "/static/page.js", "/languages", "/openapi.json"):
            assert client.get(path).status_code == 200
        for path in ("/api/info", "/api/heads", "/api/stream?source=a", "/metrics"):
            assert client.get(path).status_code == 401
        for path in ("/api/explain", "/api/beam"):
            answer = client.post(path, json={"source": "a"})
            assert answer.status_code == 401
            assert answer.headers["WWW-Authenticate"] == "Bearer"
        body = {"q": "a", **JSON}
        right, wrong = {"Authorization": "Bearer secret"}, {"Authorization": "Bearer guess"}
        assert client.post("/translate", json=body).status_code == 401
        assert client.post("/translate", json=body, headers=wrong).status_code == 401
        assert client.post("/translate", json={**body, "api_key": "guess"}).status_code == 401
        assert client.post("/translate", json=body, headers=right).status_code == 200
        assert client.post("/translate", json={**body, "api_key": "secret"}).status_code == 200
        assert client.get("/api/info", headers=right).status_code == 200


def test_a_key_may_stand_in_the_body_and_a_wrong_one_is_called_wrong(client_of):
    with client_of(api_key="secret") as client:
        for path in ("/api/explain", "/api/beam", "/translate", "/detect"):
            body = {"q": "a", **JSON} if path in ("/translate", "/detect") else {"source": "a"}
            assert client.post(path, json={**body, "api_key": "secret"}).status_code == 200
            none = client.post(path, json=body)
            wrong = client.post(path, json={**body, "api_key": "guess"})
            assert (none.status_code, wrong.status_code) == (401, 401)
            assert none.json()["error"].startswith("this server asks for a key")
            assert wrong.json()["error"].startswith("that key is wrong")
            assert client.post(path, json={**body, "api_key": ["secret"]}).status_code in (401, 422)
        header = {"Authorization": "Bearer guess"}
        assert "wrong" in client.get("/api/info", headers=header).json()["error"]
        assert "asks for a key" in client.get("/api/info").json()["error"]


def test_no_other_site_is_let_in(client):
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    assert client.options("/translate", headers=headers).status_code == 403
    answer = client.get("/healthz", headers=headers)
    assert not [name for name in answer.headers if name.startswith("access-control")]
    for one in (answer, client.get("/healthz", headers={"Host": "evil.example"})):
        assert "default-src 'self'" in one.headers["content-security-policy"]
        assert "unsafe" not in one.headers["content-security-policy"]


def test_a_body_that_is_too_large_is_not_read(client_of):
    with client_of(limits=Limits(body_bytes=100)) as client:
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        assert client.post("/translate", content=b"q" * 101, headers=form).status_code == 413
        chunks = (b"q" * 60 for _ in range(2))  # its length is not told beforehand
        assert client.post("/api/explain", content=chunks, headers=form).status_code == 413


def test_a_length_that_is_no_number_is_no_fault_of_the_server(run):
    """Servers differ in what they let through; this one is given it as it is."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": b""}

    headers = [(b"host", b"localhost"), (b"content-length", "²".encode("latin-1"))]
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/healthz",
        "query_string": b"",
        "headers": headers,
    }
    asyncio.run(make_app(run)(scope, receive, send))
    assert sent[0]["status"] == 200


def test_a_client_that_dawdles_is_given_up(run):
    app = make_app(run, limits=Limits(arrival=0.2))
    with serving(app) as (_, address):
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as line:
            line.sendall(
                b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
            )
            assert line.recv(1000).startswith(b"HTTP/1.1 408")


def busy(answer):
    return answer.status_code == 503 and int(answer.headers["Retry-After"]) >= 1


def test_too_long_a_wait_is_503_and_the_server_recovers(client_of, gate):
    with client_of(limits=Limits(seconds=0.3)) as client:
        assert busy(client.post("/translate", json={"q": "a", **JSON}))
        gate.set()
        tries = (client.post("/translate", json={"q": "a", **JSON}) for _ in range(100))
        assert any(answer.status_code == 200 for answer in tries)


def test_too_many_waiting_are_503_and_those_before_are_answered(run, gate):
    app = make_app(run, limits=Limits(queue=2, window=0.0))

    async def story():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

            def ask(q):
                return asyncio.create_task(client.post("/translate", json={"q": q, **JSON}))

            first = ask("a")
            assert await asyncio.to_thread(gate.began.wait, 30)
            second = ask(["b", "c"])  # fills the queue
            while "regard_waiting 1.0" not in (await client.get("/metrics")).text:
                await asyncio.sleep(0.01)
            assert busy(await ask("d"))
            assert busy(await client.get("/api/stream?source=a"))
            gate.set()
            return await asyncio.gather(first, second)

    assert [answer.status_code for answer in asyncio.run(story())] == [200, 200]


def test_one_request_too_many_at_once_is_503(run, gate):
    app = make_app(run, limits=Limits(requests=2))

    async def story():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            tasks = [
                asyncio.create_task(client.post("/translate", json={"q": "a", **JSON}))
                for _ in range(2)
            ]
            assert await asyncio.to_thread(gate.began.wait, 30)
            assert busy(await client.get("/healthz"))
            gate.set()
            await asyncio.gather(*tasks)
            assert (await client.get("/healthz")).status_code == 200

    asyncio.run(story())


# ------------------------------------------------------------------ the server itself


def test_a_fault_inside_is_one_line_in_the_log_and_nothing_to_the_client(
    client, monkeypatch, caplog
):
    def broken(_self, _source, _target=None, edit=()):
        raise RuntimeError("secret\nplace")

    monkeypatch.setattr(Run, "explain", broken)
    answer = client.post("/api/explain", json={"source": "a"})
    assert answer.status_code == 500
    assert "secret" not in answer.text
    lines = [record.getMessage() for record in caplog.records if record.name == "regard.server"]
    assert lines == ["POST '/api/explain': RuntimeError: secret place"]
    assert client.get("/healthz").status_code == 200


def test_health_and_metrics(client, run):
    client.post("/translate", json={"q": ["a", "b"], **JSON})
    client.get("/nowhere")
    about = {"name": run.folder.path.name, "task": "translation", "version": regard.__version__}
    assert client.get("/healthz").json() == {"status": "ok", **about}
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'regard_requests_total{path="/translate",status="200"} 1.0' in answer.text
    assert 'regard_requests_total{path="other",status="404"} 1.0' in answer.text
    assert "regard_batch_texts_sum 2.0" in answer.text


def test_pages_and_files_need_nothing_from_outside(client):
    manual = client.get("/docs").text
    for path in client.get("/openapi.json").json()["paths"]:
        assert path in manual
    assert "//" not in manual.replace("<!--", "")
    assert client.get("/favicon.ico").headers["content-type"] == "image/svg+xml"
    for path in ("/", "/docs", "/healthz", "/favicon.ico"):
        head = client.head(path)
        assert (head.status_code, head.content) == (200, b"")
    assert client.get("/static/draw.js").headers["content-type"].startswith("text/javascript")
    for missing in ("nothing.js", "%00", "..%2fapp.py", "%2e%2e/app.py", ""):
        assert client.get(f"/static/{missing}").status_code == 404
    assert client.get("/").headers["content-type"].startswith("text/html")
    assert client.get("/static/manual.css").headers["content-type"].startswith("text/css")
    for name, kind in (("theme.js", "text/javascript"), ("theme.css", "text/css")):
        assert client.get(f"/static/{name}").headers["content-type"].startswith(kind)


def test_the_commands_of_docs_are_found_once_and_by_the_thread_of_the_model(client, monkeypatch):
    threads = []

    def noted(_task, _run):
        threads.append(threading.current_thread().name)
        return ["a b"]

    monkeypatch.setattr(type(TASKS["translation"]), "examples", noted)
    pages = [client.get("/docs").text for _ in range(3)]
    assert threads == [MODEL]
    assert "a b" in pages[0]
    assert len({*pages}) == 1


@pytest.mark.parametrize("key", [None, "secret"])
def test_every_path_has_a_command_that_works_as_it_stands(client_of, key):
    with client_of(api_key=key) as client:
        manual = client.get("/docs").text
        blocks = [html.unescape(part.partition("</pre>")[0]) for part in manual.split("<pre>")[1:]]
        commands = [shlex.split(block) for block in blocks if block.startswith("curl ")]
        paths = client.get("/openapi.json").json()["paths"]
        addresses = [words[-1].removeprefix("127.0.0.1:8000") for words in commands]
        filled = [path.replace("{name}", "short") for path in paths]  # the one model there is
        assert [one.partition("?")[0] for one in addresses] == filled
        for words, address in zip(commands, addresses, strict=True):
            if address == "/api/heads":
                continue  # it takes seconds, and no field
            headers = [words[i + 1].split(": ") for i, word in enumerate(words) if word == "-H"]
            named = {name: value.replace("KEY", "secret") for name, value in headers}
            body = words[words.index("-d") + 1] if "-d" in words else None
            method = "POST" if body else "GET"
            assert client.request(method, address, content=body, headers=named).is_success
        assert "<li><code>q</code>: A text, or a list of texts; each line is a sentence.</li>" in (
            manual
        )
        assert "<code>edits</code>: What if? (may be left out)" in manual


def posted(address):
    """The status and the answer for a text."""
    request = urllib.request.Request(
        f"{address}/translate",
        json.dumps({"q": TEXTS[0], **JSON}).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.status, json.load(error)


def test_a_server_that_ends_answers_what_it_has_begun(run, gate):
    with ThreadPoolExecutor() as pool, serving(make_app(run)) as (server, address):
        answer = pool.submit(posted, address)
        assert gate.began.wait(30)
        server.should_exit = True  # what Ctrl-C sets
        time.sleep(0.3)
        gate.set()
        assert answer.result(30) == (200, {"translatedText": run.translate(TEXTS[0])})


def test_a_server_that_ends_does_not_wait_for_ever(run, gate):
    with ThreadPoolExecutor() as pool, serving(make_app(run), drain=1) as (server, address):
        answer = pool.submit(posted, address)
        assert gate.began.wait(30)
        server.should_exit = True
        assert answer.result(30) == (503, {"error": "the server is ending"})
        gate.set()
