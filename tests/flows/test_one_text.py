"""A decoder alone goes the way of any translator, from a recipe to scores and pictures."""

import json

import numpy as np
import pytest

import regard
from regard.core.errors import ConfigError
from regard.runs.heads import head_measures
from regard.runs.train import train
from regard.tasks.recipe import recipe_from

SMALL = {"d_model": 12, "n_layers": 3, "n_heads": 2, "d_ff": 20, "half_width": 2, "max_len": 20}


def recipe(settings, **data):
    raw = {**settings, "model": {"preset": "dmca2018", **SMALL}}
    raw["data"] = {**settings["data"], **data}
    raw["train"] = {**settings["train"], "max_steps": 3, "eval_every": 3}
    return recipe_from(raw)


@pytest.fixture(scope="module")
def run(settings, tmp_path_factory):
    path = tmp_path_factory.mktemp("one") / "run"
    train(recipe(settings, loss_on="all"), path)
    return regard.load(path)


def test_it_translates_and_scores(run):
    texts = ["a b c d e", "c", "d d"]
    together = run.translate(texts, beam=2)
    assert together == [run.translate(text, beam=2) for text in texts]
    (alone, *_), scores = [run.score(t, t) for t in texts], run.score(texts, texts)
    assert scores[0] == pytest.approx(alone, abs=1e-4)
    lines = [json.loads(line) for line in run.folder.metrics.read_text().splitlines()]
    assert all(np.isfinite(line["loss"]) for line in lines if "loss" in line)


def test_it_can_be_looked_into_and_changed(run):
    look = run.explain("a b c", "c b")
    assert set(look.attentions) == {"decoder.self", "decoder.self.compressed"}
    kind = {"kind": "ablate", "name": "decoder.self.compressed", "layer": 0, "head": 1}
    other = run.explain("a b c", "c b", edit=kind)
    assert (other.weights("decoder.self.compressed")[1] == 0).all()
    assert not np.allclose(other.weights("decoder.self", 1), look.weights("decoder.self", 1))
    forced = {"kind": "force", "name": "decoder.self.compressed", "layer": 0, "head": 0, "key": 1}
    weights = run.explain("a b c", "c b", edit=forced).weights("decoder.self.compressed")
    assert (weights[0, :, 1] == 1).all()
    assert run.beam("a b c", 2).nodes


def test_its_heads_are_measured_and_slots_are_no_tokens(run):
    rows = head_measures(run, n=3).rows
    assert [(row["name"], row["layer"]) for row in rows[::2]] == [
        ("decoder.self", 0), ("decoder.self", 1), ("decoder.self.compressed", 0),
    ]  # fmt: skip
    assert all(row["entropy"] is not None and row["loss_change"] is not None for row in rows)
    assert all((row["distance"] is None) == ("compressed" in row["name"]) for row in rows)


def test_a_translator_with_an_encoder_predicts_no_source(settings, tmp_path):
    raw = {**settings, "data": {**settings["data"], "loss_on": "all"}}
    with pytest.raises(ConfigError, match=r"data.loss_on=all: a model of the family 'transformer'"):
        train(recipe_from(raw), tmp_path / "run")


def test_a_text_that_is_too_long_is_refused_with_both_lengths(run):
    text = " ".join("abcde" * 5)
    assert not run.fits(text)
    assert "26 tokens with the end token, but the model reads at most model.max_len=20" in (
        run.too_long(text)
    )
    with pytest.raises(regard.RegardError, match="source has 26 tokens, .* model.max_len=20"):
        run.translate(text)
    with pytest.raises(regard.RegardError, match="source has 26 tokens, .* model.max_len=20"):
        run.explain(text, "a")
