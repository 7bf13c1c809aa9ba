"""Questions from files to answers: training, evaluating, the command, the server, bad input."""

import json
import random

import pytest
import torch
import yaml
from encoders import SMALL, TRAIN
from fastapi.testclient import TestClient

import regard
from regard.core.errors import ConfigError, DataError
from regard.recipes.recipe import load_recipe
from regard.runs.prepare import prepare
from regard.runs.train import train
from regard.server.app import make_app
from regard.tasks.recipe import recipe_from

NAMES = "ann bob eve dan kim leo".split()


def questions(n, seed):
    """*ann has b. eve has d.* who has d? eve."""
    rng = random.Random(seed)
    rows = []
    for _ in range(n):
        people, things = rng.sample(NAMES, 3), rng.sample("abcdef", 3)
        text = " ".join(f"{p} has {t}." for p, t in zip(people, things, strict=True))
        which = rng.randrange(3)
        rows.append(f"who has {things[which]}?\t{text}\t{people[which]}\n")
    return "".join(rows)


def settings(folder, **changes):
    for name, seed, size in (("train", 1, 120), ("valid", 2, 30), ("test", 3, 30)):
        (folder / f"{name}.tsv").write_text(questions(size, seed))
    files = {name: f"{name}.tsv" for name in ("train", "valid", "test")}
    return {
        "task": "answers",
        "data": {"folder": str(folder), **files, **changes.pop("data", {})},
        "text": {"kind": "word"},
        "model": {"preset": "bert", **SMALL, "max_len": 32, **changes.pop("model", {})},
        "train": {**TRAIN, **changes.pop("train", {})},
    }


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A short run: good for little, but whole."""
    folder = tmp_path_factory.mktemp("answers")
    train(recipe_from(settings(folder)), folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def answerer(path):
    return regard.load(path, device="cpu")


TEXT = "ann has b. eve has d."


def test_a_run_folder_holds_what_it_should(path, answerer):
    names = {one.name for one in path.iterdir()}
    assert names >= {"config.yaml", "model.safetensors", "tokenizer.json", "report.html"}
    scores = json.loads((path / "scores.json").read_text())
    assert scores["scores"]["test"]["n"] == 30
    assert scores["estimate"]["flops"] == pytest.approx(scores["measured"]["flops"], rel=0.3)
    assert answerer.facts()["task"] == "answers"
    assert repr(answerer).startswith(f"<Answerer {path}: bert, answers, ")
    assert "exact match" in (path / "report.html").read_text()


def test_evaluating_again_gives_the_scores_of_the_report(path, say):
    known = json.loads((path / "scores.json").read_text())["scores"]["test"]
    code, out, _ = say("evaluate", path, "--json")
    assert code == 0
    assert json.loads(out) == pytest.approx(known)
    assert {*known} == {"task", "split", "n", "exact_match", "f1"}
    code, out, _ = say("info", path, "--json")
    assert (code, json.loads(out)["scores"]["test"]) == (0, known)


def test_one_question_or_many_about_one_text_or_many(answerer):
    one = answerer.answer("who has d?", TEXT)
    assert TEXT[one.start : one.end] == one.text
    assert 0 < one.probability < 1
    both = answerer.answer(["who has d?", "who has b?"], TEXT)
    assert both[0] == pytest.approx(one)
    assert answerer.answer(["who has d?"], [TEXT])[0].text == one.text
    several = answerer.answer("who has d?", TEXT, top=4)
    assert len(several) == 4
    assert several[0].text == one.text
    with pytest.raises(DataError, match="1 questions about 2 texts"):
        answerer.answer(["who has d?"], [TEXT, TEXT])
    for bad in (("", TEXT), (" ", TEXT)):
        with pytest.raises(DataError, match="the question is empty; ask something"):
            answerer.answer(*bad)
    with pytest.raises(DataError, match="the text is empty; give one that has the answer"):
        answerer.answer("who?", "\n")
    with pytest.raises(ConfigError, match="0 answers were asked for"):
        answerer.answer("who?", TEXT, top=0)


def test_a_text_may_be_longer_than_the_model_reads(answerer):
    text = " ".join(f"{NAMES[i % 6]} has {'abcdef'[i % 5]}." for i in range(60))
    one = answerer.answer("who has d?", text)
    assert text[one.start : one.end] == one.text
    assert len(answerer.tokenizer.encode(text)) > 5 * answerer.model.config.max_len


def test_the_command_answers_from_flags_files_and_lines(path, answerer, say, tmp_path):
    best = answerer.answer("who has d?", TEXT)
    line = f"{best.text}\t{best.probability:.4f}\n"
    (tmp_path / "text.txt").write_text(TEXT + "\n")
    asked = ("--question", "who has d?")
    assert say("answer", path, *asked, "--text", TEXT)[:2] == (0, line)
    assert say("answer", path, *asked, "--file", tmp_path / "text.txt")[:2] == (0, line)
    assert say("answer", path, "--text", TEXT, lines="who has d?\n")[:2] == (0, line)
    two = f"who has d?\t{TEXT}\nwho has b?\t{TEXT}\n"
    code, out, _ = say("answer", path, lines=two)
    assert (code, out.splitlines()[0] + "\n", out.count("\n")) == (0, line, 2)
    code, out, _ = say("answer", path, "--top", 2, lines=two)
    assert (code, [bool(x) for x in out.split("\n")]) == (0, [True, True, False] * 2 + [False])
    code, out, _ = say("answer", path, *asked, "--text", TEXT, "--top", 3, "--json")
    found = json.loads(out)
    assert {*found} == {"question", "answer", "start", "end", "probability", "answers"}
    assert len(found["answers"]) == 3
    assert found["answer"] == found["answers"][0]["answer"] == best.text
    assert TEXT[found["start"] : found["end"]] == best.text


@pytest.mark.parametrize(
    ("words", "lines", "message"),
    [
        (["--question", "who?"], "", "--question needs a text to look into: give --text or --file"),
        (["--question", " ", "--text", "a"], "", "the question is empty; ask something"),
        (["--question", "who?", "--text", " "], "", "there is not text to find the answer in"),
        (["--text", "a", "--file", "b"], "", "--text and --file are two texts: give one"),
        ([], "who?\ta\nwho?\n", "standard input, line 2: there is not text to find the answer in"),
        ([], "\ta\n", "standard input, line 1: the question is empty"),
        (["--text", "a", "--top", "0"], "", "--top"),
        (["--file", "nowhere.txt"], "", "no file nowhere.txt"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(path, say, words, lines, message):
    code, out, err = say("answer", path, *words, lines=lines)
    assert (code, err.count("\n")) == (2, 1)
    assert message in err
    assert not out.count("\n") > 1


def test_other_verbs_name_the_right_one_and_other_runs_are_refused(path, run_path, say):
    code, _, err = say("classify", path)
    assert (code, "use `regard answer` with it" in err) == (2, True)
    code, _, err = say("answer", run_path)
    assert (code, "use `regard translate` with it" in err) == (2, True)


def test_a_long_question_is_cut_and_that_is_told(path, say):
    code, _, err = say("answer", path, "--question", "who has d? " * 9, "--text", TEXT)
    assert (code, "1 question cut to half of 32 tokens" in err) == (0, True)


def test_the_server_answers(answerer):
    with TestClient(make_app(answerer, loopback=False)) as client:
        found = client.post("/api/answer", json={"question": "who has d?", "text": TEXT, "n": 3})
        assert found.status_code == 200
        told, best = found.json(), answerer.answer("who has d?", TEXT)
        assert (told["answer"], told["start"], told["end"]) == (best.text, best.start, best.end)
        assert told["probability"] == pytest.approx(best.probability)
        assert len(told["answers"]) == 3
        for wrong in (
            {"question": "who?"},
            {"question": "", "text": "a"},
            {"question": " ", "text": "a"},
            {"question": "who?", "text": " "},
            {"question": "who?", "text": "a", "n": 0},
            {"question": "who?", "text": "a" * 10_000},
            {"question": "who?", "text": "a", "more": 1},
        ):
            refused = client.post("/api/answer", json=wrong)
            assert (refused.status_code, [*refused.json()]) == (422, ["error"]), wrong
        assert "/api/answer" in client.get("/openapi.json").json()["paths"]


def test_resuming_is_exact(path, tmp_path):
    asked = recipe_from(settings(tmp_path))

    class Cut(Exception):  # noqa: N818
        pass

    def cut(line):
        if line["step"] == 15 and line["kind"] == "train":
            raise Cut

    with pytest.raises(Cut):
        train(asked, tmp_path / "again", observers=[cut])
    train(asked, tmp_path / "again", resume=True)
    first, second = (folder / "model.safetensors" for folder in (path, tmp_path / "again"))
    assert first.read_bytes() == second.read_bytes()


def test_texts_longer_than_the_model_are_learned_in_windows(tmp_path):
    asked = recipe_from(settings(tmp_path, model={"max_len": 14}))
    prepared = prepare(asked, torch.device("cpu"))
    assert any("texts read in" in note for note in prepared.notes)
    assert len(prepared.train) > prepared.size["training questions"] == 120
    trained = train(asked, tmp_path / "run")
    assert trained.evaluations["test"].scores["n"] == 30


def test_a_run_begins_as_another_and_keeps_its_head(path, tmp_path):
    asked = recipe_from(settings(tmp_path, train={"init": str(path)}))
    prepared = prepare(asked, torch.device("cpu"))
    old = regard.load(path, device="cpu").model
    assert torch.equal(prepared.model.head.to_ends.weight, old.head.to_ends.weight)


def test_a_question_whose_answer_is_not_in_its_text_is_told_by_train(tmp_path, say):
    raw = settings(tmp_path)
    bad = questions(5, 1) + "who has z?\tann has b.\tzoe\n"
    (tmp_path / "train.tsv").write_text(bad)
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(raw))
    code, _, err = say("train", tmp_path / "recipe.yaml", "--out", tmp_path / "run")
    assert (code, err.count("\n")) == (2, 1)
    assert "train.tsv:6: the answer 'zoe' is not in its text 'ann has b.'" in err


@pytest.mark.parametrize("world", ["sentences", "sentiment", "copy"])
def test_a_world_without_questions_is_refused(tmp_path, world):
    raw = settings(tmp_path)
    raw["data"] = {"world": world}
    with pytest.raises(ConfigError, match=f"world '{world}' has no questions; choose questions"):
        prepare(recipe_from(raw), torch.device("cpu"))


def test_the_recipe_makes_its_world():
    prepared = prepare(load_recipe("questions", ["n_train=40"]), torch.device("cpu"))
    assert prepared.size["training questions"] == 40
    assert not prepared.notes


def test_the_recipe_of_squads_form_reads_its_file_and_holds_paragraphs_out(path, tmp_path):
    paragraphs = [
        {
            "context": f"ann has {letter}. bob has it not.",
            "qas": [
                {"id": f"{letter}{i}", "question": "who?", "answers": [{"text": name}]}
                for i, name in enumerate(("ann", "bob"))
            ],
        }
        for letter in "abcdefghijkl"
    ]
    whole = {"data": [{"paragraphs": paragraphs}]}
    (tmp_path / "xquad.en.json").write_text(json.dumps(whole))
    changes = [f"folder={tmp_path}", f"init={path}", "hold_out=4"]
    prepared = prepare(load_recipe("xquad", changes), torch.device("cpu"))
    sizes = {name: len(split) for name, split in prepared.data.splits.items()}
    assert sizes == {"train": 16, "valid": 4, "test": 4}


def test_it_can_learn(tmp_path):
    """Eight questions, to the last."""
    changes = {"max_steps": 150, "label_smoothing": 0.0, "eval_every": 50, "lr": 1e-2}
    raw = settings(tmp_path, train=changes)
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.tsv").write_text(questions(8, 1))
    trained = train(recipe_from(raw), tmp_path / "run")
    assert trained.evaluations["test"].scores["exact_match"] == 1.0
