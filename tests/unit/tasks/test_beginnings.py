"""Encoders before their first step: what they read, what they are told by, what they cost."""

import math

import pytest
import torch
import yaml
from encoders import labelled, labelled_pairs, scored, settings
from text_runs import WRITE

import regard
from regard.cli.main import main
from regard.core.errors import CheckpointError, ConfigError
from regard.runs.prepare import prepare
from regard.runs.train import train
from regard.tasks.classification import load_labels
from regard.tasks.recipe import recipe_from

CPU = torch.device("cpu")


@pytest.mark.parametrize("n_segments", [0, 1])
@pytest.mark.parametrize("kind", ["classification", "masked"])
def test_a_model_that_tells_no_texts_apart_reads_texts_alone(kind, n_segments, tmp_path):
    model, steps = {"n_segments": n_segments}, {"max_steps": 2, "eval_every": 1, "save_every": 2}
    train(
        recipe_from(settings(kind, tmp_path, WRITE[kind], model=model, train=steps)), tmp_path / "r"
    )
    run = regard.load(tmp_path / "r")
    assert run.evaluate("test").scores["n"] == 30
    assert len(run.embed(["a b", "c"])) == 2
    assert run.explain("a b <mask>" if kind == "masked" else "a b").outcome is not None
    if kind == "masked":
        assert run.fill("a <mask>").text


@pytest.mark.parametrize("n_segments", [0, 1])
@pytest.mark.parametrize("kind", ["pairs", "answers"])
def test_pairs_need_a_model_that_tells_them_apart(kind, n_segments, tmp_path):
    task = "classification" if kind == "pairs" else kind
    raw = settings(task, tmp_path, WRITE[kind], model={"n_segments": n_segments})
    wanted = rf"^model.n_segments={n_segments}, but two texts are read together; set it to 2$"
    with pytest.raises(ConfigError, match=wanted):
        prepare(recipe_from(raw), CPU)


def test_an_old_encoder_that_tells_no_texts_apart_learns_no_pairs(tmp_path):
    steps = {"max_steps": 2, "eval_every": 1, "save_every": 2}
    alone = settings("classification", tmp_path, labelled, model={"n_segments": 1}, train=steps)
    train(recipe_from(alone), tmp_path / "old", test_sets=())
    raw = settings(
        "classification", tmp_path, labelled_pairs, train={"init": str(tmp_path / "old")}
    )
    raw["model"] = {"preset": "bert"}
    with pytest.raises(ConfigError, match=r"n_segments=1, but two texts .*; begin from a run that"):
        prepare(recipe_from(raw), CPU)


@pytest.mark.parametrize(("pairs", "fresh"), [("false", ""), ("null", ""), ("true", "fresh")])
def test_the_head_of_a_run_that_gives_the_same_labels_is_kept(pairs, fresh, tmp_path):
    """Whoever made a model may not have told whether pairs have its labels."""
    steps = {"max_steps": 2, "eval_every": 1, "save_every": 2}
    raw = settings("classification", tmp_path, labelled, train=steps)
    train(recipe_from(raw), tmp_path / "old", test_sets=())
    path = tmp_path / "old" / "labels.json"
    path.write_text(path.read_text().replace("false", pairs))
    raw["train"] |= {"init": str(tmp_path / "old")}
    raw["model"] = {"preset": "bert"}
    (note,) = [one for one in prepare(recipe_from(raw), CPU).notes if "the encoder begins" in one]
    assert ("its head is fresh" in note) == bool(fresh)


def test_labels_are_validated_by_their_plain_loss(tmp_path):
    raw = settings("classification", tmp_path, labelled, train={"label_smoothing": 0.3})
    prepared = prepare(recipe_from(raw), CPU)
    model = prepared.model.eval()
    expected = []
    for example, ids in zip(prepared.data.splits["valid"], prepared.valid.source, strict=True):
        row, _ = prepared.layout.row(ids)
        log_probs = model(torch.tensor([row]))[0].log_softmax(dim=-1)
        expected.append(-log_probs[prepared.labels.numbers[example.label]].item())
    found = prepared.validation()(model)["loss"]
    assert found == pytest.approx(math.fsum(expected) / len(expected), rel=1e-5)


@pytest.mark.parametrize(
    ("task", "lines", "unit"),
    [("classification", labelled, "text"), ("similarity", scored, "pair")],
)
def test_a_forecast_says_what_its_flops_are_for(task, lines, unit, tmp_path, capsys):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(settings(task, tmp_path, lines)))
    assert main(["train", str(path), "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert f"\nFLOPs per {unit}" in told
    assert "FLOPs per token" not in told


@pytest.mark.parametrize(
    "text",
    [
        '{"labels": "ab", "pairs": true}',
        '{"labels": {"a": 1, "b": 2}, "pairs": true}',
        '{"labels": ["a", "a"], "pairs": true}',
        '{"labels": ["a", 3], "pairs": true}',
        '{"labels": [], "pairs": true}',
        '{"labels": ["a", "b"], "pairs": 1}',
        '{"labels": ["a", "b"]}',
        "[]",
        "{",
        "[" * 100_000,
    ],
)
def test_labels_that_are_none_are_told(tmp_path, text):
    path = tmp_path / "labels.json"
    path.write_text(text)
    with pytest.raises(CheckpointError) as caught:
        load_labels(tmp_path)
    assert str(caught.value) == (
        f'{path} is damaged: it holds no labels; expected {{"labels": ["…", "…"], "pairs": true, '
        "false or null}, no label twice"
    )
