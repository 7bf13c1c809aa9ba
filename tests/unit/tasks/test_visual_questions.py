"""Questions about pictures: what is learned, what it costs, and where in scenes a model looks."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.checkpoints.run_folder import RunFolder
from regard.data.worlds.scene_records import mask_of, scene_records
from regard.models.presets import build
from regard.models.visual_questions import VisualQuestionsConfig, triplet
from regard.tasks.base import TASKS
from regard.tasks.classification import Labels
from regard.tasks.picture_answerer import PictureAnswerer, accuracy_by_kind, unseen_note
from regard.tasks.recipe import recipe_from
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer

KINDS = {
    "stacked": {"encoder": "conv"},
    "with blocks": {"encoder": "conv", "n_layers": 1},
    "loss": {"encoder": "conv", "differential": "loss", "margin": 3.0, "triplet_weight": 0.5},
    "joint": {"reader": "joint", "n_layers": 2, "score": "scaled_dot"},
}
SMALL = {"d_model": 16, "n_heads": 2, "d_ff": 16, "dropout": 0.0, "max_len": 24, "image_size": 32}
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def scenes():
    return scene_records("image_question", "en", n_train=6, n_test=6, size=32)


def recipe(**model):
    train = {"max_steps": 1, "batch_size": 3, "label_smoothing": 0.0}
    model = {"preset": "san2016", **SMALL, **model}
    del model["image_size"]
    return recipe_from(
        {
            "task": "visual_questions",
            "data": {"world": "scenes", "n_train": 6, "image_size": 32},
            "text": {"kind": "word"},
            "model": model,
            "train": train,
        }
    )


@pytest.fixture(params=KINDS)
def run(request, scenes, tmp_path):
    torch.manual_seed(1)
    texts = [one.question for one in scenes["train"]]
    tokenizer = Tokenizer.train(texts, TextSettings(kind="word"))
    labels = Labels(tuple(sorted({one.answer for one in scenes["train"]})), False)
    sizes = {"n_vocab": tokenizer.n_vocab, "n_labels": len(labels.names)}
    config = VisualQuestionsConfig.model_validate({**SMALL, **sizes, **KINDS[request.param]})
    model = build(config).eval()
    return PictureAnswerer(RunFolder(tmp_path), recipe(), model, CPU, tokenizer, labels)


def test_a_map_is_what_a_look_shows(run, scenes):
    some = scenes["test"][:5]
    maps = run.maps([(one.picture, one.question) for one in some])
    name = "joint.self" if run.config.reader == "joint" else "looks"
    assert {*maps} == {(name, 0), (name, 1)}
    for i, one in enumerate(some):
        look = run.explain(one.picture, one.question)
        for (_, layer), found in maps.items():
            weights = look.weights(name, layer)[:, 0, -16:].reshape(-1, 4, 4)
            np.testing.assert_allclose(found[i], weights, atol=1e-6)


def test_looking_is_scored_on_the_objects_that_are_asked_about(run, scenes):
    some = scenes["test"]
    told = run.scored(some, "test").scores["looking"]
    asked = [one for one in some if mask_of(one).any()]
    assert told["n"] == len(asked) < len(some)
    for name in ("pointing_accuracy", "mass_inside", "rank_correlation"):
        assert {name, f"{name}_shuffled", f"{name}_centre"} <= {*told}
    # By hand: the share of the last attention's weight that lies on the objects.
    layer, inside = 1, []
    maps = run.maps([(one.picture, one.question) for one in asked])
    last = next(found for place, found in maps.items() if place[1] == layer).mean(axis=1)
    for one, weights in zip(asked, last, strict=True):
        each = np.kron(weights / weights.sum(), np.ones((8, 8)) / 64)
        inside.append(each[mask_of(one)].sum())
    assert told["mass_inside"] == pytest.approx(np.mean(inside), abs=1e-6)


def test_every_head_is_told_how_often_it_points_at_the_objects(run, scenes):
    known = run.pointing(scenes["test"])["pointing"]
    n_heads = 4 if run.config.reader == "joint" else 2
    assert len(known) == n_heads
    assert all(0 <= share <= 1 for share in known.values())


def test_pictures_that_know_no_objects_are_not_scored_for_looking(run, scenes):
    some = [replace(one, picture=_Plain(one.picture)) for one in scenes["test"]]
    assert "looking" not in run.scored(some, "test").scores
    assert run.pointing(some) == {}


class _Plain:
    """A scene's pixels and nothing else."""

    where = "nowhere"

    def __init__(self, scene):
        self.pixels, self.fingerprint = scene.pixels, scene.fingerprint


def test_the_mask_of_a_question_is_that_of_its_objects(scenes):
    for one in scenes["test"]:
        scene = one.picture
        (asked,) = [some for some in scene.questions if some.kind == one.kind]
        wanted = np.zeros((32, 32), bool)
        for number in {i for word in asked.about for i in word}:
            wanted |= scene.masks()[number]
        assert np.array_equal(mask_of(one), wanted)


def test_accuracy_is_told_by_kind(scenes):
    some = scenes["test"]
    right = [one.answer for one in some]
    given = ["yes" for _ in some]
    found = accuracy_by_kind(some, given, right)
    rows = [one for one in some if one.kind == "compare"]
    assert found["compare"]["n"] == len(rows)
    assert found["compare"]["accuracy"] == np.mean([one.answer == "yes" for one in rows])
    plain = [replace(one, kind="") for one in some]
    assert accuracy_by_kind(plain, given, right) == {}


def test_answers_that_were_never_seen_are_told():
    labels = Labels(("no", "yes"), False)
    assert unseen_note(["no", "yes"], labels, "test") == []
    assert unseen_note(["no", "cat", "cow", "cat"], labels, "test") == [
        "test: 3 answers of 4 never seen in training, such as 'cat', 'cow'; counted as wrong"
    ]


# ------------------------------------------------------------------ training


def prepared(**model):
    return TASKS["visual_questions"].prepare(recipe(**model), CPU)


def test_examples_are_learned_from_by_name_and_remembered_in_training_alone():
    one = prepared(preset="dan2018", margin=3.0, triplet_weight=0.5)
    batch, objective, model = one.stream().next(), one.objective(), one.model.train()
    before = {name: x.clone() for name, x in model.named_buffers()}
    numbers = torch.tensor(batch.numbers)
    found = model.answered(batch.pixels, batch.ids, batch.pictures, numbers)
    s, near, far = (
        x / x.norm(dim=-1, keepdim=True) for x in (found.looked.found, *found.exemplars)
    )
    losses = objective(model, batch)
    assert [*losses.sums] == ["cross_entropy", "triplet"]
    assert losses.counts == dict.fromkeys(losses.sums, len(numbers))
    torch.testing.assert_close(losses.sums["triplet"], 0.5 * triplet(s, near, far, 3.0))
    assert model.examples.numbers[: len(numbers)].tolist() == numbers.tolist()
    torch.testing.assert_close(model.examples.found[: len(numbers)], found.looked.found)
    after = {name: x.clone() for name, x in model.named_buffers()}
    assert not torch.equal(before["examples.found"], after["examples.found"])
    objective(model.eval(), batch)
    one.validation()(model)
    assert all(torch.equal(x, after[name]) for name, x in model.named_buffers())


@pytest.mark.parametrize("preset", ["san2016", "dcn2018"])
def test_others_learn_from_the_answers_alone(preset):
    one = prepared(preset=preset)
    losses = one.objective()(one.model.train(), one.stream().next())
    assert [*losses.sums] == ["cross_entropy"]


def test_a_shared_picture_costs_once():
    one = prepared()
    batch = one.stream().next()
    n, p = len(batch.ids), len(batch.pixels)
    assert p < n
    apart = one.formula.training(batch.pixels[batch.pictures], batch.ids)
    reading = one.picture_formula.training(batch.pixels) / p
    assert one.flops(batch) == pytest.approx(apart - (n - p) * reading)
    assert 0 < one.flops(batch) < apart


def test_an_unseen_answer_of_validation_is_wrong_and_has_no_loss():
    one = prepared()
    scores = one.validation()(one.model.eval())
    columns = {**one.valid.columns, "labels": np.full(len(one.valid), -1)}
    unseen = replace(one, valid=replace(one.valid, columns=columns))
    found = unseen.validation()(one.model)
    assert scores["loss"] > 0
    assert found == {"loss": 0, "accuracy": 0}
