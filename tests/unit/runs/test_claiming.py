"""Which folders a training may write to, and what it leaves of what was there."""

from pathlib import Path

import pytest
import yaml
from chats import chat_folder
from encoders import settings
from text_runs import WRITE

from regard.core.errors import CheckpointError
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
