"""``train.criterion``: each task has the scores that it can choose by."""

import json

import pytest
import torch
from encoders import labelled, labelled_pairs, scored, settings

from regard.core.errors import ConfigError
from regard.evaluation.metrics import METRICS, metric
from regard.runs.prepare import prepare
from regard.runs.train import train
from regard.tasks.recipe import recipe_from


def recipe(task, lines, folder, criterion, **train):
    return recipe_from(settings(task, folder, lines, train={"criterion": criterion, **train}))


def untold(n, seed):
    """Pairs without scores."""
    return "".join(f"{line.rsplit(chr(9), 1)[0]}\n" for line in scored(n, seed).splitlines())


def plain(n, seed):
    return labelled(n, seed).replace("\tmany a", "").replace("\tfew a", "")


@pytest.mark.parametrize(
    ("task", "lines"),
    [
        ("classification", labelled),
        ("classification", labelled_pairs),
        ("masked", plain),
        ("similarity", untold),
    ],
)
def test_where_answers_are_right_or_wrong_the_most_accurate_weights_are_kept(task, lines, tmp_path):
    asked = recipe(task, lines, tmp_path, "accuracy", eval_every=5, lr=2e-2)
    trained = train(asked, tmp_path / "run", test_sets=["valid"])
    rows = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    valid = [row for row in rows if row["kind"] == "valid"]
    accuracy = [row["accuracy"] for row in valid]
    assert len(valid) == 6
    assert trained.outcome.progress.best == -max(accuracy)
    assert trained.outcome.progress.best_step == 5 * (1 + accuracy.index(max(accuracy)))
    if task != "masked":  # in batches of another size, other words are left out
        assert trained.evaluations["valid"].scores["accuracy"] == pytest.approx(max(accuracy))


@pytest.mark.parametrize(
    ("task", "lines", "criterion", "known"),
    [
        ("classification", labelled, "bleu", "loss and accuracy and macro_f1"),
        ("similarity", scored, "accuracy", "loss and spearman and pearson"),
    ],
)
def test_a_score_that_a_task_lacks_is_refused_before_the_first_step(
    task, lines, criterion, known, tmp_path
):
    asked = recipe(task, lines, tmp_path, criterion)
    with pytest.raises(ConfigError, match=rf"={criterion} is for other.*{task} has {known}$"):
        prepare(asked, torch.device("cpu"))


def test_translators_have_no_accuracy(settings):
    asked = recipe_from({**settings, "train": {**settings["train"], "criterion": "accuracy"}})
    with pytest.raises(ConfigError, match=r"=accuracy is for other.*translation has loss and bleu"):
        prepare(asked, torch.device("cpu"))


@pytest.fixture
def share_of_many():
    """A plug-in's metric, of which less is better."""

    @metric("share_of_many", unit="share", better="lower", takes="labels", signature="v1")
    def share(predictions, references):
        return sum(label == 1 for label in predictions) / len(references)

    yield
    del METRICS._things["share_of_many"]


@pytest.mark.usefixtures("share_of_many")
def test_a_plug_ins_metric_is_computed_and_may_choose_the_best_weights(tmp_path):
    train_with = {"metrics": ["share_of_many"], "eval_every": 5, "lr": 2e-2}
    asked = recipe("classification", labelled, tmp_path, "share_of_many", **train_with)
    trained = train(asked, tmp_path / "run", test_sets=["valid"])
    rows = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    shares = [row["share_of_many"] for row in rows if row["kind"] == "valid"]
    assert trained.outcome.progress.best == min(shares)
    scores = trained.evaluations["valid"].scores
    assert scores["share_of_many"] == pytest.approx(min(shares))
    assert scores["share_of_many_signature"] == "v1"


@pytest.mark.parametrize(
    ("task", "lines", "metrics", "why"),
    [
        ("classification", labelled, ["bleu"], "bleu cannot be computed from labels"),
        ("classification", labelled, ["acuracy"], "did you mean 'accuracy'"),
        ("masked", plain, ["bleu"], "train.metrics=.* does nothing in the task masked"),
    ],
)
def test_metrics_that_a_task_cannot_have_are_refused(task, lines, metrics, why, tmp_path):
    with pytest.raises(ConfigError, match=why):
        prepare(recipe(task, lines, tmp_path, "loss", metrics=metrics), torch.device("cpu"))
