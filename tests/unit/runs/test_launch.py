import json
import logging
import os
import signal
from pathlib import Path

import pytest
import torch
import yaml

from regard.cli.main import main
from regard.core.signals import ENDING
from regard.runs.launch import ERROR_FILE, LAUNCHED, MESSAGE, STOPPED, launch, leave_message
from regard.training.metrics import MetricsLog


def test_a_message_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    """Who started the process reads it as soon as there is a file."""
    path = tmp_path / "error.json"
    monkeypatch.setenv(LAUNCHED, "1")
    monkeypatch.setenv(ERROR_FILE, str(path))
    moved, replace = [], Path.replace

    def moving(there, here):
        moved.append(json.loads(there.read_text())[MESSAGE])
        assert not path.exists()
        return replace(there, here)

    monkeypatch.setattr(Path, "replace", moving)
    assert leave_message("no data left")
    assert json.loads(path.read_text())[MESSAGE] == "no data left"
    assert moved == ["no data left"]


def test_where_nobody_waits_for_a_message_none_is_left(monkeypatch):
    monkeypatch.delenv(LAUNCHED, raising=False)
    assert not leave_message("no data left")


DYING = """
import os
from regard.runs.launch import leave_stop

{0}
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="torch cannot start any")
@pytest.mark.parametrize(
    ("first", "told"),
    [("leave_stop()", " after the training had stopped"), ("", "; all start again")],
)
def test_who_is_killed_is_started_again_unless_all_were_asked_to_stop(tmp_path, first, told):
    """Else a process that dies while it ends would train on, though somebody stopped it."""
    plugin, said = tmp_path / "dying.py", []
    plugin.write_text(DYING.format(first))

    def hear(line):
        said.append(line)
        plugin.write_text("")  # the second time all goes well

    def found():
        handlers = [signal.getsignal(number) for number in ENDING]
        return dict(os.environ), logging.root.manager.disable, handlers

    before = found()
    launch(["--plugin", str(plugin), "--version"], 2, hear)
    assert said == [f"process 1 was killed by SIGKILL{told}"]
    assert found() == before


def test_a_training_that_was_stopped_leaves_word_of_it(settings, tmp_path, monkeypatch):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(yaml.safe_dump({**settings, "train": {**settings["train"], "max_steps": 5}}))
    monkeypatch.setenv(LAUNCHED, "1")
    for name in ("whole", "half"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(ERROR_FILE, str(tmp_path / name / "error.json"))
        assert main(["train", str(recipe), "--out", str(tmp_path / name / "run")]) in (0, 143)
        monkeypatch.setattr(MetricsLog, "__call__", lambda *_: signal.raise_signal(signal.SIGTERM))
    assert [*tmp_path.rglob(STOPPED)] == [tmp_path / "half" / STOPPED]
