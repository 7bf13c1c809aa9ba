"""Training that goes on from a run: its model, whatever preset the recipe names."""

import pytest
import torch
from chats import CHATML, chat_folder
from language_models import same_weights, weights_of

from regard.core.errors import CheckpointError, ConfigError
from regard.runs.prepare import prepare
from regard.runs.train import train
from regard.tasks.opening import load
from regard.tasks.recipe import recipe_from

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return chat_folder(tmp_path_factory.mktemp("begin"), max_len=30)


@pytest.fixture
def raw(folder, tmp_path):
    (tmp_path / "mine.txt").write_text("once upon a time\n" * 30)
    return {
        "task": "language",
        "data": {"train": str(tmp_path / "mine.txt")},
        "model": {"preset": "gpt", "size": "base"},
        "train": {"init": str(folder), "max_steps": 1, "batch_tokens": 60, "lr": 1e-9},
    }


def test_the_model_is_that_of_the_folder_and_no_preset(raw, folder):
    old = load(folder, device="cpu")
    prepared = prepare(recipe_from(raw), CPU)
    assert prepared.config == old.model.config
    assert same_weights(weights_of(prepared.model), weights_of(old.model))
    assert prepared.framing.tokenizer.to_json() == old.tokenizer.to_json()
    assert prepared.notes == (f"the model begins as that of {folder}",)


def test_what_the_recipe_says_beyond_its_preset_counts(raw, folder):
    raw["model"] |= {"dropout": 0.3}
    prepared = prepare(recipe_from(raw), CPU)
    assert prepared.config.dropout == 0.3
    assert same_weights(weights_of(prepared.model), weights_of(load(folder).model))


def test_a_run_that_goes_on_still_talks(raw, folder, tmp_path):
    train(recipe_from(raw), tmp_path / "run")
    assert (tmp_path / "run" / "chat_template.jinja").read_text() == CHATML
    asked = [{"role": "user", "content": "a"}]
    how = {"max_new": 4, "temperature": 0}
    assert load(tmp_path / "run").chat(asked, **how) == load(folder).chat(asked, **how)


def test_a_table_of_positions_cannot_be_shortened(raw):
    raw["model"] |= {"max_len": 20}
    with pytest.raises(
        CheckpointError,
        match=r"positions.* is \(30, 24\), the model wants \(20, 24\).*leave the sizes out",
    ):
        prepare(recipe_from(raw), CPU)


def test_a_model_of_another_family(raw, run_path):
    raw["train"] |= {"init": str(run_path)}
    with pytest.raises(ConfigError, match=r"of the family 'transformer', and this needs a lang"):
        prepare(recipe_from(raw), CPU)
