"""A trained run goes on with a reward: it earns more, and is resumed bit for bit."""

import json
import re

import pytest
import torch
import yaml
from picture_runs import captioning_recipe, captioning_run, scene
from safetensors.torch import load_file

import regard
from regard.checkpoints.snapshots import load_snapshot
from regard.cli.main import main
from regard.core.errors import ConfigError
from regard.evaluation.text_metrics import gleu
from regard.recipes.recipe import load_recipe
from regard.runs.prepare import prepare
from regard.runs.train import train
from regard.tasks.opening import pick_device
from regard.tasks.recipe import recipe_from
from regard.text.specials import BEGIN_ID, END_ID
from regard.training.metrics import read_metrics


def rewarded(settings, run, *, model=None, **changes):
    steps = {"max_steps": 4, "eval_every": 2, "save_every": 2, "log_every": 1, "samples": 4}
    train_ = {**settings["train"], "objective": "gleu", "init": str(run), **steps, **changes}
    return {**settings, "model": {**settings["model"], **(model or {})}, "train": train_}


@pytest.fixture(scope="module")
def recurrent(settings, tmp_path_factory):
    out = tmp_path_factory.mktemp("rewarded") / "luong"
    raw = {**settings, "model": {"preset": "luong2015", "d_model": 32}}
    train(recipe_from({**raw, "train": {**settings["train"], "max_steps": 60}}), out, test_sets=())
    return out


def test_a_few_steps_raise_the_reward(settings, recurrent, tmp_path):
    out = tmp_path / "run"
    fast = {"lr": 5e-3, "warmup_steps": 3, "likelihood_weight": 0.0}  # by the reward alone
    raw = rewarded(settings, recurrent, max_steps=35, eval_every=35, samples=8, **fast)
    raw["model"] = {"preset": "luong2015", "d_model": 32}
    train(recipe_from(raw), out, test_sets=("test",))
    lines = [line for line in read_metrics(out / "metrics.jsonl") if line["kind"] == "train"]
    earned = [-line["loss_rl"] for line in lines]
    first, last = sum(earned[:5]) / 5, sum(earned[-5:]) / 5
    assert 0 < first < last - 0.05 < 1
    assert all("loss_likelihood" in line for line in lines)
    (valid,) = (line for line in read_metrics(out / "metrics.jsonl") if line["kind"] == "valid")
    assert 0 < valid["gleu"] < 1
    assert "gleu" in json.loads((out / "scores.json").read_text())["scores"]["test"]


def test_it_is_resumed_bit_for_bit(settings, run_path, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    asked = recipe_from(rewarded(settings, run_path))
    train(asked, whole, test_sets=())
    train(asked, cut, test_sets=())
    newest = max((cut / "checkpoints").iterdir())
    assert load_snapshot(newest).step == 4
    newest.unlink()
    (cut / "scores.json").unlink()
    said = []
    train(asked, cut, resume=True, test_sets=(), say=said.append)
    assert "resuming at step 2" in said
    ours, theirs = (load_file(one / "model.safetensors") for one in (cut, whole))
    assert all(ours[name].equal(tensor) for name, tensor in theirs.items())
    parts = [load_snapshot(max((one / "checkpoints").iterdir())).tensors for one in (cut, whole)]
    assert all(parts[0][name].equal(tensor) for name, tensor in parts[1].items())


def test_it_begins_as_the_run_without_dropout_and_is_chosen_by_its_reward(
    settings, run_path, tmp_path
):
    raw = rewarded(settings, run_path, model={"dropout": 0.3})
    prepared = prepare(recipe_from(raw), pick_device("cpu"))
    assert prepared.config.dropout == 0
    assert any("dropout is off" in note for note in prepared.notes)
    assert prepared.recipe.train.criterion == "gleu"
    assert not prepared.compiled
    weights = load_file(run_path / "model.safetensors")
    ours = dict(prepared.model.named_parameters())
    assert all(ours[name].equal(weights[name]) for name in ours)
    by_loss = rewarded(settings, run_path, criterion="loss")
    assert recipe_from(by_loss).train.criterion == "loss"
    one = prepared.stream().next()
    likelihood = {**raw, "train": {**settings["train"]}}
    plain = prepare(recipe_from(likelihood), pick_device("cpu"))
    assert prepared.flops(one) > 5 * plain.flops(one)  # four samples, written and learned from


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"init": None}, "'gleu' rewards what a trained model writes: name a run to begin as"),
        ({"objective": "glue"}, "unknown train.objective 'glue' (did you mean 'gleu'?)"),
        (
            {"objective": "accuracy"},
            "train.objective=accuracy does not judge single texts of this data; with this data ",
        ),
        ({"objective": "glue", "init": None}, "unknown train.objective 'glue'"),
        ({"compile": True}, "train.compile=true: train.objective=gleu learns from samples"),
        ({"samples": 1}, "train.samples"),
        ({"objective": "likelihood"}, "train.samples=4 does nothing with train.objective=likeli"),
        ({"criterion": "chrf"}, "train.criterion=chrf is for other tasks"),
    ],
)
def test_what_cannot_be_rewarded_is_told_in_a_line(
    settings, run_path, tmp_path, capsys, changes, told
):
    raw = rewarded(settings, run_path)
    raw["train"] = {name: x for name, x in {**raw["train"], **changes}.items() if x is not None}
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(raw))
    assert main(["train", str(path), "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("reward", "told"),
    [
        ("objective=facts", "train.objective=facts does not judge single texts of this data"),
        ("metrics=[facts]", "facts judges texts of the world documents alone; leave it out"),
    ],
)
def test_what_judges_another_world_is_refused(run_path, reward, told):
    with pytest.raises(ConfigError, match=re.escape(told)):
        prepare(load_recipe("transformer", [f"init={run_path}", reward]), pick_device("cpu"))


def test_texts_of_files_may_be_documents_of_that_world(settings, run_path):
    raw = rewarded(settings, run_path, objective="facts")
    assert prepare(recipe_from(raw), pick_device("cpu")).recipe.train.criterion == "facts"


def test_other_tasks_say_that_they_have_no_rewards(tmp_path):
    raw = {"task": "language", "data": {"world": "sentences"}, "train": {"max_steps": 1}}
    raw["train"] |= {"objective": "gleu", "init": "somewhere"}
    told = (
        "train.objective=gleu does nothing in the task language, being for .* and captioning; "
        "a reward compares what is written with a text that is right, and here there is none"
    )
    with pytest.raises(ConfigError, match=told):
        prepare(recipe_from(raw), pick_device("cpu"))


def test_a_metric_of_whole_sets_rewards_nothing(settings, run_path):
    """CIDEr counts how rare words are in a set; of one text it is always 0."""
    raw = rewarded(settings, run_path, objective="cider")
    with pytest.raises(
        ConfigError, match="train.objective=cider does not judge single .* each text by itself"
    ):
        prepare(recipe_from(raw), pick_device("cpu"))


# ------------------------------------------------------------------ captioners

CPU = torch.device("cpu")
STEM = {"encoder": "stem", "positions": "sinusoidal", "concepts": 0.5}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A captioner of a few steps, which knows some words and no pictures."""
    few = {"max_steps": 30, "eval_every": 30}
    return captioning_run(tmp_path_factory.mktemp("told"), train=few, **STEM)


def captions(folder, init, train=(), **model):
    """The recipe of one that goes on from there by a reward."""
    steps = {"max_steps": 4, "eval_every": 2, "save_every": 2, "samples": 4, "lr": 1e-3}
    how = {**steps, "objective": "gleu", "init": str(init), **dict(train)}
    return captioning_recipe(folder, train=how, **{**STEM, **model})


def test_a_captioner_earns_more_by_its_reward_and_captions(told, tmp_path):
    fast = {"max_steps": 40, "eval_every": 40, "log_every": 1, "samples": 8, "lr": 5e-3}
    asked = captions(tmp_path / "data", told, {**fast, "likelihood_weight": 0.0})
    out = tmp_path / "run"
    train(asked, out, device="cpu")
    lines = [line for line in read_metrics(out / "metrics.jsonl") if line["kind"] == "train"]
    earned = [-line["loss_rl"] for line in lines]
    assert 0 < sum(earned[:5]) / 5 < sum(earned[-5:]) / 5 - 0.05 < 1
    assert "gleu" in json.loads((out / "scores.json").read_text())["scores"]["valid"]
    run = regard.load(out, device="cpu")
    assert run.recipe.train.criterion == "gleu"
    assert run.caption(scene(7)) == regard.load(out, device="cpu").caption(scene(7)) != ""


def test_a_rewarded_captioner_is_resumed_bit_for_bit(told, tmp_path):
    asked = captions(tmp_path / "data", told)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    train(asked, whole, device="cpu", test_sets=())
    train(asked, cut, device="cpu", test_sets=())
    max((cut / "checkpoints").iterdir()).unlink()
    (cut / "scores.json").unlink()
    train(asked, cut, device="cpu", resume=True, test_sets=())
    ours, theirs = (load_file(one / "model.safetensors") for one in (cut, whole))
    assert all(ours[name].equal(tensor) for name, tensor in theirs.items())


def test_a_captioner_begins_as_the_run_without_dropout(told, tmp_path):
    asked = captions(tmp_path / "data", told, dropout=0.3, drop_path=0.1)
    prepared = prepare(asked, CPU)
    assert prepared.config.dropout == prepared.config.drop_path == 0
    assert any("dropout is off" in note for note in prepared.notes)
    weights = load_file(told / "model.safetensors")
    assert all(x.equal(weights[name]) for name, x in prepared.model.named_parameters())
    likelihood = captioning_recipe(tmp_path / "again", train={"init": str(told)}, **STEM)
    one = prepared.stream().next()
    assert prepared.flops(one) > 2 * prepare(likelihood, CPU).flops(one)


def test_captions_are_rewarded_with_the_gradient_of_all_captions_enumerated(told, tmp_path):
    """All captions of two words at most, enumerated; pictures are changed before they are read."""
    asked = captions(tmp_path / "data", told, {"samples": 600, "likelihood_weight": 0.0})
    crop = asked.data.augment.model_copy(update={"crop": 4})
    short = asked.decode.model_copy(update={"max_len": 2})
    data = asked.data.model_copy(update={"augment": crop})
    prepared = prepare(asked.model_copy(update={"data": data, "decode": short}), CPU)
    model, learned = prepared.model.train(), prepared.objective()
    batch = prepared.stream().next()
    losses = learned(model, batch)
    pixels = learned.likelihood.augmented(batch).pixels
    assert not pixels.equal(batch.pixels / 255)
    assert learned.draw.sources(model, batch).source.equal(pixels)
    model.eval()  # a norm that scales as it did when samples were drawn
    wanted = 0.0
    for number, picture in zip(batch.numbers, pixels, strict=True):
        right = prepared.data.splits["train"][number].captions
        wanted = wanted + _expected(model, prepared.tokenizer, picture[None], right)
    found = -losses.sums["rl"]
    assert found.item() == pytest.approx(wanted.item(), rel=0.03)
    weights = list(model.parameters())
    both = [torch.autograd.grad(one, weights, allow_unused=True) for one in (found, wanted)]
    ours, theirs = (torch.cat([x.flatten() for x in one if x is not None]) for one in both)
    assert torch.cosine_similarity(ours, theirs, dim=0) > 0.97


def _expected(model, tokenizer, pixels, right):
    """The expected reward of what is sampled for a picture (1, 3, S, S): no caption is longer."""
    words = range(END_ID + 1, tokenizer.n_vocab)
    texts = [(END_ID,), *((one, end) for one in words for end in (END_ID, *words))]
    ids = torch.tensor([[BEGIN_ID, text[0]] for text in texts])
    of = torch.zeros(len(texts), dtype=torch.long)
    logits = model(pixels, ids, of)
    logits[..., :END_ID] = -torch.inf
    each = logits.log_softmax(dim=-1)
    total = 0.0
    for row, text in enumerate(texts):
        log_prob = sum(each[row, t, token] for t, token in enumerate(text))
        said = tokenizer.decode([token for token in text if token != END_ID])
        total = total + log_prob.exp() * gleu([said], [right])
    return total


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"train": {"init": None}}, "'gleu' rewards what a trained model writes: name a run to"),
        ({"normaliser": "hard"}, "model.normaliser=hard draws one key in training"),
        ({"train": {"compile": True}}, "train.compile=true: train.objective=gleu learns from"),
        ({"patch_size": 4}, r"trained with patch_size=8, .* has 4; set model.patch_size=8"),
    ],
    ids=str,
)
def test_a_captioner_that_cannot_be_rewarded_is_told_in_a_line(told, tmp_path, how, why):
    with pytest.raises(ConfigError, match=why) as caught:
        prepare(captions(tmp_path / "data", told, **how), CPU)
    assert "\n" not in str(caught.value)


def test_a_captioner_is_not_rewarded_for_pictures_of_another_size(told, tmp_path):
    """A convolution would take them."""
    asked = captions(tmp_path / "data", told)
    larger = asked.model_copy(update={"data": asked.data.model_copy(update={"image_size": 64})})
    why = "trained with image_size=32, and this recipe has 64; set data.image_size=32"
    with pytest.raises(ConfigError, match=why):
        prepare(larger, CPU)
