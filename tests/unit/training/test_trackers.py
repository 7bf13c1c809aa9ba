"""Where metrics go beside metrics.jsonl. Other programs' libraries are stood in for here."""

import sys
from types import SimpleNamespace

import pytest

from regard.core.errors import CheckpointError, ConfigError
from regard.tasks.recipe import recipe_from
from regard.training.trackers import Tracked, Tracking

LINE = {"step": 5, "kind": "train", "loss": 2.5, "best": "no number"}


@pytest.fixture
def tracking(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    return Tracking(folder, first_step=0, settings={"train.lr": 0.1, "model.size": "tiny"})


@pytest.fixture
def followed(tracking):
    """Follow a training of one line by a tracker; -> what it said."""

    def follow(name, line=LINE):
        said = []
        tracker = Tracked(name, tracking, said.append)
        tracker(line)
        tracker(line)
        tracker.close()
        return said

    return follow


class StandIn(SimpleNamespace):
    """A module that notes what is called, and answers with itself."""

    def __init__(self, **answers):
        super().__init__(calls=[], answers=answers, __spec__=object())

    def __getattr__(self, name):
        def call(*some, **named):
            self.calls.append((name, some, named))
            answer = self.answers.get(name, self)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    def named(self, name):
        return [(some, named) for called, some, named in self.calls if called == name]


@pytest.fixture
def module(monkeypatch):
    def put(name, **answers):
        stand_in = StandIn(**answers)
        monkeypatch.setitem(sys.modules, name, stand_in)
        return stand_in

    return put


def test_tensorboard_reads_the_numbers(followed, tracking):
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    assert followed("tensorboard") == []
    (path,) = (tracking.folder / "tensorboard").iterdir()
    events = [event for event in EventFileLoader(str(path)).Load() if event.HasField("summary")]
    (value,) = events[0].summary.value
    assert (events[0].step, value.tag) == (5, "train/loss")
    assert value.tensor.float_val[0] == 2.5


def test_none_leaves_nothing(followed, tracking):
    followed("none")
    assert list(tracking.folder.iterdir()) == []


def test_a_full_disk_ends_the_training(tracking, monkeypatch):
    tracker = Tracked("tensorboard", tracking, print)
    monkeypatch.setattr(tracker._tracker, "_writer", SimpleNamespace(write=full))
    with pytest.raises(CheckpointError, match="No space left"):
        tracker(LINE)
    tracker.close()


def full(_bytes):
    raise OSError(28, "No space left on device")


def test_wandb_gets_numbers_settings_and_the_same_run_when_it_goes_on(followed, tracking, module):
    wandb = module("wandb")
    assert followed("wandb") == []
    assert followed("wandb") == []
    first, second = (named for _, named in wandb.named("init"))
    assert first["id"] == second["id"]
    assert first["name"] == "mine"
    assert first["config"] == tracking.settings
    assert wandb.named("log")[0] == (({"train/loss": 2.5},), {"step": 5})
    assert len(wandb.named("finish")) == 2


def test_mlflow_gets_numbers_settings_and_the_same_run_when_it_goes_on(followed, module):
    run = SimpleNamespace(info=SimpleNamespace(run_id="r1"))
    mlflow = module("mlflow", get_experiment_by_name=None, create_experiment="e1", create_run=run)
    assert followed("mlflow") == []
    assert followed("mlflow") == []
    assert mlflow.named("create_run") == [(("e1",), {"run_name": "mine"})]
    assert (("r1", "train.lr", "0.1"), {}) in mlflow.named("log_param")
    assert mlflow.named("log_metric")[0] == (("r1", "train/loss", 2.5), {"step": 5})
    assert mlflow.named("set_terminated") == [(("r1",), {})] * 2


def test_a_tracker_that_fails_is_told_once_and_training_goes_on(followed, module):
    module("wandb", log=RuntimeError("the line is\ndown"))
    (said,) = followed("wandb")
    assert said.startswith("train.log=wandb failed: the line is down; training goes on without it")


def test_one_that_does_not_start_is_refused(tracking, module):
    module("wandb", init=RuntimeError("no key"))
    with pytest.raises(ConfigError, match="train.log=wandb does not start: no key"):
        Tracked("wandb", tracking, print)


def test_what_is_not_installed_is_told_with_how_to_get_it(tracking, monkeypatch):
    monkeypatch.setattr("regard.training.trackers.find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match="pip install mlflow"):
        Tracked("mlflow", tracking, print)


def test_a_recipe_names_a_tracker_that_there_is(settings):
    wrong = {**settings, "train": {**settings["train"], "log": "wandbb"}}
    with pytest.raises(ConfigError, match="did you mean 'wandb'"):
        recipe_from(wrong)
