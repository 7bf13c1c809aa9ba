"""Captioners: what they learn by, what they say, and how it is judged."""

import numpy as np
import pytest
import torch
from picture_runs import SAID, captioning_recipe, captioning_run, scene

import regard
from regard.core.errors import ConfigError, DataError
from regard.data.picture_records import CaptionedPicture
from regard.data.worlds.scene_language import claim_of, looked_for
from regard.data.worlds.scenes import build_scenes
from regard.inspection.capture import watch
from regard.models.captioner import doubly_stochastic
from regard.runs.heads import measured
from regard.runs.prepare import prepare
from regard.runs.train import train
from regard.tasks import caption_scores
from regard.tasks.base import TASKS
from regard.tasks.captioning import CaptionLoss
from regard.text.specials import PAD_ID

CPU = torch.device("cpu")
TRANSFORMER = {"preset": "transformer-captioner", "n_layers": 1, "n_heads": 2, "d_ff": 32}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return captioning_run(tmp_path_factory.mktemp("captions"))


@pytest.fixture(scope="module")
def run(folder):
    return regard.load(folder, device="cpu")


@pytest.fixture(scope="module")
def scenes():
    made = build_scenes(n_train=1, n_test=12)["valid"]
    return [
        CaptionedPicture(picture=one, captions=tuple(said.text for said in one.captions["en"]))
        for one in made
    ]


# ------------------------------------------------------------------ learning


def _prepared(tmp_path, **how):
    return prepare(captioning_recipe(tmp_path / "data", **how), CPU)


@pytest.mark.parametrize("model", [{}, TRANSFORMER, {"decoder": "tell"}])
def test_a_picture_is_read_once_for_all_its_captions(tmp_path, model):
    prepared = _prepared(tmp_path, **model)
    batch = prepared.valid.ordered(3)[0]
    assert batch.pixels.shape[0] == 3
    assert sorted(batch.target_of.tolist()) == [0, 0, 1, 1, 2, 2]
    assert batch.target_lengths.tolist() == sorted(batch.target_lengths.tolist(), reverse=True)
    assert batch.count == sum(len(text.split()) + 1 for k in range(3) for text in SAID[1 + k % 2])
    losses = prepared.objective()(prepared.model.eval(), batch)
    each = 0.0
    for row, picture in enumerate(batch.target_of.tolist()):
        ids = batch.target[row][: int(batch.target_lengths[row])]
        logits = prepared.model(batch.pixels[picture : picture + 1], ids[None, :-1])[0]
        each -= logits.log_softmax(dim=-1)[torch.arange(len(ids) - 1), ids[1:]].sum().item()
    assert losses.total.item() == pytest.approx(each, rel=1e-4)


@pytest.mark.parametrize("model", [{}, TRANSFORMER])
def test_the_doubly_stochastic_term_is_that_of_the_weights_in_use(tmp_path, model):
    prepared = _prepared(tmp_path, train={"doubly_stochastic": 0.5}, **model)
    model, batch = prepared.model.train(), prepared.valid.ordered(4)[0]
    losses = prepared.objective()(model, batch)
    with watch(model) as views:
        model(batch.pixels, batch.target_in, batch.target_of)
    (view,) = [view for (name, _), view in views.items() if name == "decoder.cross"]
    wanted = doubly_stochastic(view.weights().mean(dim=1), batch.target_out != PAD_ID)
    assert losses.sums["doubly_stochastic"].item() == pytest.approx(0.5 * wanted.item(), rel=1e-4)
    assert losses.counts["doubly_stochastic"] == len(batch.target)
    losses.sums["doubly_stochastic"].backward()
    assert any(p.grad is not None and p.grad.any() for p in model.encoder.parameters())
    plain = CaptionLoss(captioning_recipe(tmp_path / "again"))(model, batch)
    assert losses.sums["cross_entropy"].item() == pytest.approx(plain.total.item(), rel=1e-5)
    assert "doubly_stochastic" not in prepared.objective()(model.eval(), batch).sums


@pytest.mark.parametrize("model", [{}, TRANSFORMER, {"decoder": "tell"}, {"normaliser": "hard"}])
def test_concepts_are_the_words_of_all_captions_of_a_picture(tmp_path, model):
    """By loops: log mean exp of a word's votes, and whether any caption has the word."""
    prepared = _prepared(tmp_path, concepts=0.5, **model)
    model, batch = prepared.model.train(), prepared.valid.ordered(4)[0]
    losses = prepared.objective()(model, batch)
    grids, head, wanted = model.encoder(batch.pixels).detach(), model.concepts, 0.0
    for picture, grid in enumerate(grids):
        rows = batch.target[batch.target_of == picture]
        for word in range(3, prepared.tokenizer.n_vocab):  # padding, begin and end are no words
            votes = (grid @ head.weight[word] + head.bias[word]).tolist()
            chance = 1 / (1 + 1 / np.mean(np.exp(votes)))
            wanted -= np.log(chance if (rows == word).any() else 1 - chance)
    assert losses.sums["concepts"].item() == pytest.approx(0.5 * wanted, rel=1e-4)
    losses.sums["concepts"].backward()
    assert any(p.grad is not None and p.grad.any() for p in model.encoder.parameters())
    assert "concepts" not in prepared.objective()(model.eval(), batch).sums


@pytest.mark.parametrize("model", [{"normaliser": "hard"}, {"decoder": "tell"}])
def test_the_term_is_refused_where_no_weights_learn_by_it(tmp_path, model):
    with pytest.raises(ConfigError, match="doubly_stochastic is for soft attention"):
        _prepared(tmp_path, train={"doubly_stochastic": 1.0}, **model)


def test_hard_attention_learns_by_reinforce(tmp_path):
    prepared = _prepared(tmp_path, normaliser="hard")
    objective, batch = prepared.objective(), prepared.valid.ordered(4)[0]
    losses = objective(prepared.model.train(), batch)
    assert set(losses.sums) == {"cross_entropy", "reinforce"}
    losses.sums["reinforce"].backward()
    assert prepared.model.decoder.cross_attention.score.v.grad.any()
    assert objective.state()["baseline"]["mean"] is not None


def test_what_words_are_forced_may_be_the_models_own(tmp_path):
    prepared = _prepared(tmp_path, train={"teacher_forcing": 0.0})
    batch = prepared.valid.ordered(4)[0]
    free = prepared.objective()(prepared.model.train(), batch)
    assert free.total.item() != pytest.approx(
        prepared.objective()(prepared.model.eval(), batch).total.item(), rel=1e-6
    )


def test_flops_count_a_picture_once(tmp_path):
    prepared = _prepared(tmp_path)
    one, batch = prepared.valid.batch(np.array([1])), prepared.valid.ordered(4)[0]
    assert batch.target.shape[1] == one.target.shape[1] == 7
    assert prepared.flops(batch) == pytest.approx(4 * prepared.flops(one))
    whole = prepared.formula.training(one.pixels, one.target_in[:1])
    assert whole < prepared.flops(one) < 2 * whole


def test_a_killed_training_goes_on_as_if_it_never_stopped(tmp_path, folder):
    recipe = captioning_recipe(tmp_path / "data")
    begun = recipe.model_copy(update={"train": recipe.train.model_copy(update={"max_steps": 120})})
    out = tmp_path / "run"
    train(begun, out, device="cpu")
    config = (out / "config.yaml").read_text().replace("max_steps: 120", "max_steps: 240")
    (out / "config.yaml").write_text(config)
    (out / "scores.json").unlink()
    train(recipe, out, device="cpu", resume=True)
    assert (out / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


# ------------------------------------------------------------------ what a run says


def test_it_learned_to_tell_one_from_two(run):
    said = run.caption([scene(9000 + k, 1 + k % 2) for k in range(8)])
    right = sum(text in SAID[1 + k % 2] for k, text in enumerate(said))
    assert right >= 7


def test_captions_come_one_many_or_several(run):
    one, other = scene(5, 1), scene(6, 2)
    assert run.caption(one) == run.caption([other, one])[1] == run.caption(one, beam=1)
    best, second = run.caption(one, n_best=2, with_scores=True)
    assert best.score >= second.score
    assert best.text != second.text
    assert "".join(run.stream(one)) == run.caption(one, beam=1)
    drawn = [run.caption(one, temperature=3.0, seed=seed) for seed in (1, 1, 2, 3, 4)]
    assert drawn[0] == drawn[1]
    assert len({*drawn}) > 1
    with pytest.raises(ConfigError, match="n_best=2"):
        run.caption(one, beam=1, n_best=2)


def test_a_score_is_the_sum_of_a_plain_forward(run):
    picture, text = scene(5, 1), "there is one square"
    ids = run.tokenizer.encode(text)
    pixels = torch.from_numpy(picture.copy()).permute(2, 0, 1)[None]
    logits = run.model(pixels, torch.tensor([[1, *ids]]))[0].log_softmax(dim=-1)
    wanted = sum(logits[t, number].item() for t, number in enumerate([*ids, 2]))
    assert run.score(picture, text) == pytest.approx(wanted, rel=1e-5)
    both = run.score([picture, picture], [text, "two squares"])
    assert both[0] == pytest.approx(wanted, rel=1e-4)
    with pytest.raises(DataError, match="2 pictures but 1 captions"):
        run.score([picture, picture], [text])


def test_a_look_has_a_row_a_word_and_a_column_a_patch(run):
    picture = scene(5, 1)
    look = run.explain(picture)
    words = (*run.tokenizer.tokens(run.tokenizer.encode(look.answer)), "</s>")
    assert look.target_tokens == words
    assert look.weights("decoder.cross").shape == (1, len(words), 16)
    shown = look.as_json()
    assert shown["sides"]["source"]["grid"] == [4, 4]
    assert shown["task"] == "captioning"
    assert len(shown["gates"]) == len(words)
    assert all(0 < beta < 1 for beta in shown["gates"])
    assert "drawn" not in shown
    given = run.explain(picture, "two squares")
    assert given.answer == "two squares"
    assert given.target_tokens == ("two", "squares", "</s>")


def test_gates_are_those_of_the_look_itself(run):
    """Once more by hand, step by step."""
    picture = scene(6, 2)
    look = run.explain(picture, "two squares")
    model, decoder = run.model, run.model.decoder
    pixels = torch.from_numpy(picture.copy()).permute(2, 0, 1)[None]
    with torch.no_grad():
        memory = model.encode(pixels)
        state, found = model.start(memory), []
        for number in (1, *run.tokenizer.encode("two squares")):
            found.append(decoder.gate(state.h).item())
            _, state = model.step(torch.tensor([number]), memory, state)
    np.testing.assert_allclose(look.gates, found, rtol=1e-5)


def test_a_word_can_be_forced_and_a_swap_cannot(run):
    picture = scene(5, 1)
    look = run.explain(picture, edit={"kind": "force_token", "position": 0, "token": "two"})
    assert look.target_tokens[0] == "two"
    with pytest.raises(ConfigError, match="a picture has no words"):
        run.explain(picture, edit={"kind": "swap", "first": 0, "second": 1})
    hidden = run.explain(picture, "two squares", {"kind": "occlude", "row": 0, "column": 0})
    assert (hidden.picture != picture).any()
    plain = run.explain(picture, "two squares")
    assert not np.array_equal(hidden.weights("decoder.cross"), plain.weights("decoder.cross"))
    tree = run.beam(picture, n_beams=3)
    assert run.tokenizer.decode(run.tokenizer.encode(" ".join(tree.best[:-1]))) in run.caption(
        picture, n_best=3
    )


def test_hard_attention_tells_which_patch_it_took(tmp_path):
    run = regard.load(captioning_run(tmp_path, normaliser="hard", train={"max_steps": 2}))
    look = run.explain(scene(5, 1))
    weights = look.weights("decoder.cross")[0]
    assert look.drawn == tuple(weights.argmax(axis=1))
    assert look.payload()["drawn"] == list(look.drawn)
    assert (weights.max(axis=1) == 1).all()


def test_heads_are_measured(run):
    subject = TASKS["captioning"].subject(run, "valid", 6)
    assert subject.n == 6
    (reading,) = subject.readings()
    rows, columns = reading.ids("decoder.cross")
    assert rows.shape == reading.inputs[1].shape
    assert columns.shape == (6, 16)
    assert {"loss", "bleu"} <= subject.judge().keys()
    assert subject.known() == {"pointing": {}}
    found = measured(run, subject)
    (row,) = found.rows
    assert (row["name"], row["layer"], row["head"]) == ("decoder.cross", 0, 0)
    assert row["loss_change"] != 0
    assert "cross" in str(found)


def test_evaluation_takes_a_beam_and_no_stride(run):
    task = TASKS["captioning"]
    found = task.evaluate(run, "valid", beam=2)
    assert found.scores["n"] == 8
    assert found.outputs == run.caption(
        [one.picture for one in task.load_data(run.recipe).split("valid")], beam=2
    )
    assert {"bleu", "cider", "rouge_l_coco", "meteor_stem", "loss"} <= found.scores.keys()
    assert "true_captions" not in found.scores
    page = (run.folder.path / "gallery.html").read_text()
    assert str(run.folder.path / "gallery.html") in found.notes[-1]
    assert page.count("<article") == 8
    assert all(text in page for text in found.outputs)
    with pytest.raises(ConfigError, match="--stride"):
        task.evaluate(run, "valid", stride=3)


# ------------------------------------------------------------------ scenes


def test_true_captions_are_counted(scenes):
    said = [one.captions[0] for one in scenes]
    claims = caption_scores.understood(scenes, said, "en")
    assert caption_scores.share_true(scenes, claims) == 1.0
    wrong = ["five things", "a a star", *said[2:]]
    claims = caption_scores.understood(scenes, wrong, "en")
    assert claims[1] is None
    n_five = len(scenes[0].picture.scene.objects) == 5
    assert caption_scores.share_true(scenes, claims) == (10 + n_five) / 12
    files = [CaptionedPicture(picture=scene(1), captions=("a",))]
    assert caption_scores.understood(files, ["a"], "en") is None


def test_words_of_colours_and_shapes_know_their_rows_and_objects(scenes, run):
    said = [one.captions[0] for one in scenes]
    claims = caption_scores.understood(scenes, said, "en")
    found = list(caption_scores.seen_words(scenes, claims, run.tokenizer, "en"))
    wanted = 0
    for number, (one, text) in enumerate(zip(scenes, said, strict=True)):
        caption = one.picture.captions["en"][0]
        masks = one.picture.masks()
        for place, word in enumerate(text.split()):
            if word in looked_for("en"):
                mine = [x for x in found if (x.example, x.row) == (number, place)]
                assert len(mine) == 1
                expected = np.zeros((64, 64), bool)
                for i in caption.about[place]:
                    expected |= masks[i]
                np.testing.assert_array_equal(mine[0].mask, expected)
                wanted += 1
    assert len(found) == wanted > 0


def test_whoever_looks_at_the_object_points_right(scenes, run, monkeypatch):
    """Maps are made by hand: all weight on a patch of the word's object, or nowhere near it."""
    said = [one.captions[0] for one in scenes]
    claims = caption_scores.understood(scenes, said, "en")
    found = list(caption_scores.seen_words(scenes, claims, run.tokenizer, "en"))
    seen = [0]

    def weights(_run, pixels, targets):
        made = np.zeros((len(pixels), 1, targets.shape[1] - 1, 16), np.float32)
        for word in found:
            at = word.example - seen[0]
            if 0 <= at < len(pixels):
                tiles = word.mask.reshape(4, 16, 4, 16).mean(axis=(1, 3)).flatten()
                made[at, 0, word.row, (tiles if right else -tiles).argmax()] = 1
        seen[0] += len(pixels)
        return made

    monkeypatch.setattr(caption_scores, "_weights", weights)
    for right in (True, False):
        seen[0] = 0
        scores = caption_scores.looking_scores(run, scenes, said, claims)
        assert scores["pointing_accuracy"] == float(right)
        assert scores["n_words"] == len(found)


class Says:
    """A run that says what it is told to."""

    def __init__(self, run, said):
        self.run, self.said = run, said

    def caption(self, _pictures, **_how):
        return self.said

    def __getattr__(self, name):
        return getattr(self.run, name)


def test_scenes_are_scored_whole(scenes, run):
    said = [one.captions[0] for one in scenes]
    scores = caption_scores.caption_scores(Says(run, said), scenes, said)
    assert scores["true_captions"] == 1.0
    assert scores["bleu"] == pytest.approx(100)
    names = ("pointing_accuracy", "mass_inside", "rank_correlation")
    assert {f"{name}{of}" for name in names for of in ("", "_shuffled", "_centre")} <= scores.keys()
    by_head = caption_scores.pointing_by_head(Says(run, said), scenes)
    assert by_head == {"decoder.cross layer 0 head 0": scores["pointing_accuracy"]}
    own = run.scored(scenes, "test")
    claims = [claim_of(text, "en") for text in own.outputs]
    true = [
        claim is not None and claim.is_true(one.picture.scene)
        for claim, one in zip(claims, scenes, strict=True)
    ]
    assert own.scores["true_captions"] == sum(true) / 12
