"""Runs of translators and of language models generate by the same rules, told in the same words."""

from pathlib import Path

import pytest
import torch
from language_models import language_model
from systems import untrained

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import ConfigError
from regard.data.settings import DataSettings
from regard.decoding.greedy import token_steps
from regard.fast.quick import PLAIN
from regard.fast.transformer_cpu import CpuTransformer
from regard.interop.ctranslate2_engine import engine_for
from regard.runs.train import train
from regard.tasks import generation, translating
from regard.tasks.generation import framing_for
from regard.tasks.recipe import recipe_from
from regard.tasks.writer import Writer
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer

TEXTS = ["a b c", "d e f g h", "h a"]


def translator(preset="transformer", **decode):
    run = untrained(preset, decode=decode)
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in run.model.parameters():
            weight += 0.3 * torch.randn_like(weight)
    return run


def writer(**decode):
    tokenizer = Tokenizer.train(["the sea is open", "is it the sea"] * 3, TextSettings(kind="word"))
    raw = {
        "task": "language",
        "data": {"train": "texts.txt"},
        "model": {"preset": "gpt"},
        "train": {"max_steps": 1},
        "decode": decode,
    }
    model = language_model(n_vocab=tokenizer.n_vocab, max_len=40)
    framing = framing_for(tokenizer, DataSettings(train="texts.txt"))
    return Writer(RunFolder(Path("nowhere")), recipe_from(raw), framing, model, torch.device("cpu"))


def asked(run, texts, **how):
    if isinstance(run, Writer):
        return run.generate(texts, max_new=8, **how)
    return run.translate(texts, **how)


both = pytest.mark.parametrize("make", [translator, writer])


@both
def test_seeds_decide_what_is_sampled(make):
    run = make()
    first, again, other = (
        asked(run, ["a b", "c d e"], temperature=1.5, seed=seed) for seed in (3, 3, 4)
    )
    assert first == again != other
    assert asked(make(seed=3), ["a b"], temperature=1.5, seed=3) == first[:1]


@both
def test_what_shares_a_batch_changes_no_sample(make):
    run = make()
    many = asked(run, ["a b", "c d e", "a"], temperature=1.5, seed=3)
    assert asked(run, ["a b"], temperature=1.5, seed=3) == many[:1]


@both
def test_the_recipe_may_ask_for_sampling_and_an_argument_for_a_beam(make):
    run = make(temperature=2.0, top_k=9, seed=5)
    assert asked(run, "a b") == asked(make(), "a b", temperature=2.0, top_k=9, seed=5)
    assert asked(run, "a b", beam=3) == asked(make(), "a b", beam=3)


@both
def test_top_1_and_temperature_0_are_greedy(make):
    run = make()
    best = asked(run, ["a b", "c"], beam=1)
    assert asked(run, ["a b", "c"], top_k=1) == best
    assert asked(run, ["a b", "c"], temperature=0.0) == best


@both
def test_the_n_best_of_a_beam_come_with_their_scores(make):
    run = make()
    (found,) = asked(run, ["a b"], beam=4, n_best=3, with_scores=True)
    assert len(found) == len({one.text for one in found}) == 3
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert asked(run, "a b", beam=4) == found[0].text
    assert len(asked(run, "a b", n_best=2)) == 2


@both
def test_several_samples_of_one_text_differ(make):
    how = {"n": 4} if make is writer else {"n_best": 4}
    (found,) = asked(make(), ["a b"], temperature=2.0, seed=1, **how)
    assert len(found) == 4
    assert len(set(found)) > 1


@both
@pytest.mark.parametrize("sampling", [{"temperature": 0.7}, {"top_k": 3}, {"top_p": 0.5}])
def test_sampling_with_a_beam_is_refused_in_one_line(make, sampling):
    with pytest.raises(ConfigError, match=r"^sampling keeps no beam: leave out beam=4, or temp.*$"):
        asked(make(), "a", beam=4, **sampling)


@both
def test_a_beam_wider_than_the_vocabulary_is_refused_in_one_line(make):
    with pytest.raises(ConfigError, match=r"^a beam of 99 is wider than the vocabulary of \d+ tok"):
        asked(make(), "a", beam=99)


@both
@pytest.mark.parametrize("how", [{"beam": 1}, {"beam": 3}, {"temperature": 1.5, "seed": 2}])
def test_stop_words_end_a_text_before_them(make, how):
    run = make()
    whole = asked(run, "a b", **how)
    word = whole.split()[1]
    cut = asked(run, "a b", stop=[word], **how)
    assert word not in cut.split()
    if how != {"beam": 3}:  # a search may then find another one better
        assert cut == whole[: whole.index(word)] or cut.strip() == whole.split()[0]
    with pytest.raises(ConfigError, match="an empty stop"):
        asked(run, "a b", stop=[""])


def test_a_translation_comes_in_pieces():
    run = translator(max_len=9)
    assert "".join(run.stream("a b c")) == run.translate("a b c", beam=1)
    sampled = "".join(run.stream("a b c", temperature=2.0, seed=4))
    assert sampled == run.translate("a b c", temperature=2.0, seed=4)
    word = sampled.split()[1]
    cut = "".join(run.stream("a b c", temperature=2.0, seed=4, stop=word))
    assert cut == sampled[: sampled.index(word)]
    assert list(run.stream("")) == []


def test_a_beam_cannot_be_streamed():
    run = writer(beam=3)
    with pytest.raises(ConfigError, match="no text before its end"):
        list(run.stream("the sea"))


@pytest.mark.parametrize("preset", ["transformer", "bahdanau2015"])
def test_a_coverage_penalty_lowers_scores_and_leaves_no_hook(preset):
    plain, covered = translator(preset, beam=4), translator(preset, beam=4, coverage_penalty=0.5)
    before = plain.hypotheses(TEXTS, n_best=4)
    after = covered.hypotheses(TEXTS, n_best=4)
    scores = {
        (i, one.ids): one.score
        for i, several in enumerate(before)
        for one in several
        if one.finished
    }
    shared = [
        (one.score, scores[i, one.ids])
        for i, several in enumerate(after)
        for one in several
        if one.finished and (i, one.ids) in scores
    ]
    assert shared
    assert all(mine < theirs for mine, theirs in shared)
    assert not any(module._forward_hooks for module in covered.model.modules())


def test_a_coverage_penalty_needs_attention():
    run = translator("sutskever2014", beam=2, coverage_penalty=0.5)
    with pytest.raises(ConfigError, match="needs attention to the source, and this model has none"):
        run.translate("a b")


@pytest.mark.parametrize("preset", ["sutskever2014", "bytenet2016"])
@pytest.mark.parametrize("asked", [{"coverage_penalty": 0.2, "beam": 2}, {"replace_unknown": True}])
def test_what_goes_by_attention_is_refused_before_the_training(settings, tmp_path, preset, asked):
    sections = {**settings, "model": {"preset": preset, "d_model": 16}, "decode": asked}
    with pytest.raises(ConfigError, match=f"decode.{next(iter(asked))} needs attention to the"):
        train(recipe_from(sections), tmp_path / "run")
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


@pytest.mark.parametrize("why", ["environment", "recipe"])
def test_plain_layers_are_run_everywhere_where_somebody_asks_for_them(monkeypatch, why):
    fast = {} if why == "environment" else {"fast": False}
    run, writes = translator(**fast), writer(**fast)
    used = []

    def watched(model, *args, **how):
        used.append(model)
        return token_steps(model, *args, **how)

    wanted = [run.translate(TEXTS, beam=beam) for beam in (1, 3)]
    if why == "environment":
        monkeypatch.setenv(PLAIN, "1")
    search = translating.beam_search
    monkeypatch.setattr(
        translating, "beam_search",
        lambda model, *args, **how: used.append(model) or search(model, *args, **how),
    )  # fmt: skip
    monkeypatch.setattr(generation, "token_steps", watched)
    assert [run.translate(TEXTS, beam=beam) for beam in (1, 3)] == wanted
    assert all(model is run.model for model in used)
    assert len(used) == 2
    used.clear()
    list(writes.stream("the sea", max_new=3))
    assert used == [writes.model]
    assert writes.generator.quick is writes.model
    assert engine_for(run, "auto").func is translating.decode
    with pytest.raises(ConfigError, match="does not run the plain layers"):
        engine_for(run, "ctranslate2")


def test_else_they_are_not(monkeypatch):
    monkeypatch.delenv(PLAIN, raising=False)
    run, used, search = translator(), [], translating.beam_search
    monkeypatch.setattr(
        translating, "beam_search",
        lambda model, *args, **how: used.append(model) or search(model, *args, **how),
    )  # fmt: skip
    run.translate("a b")
    assert isinstance(used[0], CpuTransformer)
