"""``/api/importance``: on which heads a written token rests."""

import pytest
from starlette.testclient import TestClient
from text_runs import short_run

import regard
from regard.server import importance as served
from regard.server.app import make_app
from regard.tasks.importance import ForcedAnswer


@pytest.fixture(scope="module")
def run(run_path):
    return regard.load(run_path, device="cpu")


def client_of(run):
    return TestClient(make_app(run), base_url="http://127.0.0.1:8000")


@pytest.fixture
def client(run):
    with client_of(run) as client:
        yield client


@pytest.fixture
def measured(monkeypatch):
    """The answers whose heads were ablated, one a measuring."""
    found, passes = [], ForcedAnswer.passes

    def noted(self):
        found.append(self.tokens)
        return passes(self)

    monkeypatch.setattr(ForcedAnswer, "passes", noted)
    return found


def ask(client, **body):
    return client.post("/api/importance", json=body)


def test_a_token_is_told_with_its_probability_without_each_head(client, run):
    found = ask(client, source="a b c", step=1).json()
    expected = run.importance("a b c", step=1)
    assert found["token"] == expected.token == run.explain("a b c").target_tokens[1]
    assert found["probability"] == pytest.approx(expected.probability)
    heads = [(one["attention"], one["layer"], one["head"]) for one in found["heads"]]
    assert heads == [one[:3] for one in expected.heads]
    assert len({*heads}) == 6
    told = [one["without"] for one in found["heads"]]
    assert told == pytest.approx([one.without for one in expected.heads])


def test_all_tokens_of_an_answer_are_measured_once(client, measured):
    asked = {"source": "a b c", "target": "c b a"}
    said = [ask(client, **asked, step=step).json()["token"] for step in (0, 3, 1, 0)]
    assert said == ["c", "</s>", "b", "c"]
    assert len(measured) == 1
    ask(client, **asked, step=0, packed={"name": "decoder.cross", "layer": 0})  # only how it shows
    assert len(measured) == 1
    ask(client, **asked, step=0, edits=[{"kind": "temperature", "value": 3}])
    assert len(measured) == 2


def test_only_so_many_answers_are_kept(client, measured, monkeypatch):
    monkeypatch.setattr(served, "KEPT", 2)
    for source in ("a", "b", "c", "c", "a"):
        assert ask(client, source=source, step=0).status_code == 200
    assert len(measured) == 4  # the first was forgotten


def test_edits_hold_while_heads_are_weighed(client, run):
    edit = {"kind": "ablate", "name": "decoder.cross", "layer": 0, "head": 1}
    found = ask(client, source="a b c", target="c b a", step=0, edits=[edit]).json()
    plain = run.importance("a b c", target="c b a", step=0)
    (without,) = (one.without for one in plain.heads if one[:3] == ("decoder.cross", 0, 1))
    assert found["probability"] == pytest.approx(without, rel=1e-4)
    (same,) = (
        one["without"]
        for one in found["heads"]
        if (one["attention"], one["head"]) == ("decoder.cross", 1)
    )
    assert same == pytest.approx(found["probability"], rel=1e-4)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"source": "a b c", "target": "c b a", "step": 4}, "step is 0 to 3, of 'c' to '</s>'"),
        ({"source": "a b c", "step": -1}, "step must be at least 0"),
        ({"source": "a b c", "step": True}, "step must be a number, not true or false"),
        ({"source": "a b c"}, "step is missing"),
    ],
    ids=str,
)
def test_a_bad_step_is_refused_in_one_line(client, body, why):
    response = ask(client, **body)
    assert response.status_code == 422
    assert response.json()["error"].startswith(why)
    assert "\n" not in response.json()["error"]


@pytest.mark.parametrize(
    ("kind", "body", "outcome"),
    [
        ("classification", {"source": "a b"}, "label"),
        ("masked", {"source": "a <mask> b"}, "word"),
        ("language", {"source": "a c", "target": " e g"}, "token"),
    ],
)
def test_labels_masks_and_texts_that_go_on_rest_on_heads_too(kind, body, outcome, tmp_path):
    run = regard.load(short_run(kind, tmp_path), device="cpu")
    given = {key: value for key, value in body.items() if key != "source"}
    look = run.explain(body["source"], **given)
    with client_of(run) as client:
        found = ask(client, **body, step=0).json()
        beyond = ask(client, **body, step=9)
    said = {"label": look.answer, "token": "e", "word": None}[outcome]
    if outcome == "word":
        said = look.outcome.places[0].choices[0].text
    assert found["token"] == said
    if outcome == "token":
        assert found["probability"] == pytest.approx(look.written.probabilities[0], rel=1e-4)
    else:
        best = look.outcome.places[0].choices[0].probability
        assert found["probability"] == pytest.approx(best, rel=1e-4)
    for one in found["heads"]:
        edit = {
            "kind": "ablate",
            "name": one["attention"],
            "layer": one["layer"],
            "head": one["head"],
        }
        alone = run.explain(body["source"], **given, edit=edit)
        if outcome == "token":
            probability = alone.written.probabilities[0]
            assert one["without"] == pytest.approx(probability, rel=1e-4)
        elif outcome == "label":
            shares = {choice.text: choice.probability for choice in alone.outcome.places[0].choices}
            assert one["without"] == pytest.approx(shares[said], rel=1e-4)
    assert beyond.status_code == 422
    assert "step is 0" in beyond.json()["error"]


def test_a_run_that_says_nothing_probable_has_no_such_path_and_tells_why(tmp_path):
    run = regard.load(short_run("similarity", tmp_path), device="cpu")
    with client_of(run) as client:
        assert ask(client, source="a b", step=0).status_code == 404
        assert not client.get("/api/info").json()["weighs"]
    with pytest.raises(regard.ConfigError, match="a run of the task similarity gives neither"):
        run.importance("a b")
