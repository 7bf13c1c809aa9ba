"""Text → ids → batches → model → training → run folder → decoding → scores."""

import dataclasses
import json

import pytest
import torch
import yaml

import regard
from regard.checkpoints.snapshots import SnapshotStore, load_snapshot
from regard.core.errors import DataError
from regard.decoding.settings import DecodeSettings
from regard.runs.train import train
from regard.tasks.recipe import recipe_from


def test_a_run_folder_holds_what_it_should(run_path):
    names = {path.name for path in run_path.iterdir()}
    assert names >= {
        "config.yaml", "config.json", "model.safetensors", "tokenizer.json", "metrics.jsonl",
        "tensorboard", "checkpoints", "report.html", "scores.json", "examples.json",
    }  # fmt: skip
    lines = [json.loads(line) for line in (run_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "train"] == [5, 10, 15, 20, 25, 30]
    assert [line["step"] for line in lines if line["kind"] == "valid"] == [15, 30]
    facts = json.loads((run_path / "scores.json").read_text())
    assert facts["measured"]["steps"] == 30
    assert facts["scores"]["test"]["n"] == 40
    assert facts["estimate"]["flops"] == pytest.approx(facts["measured"]["flops"], rel=0.3)


def test_the_settings_in_the_folder_repeat_the_run(run_path, tmp_path):
    recipe = recipe_from(yaml.safe_load((run_path / "config.yaml").read_text()))
    train(recipe, tmp_path / "again")
    weights = (run_path / "model.safetensors").read_bytes()
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == weights


def test_translate_takes_a_text_or_a_list(run_path):
    run = regard.load(run_path)
    one = run.translate("a b c")
    assert isinstance(one, str)
    assert run.translate(["a b c", "", "d e"])[:2] == [one, ""]
    best = run.translate(["a b c"], beam=4, n_best=2, with_scores=True)[0]
    assert len(best) == 2
    assert best[0].score >= best[1].score
    assert best[0].text != best[1].text


def test_what_shares_a_batch_changes_no_translation(run_path):
    run = regard.load(run_path)
    texts = ["a b c", "a", "h g f e d", "b b", "c a d"]
    together = run.translate(texts, beam=3, with_scores=True)
    for text, (translation, score) in zip(texts, together, strict=True):
        alone = run.translate(text, beam=3, with_scores=True)
        assert alone.text == translation
        assert alone.score == pytest.approx(score, abs=1e-4)


def test_scores_of_translations_are_found_again(run_path):
    """The score that a search reports is the log-probability that ``score`` gives."""
    run = regard.load(run_path)
    texts = ["a b c", "d e"]
    for text, hypotheses in zip(texts, run.hypotheses(texts, beam=3, n_best=3), strict=True):
        for hypothesis in hypotheses:
            if hypothesis.finished:
                target = run.tokenizers.target.decode(hypothesis.ids)
                assert run.score([text], [target])[0] == pytest.approx(
                    hypothesis.log_prob, abs=1e-4
                )


def test_probabilities_of_all_targets_sum_to_one(run_path):
    run = regard.load(run_path)
    source = torch.tensor([[*run.tokenizers.source.encode("a b"), 2]])
    logits = run.model(source, torch.tensor([[1]]))[0, 0]
    first = logits.log_softmax(-1)
    tokens = run.token_scores(["a b"], ["c"])[0].log_probs
    assert tokens[0].item() == pytest.approx(
        first[run.tokenizers.target.encode("c")[0]].item(), abs=1e-5
    )
    assert len(tokens) == 2  # the word and the end


def test_what_shares_a_batch_changes_no_score(run_path):
    run = regard.load(run_path)
    sources, targets = ["a b c", "d", "e f g h a"], ["c b a", "d d d d", "a"]
    together = run.token_scores(sources, targets)
    for source, target, one in zip(sources, targets, together, strict=True):
        (alone,) = run.token_scores([source], [target])
        assert len(one.log_probs) == len(one.right) == len(target.split()) + 1
        torch.testing.assert_close(one.log_probs, alone.log_probs, atol=1e-5, rtol=0)
        assert torch.equal(one.right, alone.right)


def test_two_texts_have_one_score(run_path):
    run = regard.load(run_path)
    assert run.score("a b", "b a") == run.score(["a b"], ["b a"])[0]


@pytest.mark.parametrize("texts", [None, 5, ["a", 3], b"a"])
def test_what_is_no_text_is_refused(run_path, texts):
    run = regard.load(run_path)
    with pytest.raises(DataError, match="expected a text or a list of texts, found"):
        run.translate(texts)
    with pytest.raises(DataError, match="expected a text|takes two texts"):
        run.score(texts, "a")
    with pytest.raises(DataError, match="expected a text, found"):
        run.explain(texts)


def test_the_architecture_is_there_before_the_first_validation(settings, tmp_path):
    run, seen = tmp_path / "run", []
    train(recipe_from(settings), run, observers=[lambda _: seen.append(set(run.iterdir()))])
    assert run / "config.json" in seen[0]
    assert run / "model.safetensors" not in seen[0]


def test_an_unequal_number_of_targets_is_refused(run_path):
    with pytest.raises(regard.DataError, match="2 sources but 1 targets"):
        regard.load(run_path).score(["a", "b"], ["a"])


def test_the_weights_of_a_run_are_those_of_its_best_step(run_path):
    facts = json.loads((run_path / "scores.json").read_text())
    store = SnapshotStore(run_path / "checkpoints")
    best = load_snapshot(store.path(facts["measured"]["best_step"])).part("model/")
    for name, parameter in regard.load(run_path).model.named_parameters():
        assert torch.equal(parameter, best[name])


def test_loading_leaves_the_callers_generator_alone(run_path):
    state = torch.get_rng_state()
    regard.load(run_path)
    assert torch.equal(torch.get_rng_state(), state)


def test_nothing_gives_nothing(run_path):
    run = regard.load(run_path)
    assert run.translate([]) == []
    assert run.translate("") == ""
    assert run.translate(["", " "]) == ["", ""]


def test_greedy_and_beam_scores_compare(settings, run_path):
    """With a penalty of 0 a score is the log-probability, however it was searched for."""
    run = regard.load(run_path)
    flat = dataclasses.replace(
        run, recipe=run.recipe.model_copy(update={"decode": DecodeSettings(length_penalty=0)})
    )
    for beam in (1, 2):
        (best,) = flat.hypotheses(["a b c"], beam=beam)[0]
        assert best.score == pytest.approx(best.log_prob)
    with pytest.raises(regard.ConfigError, match="beam=0"):
        run.translate("a", beam=0)


@pytest.mark.slow
def test_it_learns_to_reverse(settings, tmp_path):
    longer = {"max_steps": 600, "eval_every": 300, "save_every": 600, "schedule": "linear"}
    recipe = recipe_from({**settings, "train": {**settings["train"], **longer, "lr": 4e-3}})
    trained = train(recipe, tmp_path / "run")
    assert trained.evaluations["test"].scores["exact_match"] >= 0.9
    assert trained.run.translate("a b c d") == "d c b a"


@pytest.mark.parametrize(
    "changes",
    [
        {"text": {"kind": "char"}},
        {"text": {"kind": "bpe", "vocab_size": 280}},
        {"text": {"kind": "word", "shared": False}},
        {"model": {"score": "additive", "positions": "learned", "norm_first": True}},
        {"model": {"window": "local_p", "positions": "index"}},
        {"model": {"normaliser": "hard"}},
        {
            "model": {
                "preset": "bahdanau2015",
                "normaliser": "hard",
                "n_heads": None,
                "d_ff": None,
            },
            "train": {"teacher_forcing": {"start": 1.0, "end": 0.5, "steps": 2}},
        },
        {"train": {"precision": "bf16", "average": 0.9, "accumulate": 2, "criterion": "bleu"}},
    ],
    ids=str,
)
def test_every_kind_of_setting_goes_the_whole_way(settings, tmp_path, changes):
    mixed = {
        section: {**inside, **changes.get(section, {})} for section, inside in settings.items()
    }
    mixed["train"] = {**mixed["train"], "max_steps": 4, "eval_every": 4}
    trained = train(recipe_from(mixed), tmp_path / "run")
    again = regard.load(tmp_path / "run")
    assert again.translate(["a b"]) == trained.run.translate(["a b"])
    assert 0 <= trained.evaluations["test"].scores["exact_match"] <= 1


def test_init_starts_from_the_weights_of_a_run(settings, run_path, tmp_path):
    mixed = {**settings, "train": {**settings["train"], "max_steps": 1, "lr": 1e-12}}
    mixed["train"]["init"] = str(run_path)
    train(recipe_from(mixed), tmp_path / "run")
    old, new = regard.load(run_path).model, regard.load(tmp_path / "run").model
    for a, b in zip(old.parameters(), new.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_init_brings_its_tokenizers(settings, run_path, tmp_path, corpus):
    """Other text would give other ids, with which the old weights mean nothing."""
    turned = {**settings["data"], "train": list(reversed(corpus["train"]))}
    mixed = {**settings, "data": turned, "train": {**settings["train"], "max_steps": 1}}
    mixed["train"]["init"] = str(run_path)
    train(recipe_from(mixed), tmp_path / "run")
    old, new = (path / "tokenizer.json" for path in (run_path, tmp_path / "run"))
    assert old.read_text() == new.read_text()


def test_what_is_too_long_for_learned_positions_counts_as_not_translated(settings, tmp_path):
    short = {"positions": "learned", "max_len": 5}
    mixed = {**settings, "model": {**settings["model"], **short}}
    mixed["train"] = {**settings["train"], "max_steps": 2}
    trained = train(recipe_from(mixed), tmp_path / "run")
    scores = trained.evaluations["test"].scores
    assert 0 < scores["too_long"] < 40
    assert scores["n"] == 40
    assert (tmp_path / "run" / "scores.json").exists()


def test_without_a_test_set_valid_is_scored(settings, tmp_path):
    mixed = {**settings, "data": {**settings["data"], "test": None}}
    mixed["train"] = {**settings["train"], "max_steps": 2}
    trained = train(recipe_from(mixed), tmp_path / "run")
    assert list(trained.evaluations) == ["valid"]
    assert "BLEU" in (tmp_path / "run" / "report.html").read_text()
