"""A run that began as another is resumed without it: its snapshots hold all weights."""

import json
import shutil

import pytest
from encoders import settings as encoder_settings
from language_models import same_weights
from safetensors.torch import load_file
from text_runs import WRITE, language

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
