"""Which folders a training may write to, and what it leaves of what was there."""

from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from chats import chat_folder
from encoders import settings
from text_runs import WRITE

from regard.checkpoints.run_folder import RunFolder, save_settings
from regard.core.errors import CheckpointError
from regard.recipes.recipe import load_recipe
from regard.runs.claims import Claim
from regard.runs.train import train
from regard.tasks.base import TASKS
from regard.tasks.recipe import recipe_from

THEIRS = ("config.json", "model.safetensors", "tokenizer.json")
OLD = Path(__file__).parents[2] / "fixtures" / "runs-0.1.0"
OF_ANY = {"config.yaml", "config.json", "model.safetensors", "metrics.jsonl", "scores.json"}
OF_ANY |= {"report.html", "checkpoints", "tensorboard"}
ONE_STEP = {"max_steps": 1, "eval_every": 1, "save_every": 1}


@pytest.fixture
def recipe(tmp_path):
    return recipe_from(settings("masked", tmp_path, WRITE["masked"], train=ONE_STEP))


@pytest.mark.parametrize("resume", [False, True])
def test_a_model_that_was_not_trained_here_is_not_deleted(recipe, resume, tmp_path):
    out = tmp_path / "theirs"
    out.mkdir()
    for name in THEIRS:
        (out / name).write_text("theirs")
    with pytest.raises(CheckpointError) as caught:
        train(recipe, out, resume=resume)
    assert str(caught.value) == (
        f"{out} holds a model that was not trained here: it has a config.json and no config.yaml; "
        "replace it with --overwrite (overwrite=True), or choose another --out (out=)"
    )
    assert {path.name: path.read_text() for path in out.iterdir()} == dict.fromkeys(
        THEIRS, "theirs"
    )


def test_a_template_for_conversations_does_not_outlive_its_run(tmp_path):
    (tmp_path / "mine.txt").write_text("once upon a time\n" * 30)
    raw = {
        "task": "language",
        "data": {"train": str(tmp_path / "mine.txt")},
        "text": {"kind": "char"},
        "model": {"preset": "gpt"},
        "train": {"init": str(chat_folder(tmp_path, max_len=30)), "batch_tokens": 60, **ONE_STEP},
    }
    out = tmp_path / "run"
    train(recipe_from(raw), out, test_sets=())
    assert (out / "chat_template.jinja").exists()
    del raw["train"]["init"]
    raw["model"] |= {"d_model": 8, "n_heads": 1, "n_layers": 1, "d_ff": 8, "max_len": 30}
    train(recipe_from(raw), out, overwrite=True, test_sets=())
    assert not (out / "chat_template.jinja").exists()


def test_what_another_task_wrote_does_not_outlive_its_run_and_other_files_do(recipe, tmp_path):
    out, labelled = tmp_path / "run", tmp_path / "labelled"
    labelled.mkdir()
    raw = settings("classification", labelled, WRITE["classification"], train=ONE_STEP)
    train(recipe_from(raw), out, test_sets=())
    assert (out / "labels.json").exists()
    (out / "notes.json").write_text("mine")
    train(recipe, out, overwrite=True, test_sets=())
    assert not (out / "labels.json").exists()
    assert (out / "notes.json").read_text() == "mine"


@pytest.mark.parametrize("folder", sorted(path for path in OLD.iterdir() if path.is_dir()))
def test_every_file_of_a_run_is_declared_by_its_task(folder):
    task = yaml.safe_load((folder / "config.yaml").read_text())["task"]
    assert {path.name for path in folder.iterdir()} <= OF_ANY | {*TASKS[task].files}


@pytest.mark.parametrize(
    ("warmup", "told"),
    [
        (5, ": the learning rate of step 7 is 9.990e-04, not 9.989e-04"),
        (500, ""),
    ],
)
def test_rates_that_differ_are_not_written_alike(warmup, told, tmp_path):
    settings = ["lr=1e-3", "schedule=linear", f"warmup_steps={warmup}", "max_steps=1900"]
    begun = load_recipe("copy", settings)
    save_settings(RunFolder(tmp_path), begun.model_dump(mode="json"))
    longer = load_recipe("copy", [*settings, "max_steps=2000"])
    claim = Claim(longer, resume=True, overwrite=False)
    with ExitStack() as held:
        claim.make(RunFolder(tmp_path), held)
    ends = "schedule linear now falls to zero at step 2000, not 1900"
    assert claim.changed_rate(6, 128) == ends + told
