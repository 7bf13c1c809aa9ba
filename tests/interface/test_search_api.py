"""Where else does a head do this? From Python and over the network, against a look at each text."""

import asyncio
import json
from itertools import count
from types import SimpleNamespace

import pytest
from starlette.testclient import TestClient
from text_runs import short_run

import regard
from regard.core.errors import ConfigError, DataError
from regard.server.app import make_app
from regard.server.errors import BusyError
from regard.server.held_out import HeldOutReading, main
from regard.server.limits import Limits
from regard.server.processes import CANNOT
from regard.tasks.base import TASKS
from regard.tasks.search import HeldOutTexts, SearchedTexts, held_out_texts

HEAD = {"name": "decoder.cross", "layer": 0, "head": 1}
VOWELS = {"a": frozenset({"vowel"}), "e": frozenset({"vowel"})}


@pytest.fixture(scope="module")
def run(run_path):
    return regard.load(run_path, device="cpu")


@pytest.fixture
def read(run, monkeypatch):
    """Texts are read here, without a process, and only 12."""
    known = held_out_texts(run, n=12)

    async def texts(_self):
        return known

    monkeypatch.setattr(HeldOutReading, "texts", texts)


def by_looking(run, rows, columns, n):
    """(text, t, s, weight) of all texts, the largest weight first, as one would by hand."""
    found = []
    for pair in TASKS["translation"].records_of(run, "valid")[:n]:
        look = run.explain(pair.source)
        weights = look.weights("decoder.cross", 0)[1]
        pairs = [
            (float(weights[t, s]), t, s)
            for t, row in enumerate(look.target_tokens)
            for s, column in enumerate(look.source_tokens)
            if row in rows and column in columns
        ]
        if pairs:
            weight, t, s = max(pairs, key=lambda one: one[0])
            found.append((pair.source, t, s, weight))
    return sorted(found, key=lambda one: -one[3])


def test_it_finds_what_a_look_at_every_text_finds(run):
    found = run.search("a", "e", **HEAD, n=12)
    expected = by_looking(run, {"a"}, {"e"}, 12)
    assert expected
    assert [(one.source, one.t, one.s) for one in found.found] == [one[:3] for one in expected][:10]
    assert found.weights == pytest.approx([one[3] for one in expected], abs=1e-6)
    assert {(one.row, one.column) for one in found.found} == {("a", "e")}
    assert str(found).splitlines()[0].startswith("decoder.cross, layer 0, head 1: 'a' → 'e', in ")


def test_words_stand_for_their_kind_where_the_world_knows_kinds(run, monkeypatch):
    monkeypatch.setattr(SearchedTexts, "_kinds", lambda *_: VOWELS)
    found = run.search("a", "e", **HEAD, n=12)
    expected = by_looking(run, {"a", "e"}, {"a", "e"}, 12)
    assert [one.source for one in found.found] == [one[0] for one in expected][:10]
    assert found.row.kinds == ("vowel",)
    alone = run.search("a", "e", **HEAD, n=12, by="word")
    assert len(alone.weights) < len(found.weights)


@pytest.mark.parametrize(
    ("side", "token", "kinds"),
    [("target", "il", ("pronoun",)), ("source", "it", ("pronoun",)), ("source", "il", ())],
)
def test_a_side_has_the_kinds_of_its_language(side, token, kinds):
    data = SimpleNamespace(world="sentences", direction="en-fr")
    run = SimpleNamespace(recipe=SimpleNamespace(data=data))
    meant = SearchedTexts(run, "valid", HeldOutTexts([], 0))._meant(token, side, "kind")
    assert meant.kinds == kinds
    assert ("she" if side == "source" else "elles") in meant.tokens or not kinds


def test_what_cannot_be_searched_is_told(run):
    with pytest.raises(ConfigError, match="did you mean 'decoder.cross'"):
        run.search("a", "b", name="decoder.crss", n=1)
    with pytest.raises(ConfigError, match="heads 0 to 1, not 7"):
        run.search("a", "b", head=7, n=1)
    with pytest.raises(ConfigError, match="n is 1 to 1000, not 0"):
        run.search("a", "b", n=0)
    with pytest.raises(ConfigError, match="by kind or by word, not by 'sound'"):
        run.search("a", "b", by="sound")
    assert run.search("nowhere", "b", n=2).found == ()


@pytest.mark.usefixtures("read")
def test_the_server_searches_texts_that_it_looked_at_once(run, monkeypatch):
    looked = []
    explain = type(run).explain
    with TestClient(make_app(run), base_url="http://127.0.0.1") as client:
        monkeypatch.setattr(
            type(run), "explain", lambda *a, **k: looked.append(1) or explain(*a, **k)
        )
        assert client.get("/api/info").json()["searches"]
        before = len(looked)
        answers = [
            client.post("/api/search", json={**HEAD, "row": row, "column": "e"}).json()
            for row in "ab"
        ]
        assert client.get("/api/search/progress").json()["done"] == answers[0]["n"]
    assert len(looked) - before == answers[0]["n"] == answers[1]["n"]
    direct = run.search("a", "e", **HEAD, n=answers[0]["n"])
    assert answers[0]["found"] == [
        {**one._asdict(), "rows": [*one.rows], "columns": [*one.columns]} for one in direct.found
    ]


@pytest.mark.usefixtures("read")
def test_a_wrong_question_is_refused(run):
    with TestClient(make_app(run), base_url="http://127.0.0.1") as client:
        wrong = client.post("/api/search", json={**HEAD, "head": -1, "row": "a", "column": "b"})
        assert wrong.status_code == 422
        far = client.post("/api/search", json={**HEAD, "layer": 9, "row": "a", "column": "b"})
        assert far.status_code == 422
        assert "layers 0 to 0, not 9" in far.json()["error"]


def test_data_that_is_gone_is_told_without_its_name(run, monkeypatch, capsys):
    def gone(*_):
        raise DataError("there is no file secret.tsv")

    monkeypatch.setattr(type(TASKS["translation"]), "records_of", gone)
    assert main(str(run.folder.path), "cpu") == CANNOT
    assert "secret.tsv" in capsys.readouterr().err  # which nobody but the process's parent hears
    monkeypatch.setattr(HeldOutReading, "module", "regard.no_such_module")
    monkeypatch.setattr("regard.server.processes.CANNOT", 1)  # Python's own code for that
    with TestClient(make_app(run), base_url="http://127.0.0.1") as client:
        answer = client.post("/api/search", json={**HEAD, "row": "a", "column": "b"})
    assert answer.status_code == 404
    assert "data is not here" in answer.json()["error"]
    assert "regard." not in answer.text


def test_data_is_read_by_a_process_of_its_own_whose_time_is_bounded(run, monkeypatch):
    def not_here(*_):
        raise AssertionError("the server's process reads the data")

    expected = held_out_texts(run)
    monkeypatch.setattr(type(TASKS["translation"]), "records_of", not_here)
    assert asyncio.run(HeldOutReading(run, seconds=60).texts()) == expected
    with pytest.raises(BusyError, match="reading the data took more than 0.1 s"):
        asyncio.run(HeldOutReading(run, seconds=0.1).texts())


@pytest.mark.usefixtures("read")
def test_a_search_that_ran_out_of_time_says_so_and_goes_on_when_asked_again(run, monkeypatch):
    asked = {**HEAD, "row": "a", "column": "e"}
    monkeypatch.setattr("regard.server.search.time", SimpleNamespace(monotonic=count().__next__))
    app = make_app(run, limits=Limits(search_seconds=6))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        answers = [client.post("/api/search", json=asked).json() for _ in range(4)]
    assert [one["n"] for one in answers] == [5, 10, 12, 12]
    assert [one["complete"] for one in answers] == [False, False, True, True]
    assert {one["of"] for one in answers} == {12}
    assert answers[-1]["found"] == json.loads(
        json.dumps([one._asdict() for one in run.search("a", "e", **HEAD, n=12).found])
    )


@pytest.mark.usefixtures("read")
def test_a_search_without_time_for_one_text_is_tried_again(run):
    app = make_app(run, limits=Limits(search_seconds=0))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        answer = client.post("/api/search", json={**HEAD, "row": "a", "column": "e"})
    assert answer.status_code == 503
    assert "no text was looked at within 0 s" in answer.json()["error"]


def test_texts_whose_weights_are_too_many_are_told(run, monkeypatch):
    whole = run.search("a", "e", **HEAD, n=12)
    assert (whole.n, whole.of, whole.n_left_out, whole.complete) == (12, 12, 0, True)
    first = run.explain(held_out_texts(run, n=1).asked[0]["source"])
    sizes = sum(one.size for layers in first.attentions.values() for one in layers)
    monkeypatch.setattr("regard.tasks.search.MOST_WEIGHTS", sizes)
    cut = run.search("a", "e", **HEAD, n=12)
    assert (cut.n, cut.n_left_out, cut.complete) == (1, 11, True)
    assert f"without 11 texts beyond the {sizes:,} weights that are kept" in str(cut)
    monkeypatch.setattr("regard.tasks.search.MOST_WEIGHTS", 1)
    with pytest.raises(DataError, match="the weights of one text are more than the 1 that are"):
        run.search("a", "e", **HEAD, n=12)


def test_texts_that_are_too_long_are_told(run, monkeypatch):
    lengths = sorted(len(one["source"]) for one in held_out_texts(run, n=12).asked)
    monkeypatch.setattr("regard.tasks.search.LETTERS", lengths[0])
    short = run.search("a", "e", **HEAD, n=12)
    n = lengths.count(lengths[0])
    assert (short.n, short.n_passed_over, short.of, short.complete) == (n, 12 - n, 12, True)
    assert f"without {12 - n} texts that cannot be looked at" in str(short)
    assert short.as_json()["n_passed_over"] == 12 - n


@pytest.mark.parametrize(
    ("kind", "name"), [("language", "decoder.self"), ("pairs", "encoder.self")]
)
def test_runs_that_read_texts_are_searched_too(kind, name, tmp_path):
    run = regard.load(short_run(kind, tmp_path), device="cpu")
    found = run.search("a", "c", name=name, layer=1, n=5)
    assert found.weights
    best = found.found[0]
    look = run.explain(best.source, best.other) if best.other else run.explain(best.source)
    assert look.weights(name, 1)[0, best.t, best.s] == pytest.approx(best.weight, abs=1e-5)
