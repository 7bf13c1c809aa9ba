"""A run that began as another is resumed without it: its snapshots hold all weights."""

import json
import shutil

import pytest
from encoders import settings as encoder_settings
from language_models import same_weights
from safetensors.torch import load_file
from text_runs import WRITE, language

from regard.core.errors import RegardError
from regard.runs.train import train
from regard.tasks.recipe import recipe_from


@pytest.fixture(params=["masked", "language", "translation"])
def raw(request, settings, tmp_path):
    """Recipes of a training in which nothing is drawn at random but batches."""
    if request.param == "masked":
        return encoder_settings("masked", tmp_path, WRITE["masked"])
    return language(tmp_path) if request.param == "language" else settings


def short(raw, **changes):
    steps = {"max_steps": 4, "eval_every": 2, "save_every": 2, **changes}
    return recipe_from({**raw, "train": {**raw["train"], **steps}})


@pytest.mark.parametrize("fate", ["deleted", "another dropout"])
def test_what_became_of_the_first_run_does_not_matter(raw, fate, tmp_path):
    init, out = tmp_path / "init", tmp_path / "run"
    train(short(raw), init, test_sets=())
    asked = short(raw, init=str(init))
    train(asked, out, test_sets=())
    finished = load_file(out / "model.safetensors")
    config = json.loads((out / "config.json").read_text())
    for path in (out / "scores.json", out / "model.safetensors", *newest(out)):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if fate == "deleted":
        shutil.rmtree(init)
    else:
        other = json.loads((init / "config.json").read_text()) | {"dropout": 0.9}
        (init / "config.json").write_text(json.dumps(other))
    said = []
    train(asked, out, resume=True, test_sets=(), say=said.append)
    assert "resuming at step 2" in said
    assert not any("begins as that of" in line for line in said)
    assert json.loads((out / "config.json").read_text()) == config
    assert same_weights(load_file(out / "model.safetensors"), finished)


def newest(out):
    """The snapshot of the last step, so that something is left to do."""
    return [max((out / "checkpoints").iterdir(), key=lambda path: path.name)]


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ({"preset": "bahdanau2015"}, "of the family 'transformer', and the recipe asks for one of"),
        ({"n_layers": 2}, "does not belong to this model: missing encoder.layers.1"),
    ],
)
def test_a_run_of_another_shape_is_no_beginning(settings, run_path, tmp_path, model, told):
    widths = {"d_model": 32} if "preset" in model else settings["model"]
    asked = short({**settings, "model": {**widths, **model}}, init=str(run_path))
    with pytest.raises(RegardError, match=f"^train.init: .*{told}.*; give the section model the"):
        train(asked, tmp_path / "run")


def test_a_damaged_beginning_is_told_as_that(settings, run_path, tmp_path):
    init = tmp_path / "init"
    shutil.copytree(run_path, init)
    (init / "model.safetensors").write_bytes(b"cut")
    remedy = "train again, or resume from its checkpoints"
    told = rf"^train.init: {init}/model.safetensors is damaged \(.*\); {remedy}$"
    with pytest.raises(RegardError, match=told):
        train(short(settings, init=str(init)), tmp_path / "run")


def test_a_beginning_that_is_not_there_is_named(settings, tmp_path):
    asked = short(settings, init=str(tmp_path / "nowhere"))
    with pytest.raises(RegardError, match=r"^train.init: there is no run folder \S+/nowhere$"):
        train(asked, tmp_path / "run")
