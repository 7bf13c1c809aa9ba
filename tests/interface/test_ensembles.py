"""Several runs as one: from Python, on the command line, over HTTP."""

import json
import math
import urllib.error
import urllib.request
from dataclasses import replace

import numpy as np
import pytest
import torch
from letters import pairs, write_pairs
from systems import untrained

import regard
from regard.cli.main import main
from regard.inspection.capture import attentions
from regard.runs.train import train
from regard.tasks.base import TASKS
from regard.tasks.ensembles import ensemble_of
from regard.tasks.recipe import recipe_from
from regard.tasks.translator import copies
from regard.text.specials import BEGIN_ID, END_ID, UNKNOWN_ID


@pytest.fixture(scope="module")
def trained(settings, tmp_path_factory):
    """Trains a few steps, with other sections; -> the folder."""

    def make(name, **sections):
        out = tmp_path_factory.mktemp("ensembles") / name
        few = {**settings["train"], "max_steps": 2}
        train(recipe_from({**settings, "train": few, **sections}), out, test_sets=())
        return out

    return make


@pytest.fixture(scope="module")
def recurrent(trained):
    """A run of another family that knows the same words."""
    return trained("recurrent", model={"preset": "luong2015", "d_model": 20})


def test_one_run_is_itself(run_path):
    run = regard.load([run_path])
    assert type(run) is regard.Run
    assert run.score("a b", "b a") == regard.load(run_path).score("a b", "b a")


def test_a_text_is_scored_by_the_mean_of_all_probabilities(run_path, recurrent):
    both = regard.load([run_path, recurrent])
    runs = [regard.load(run_path), regard.load(recurrent)]
    tokens = [run.token_scores(["a b c"], ["c b"])[0].log_probs.double().exp() for run in runs]
    wanted = float(((tokens[0] + tokens[1]) / 2).log().sum())
    assert both.score("a b c", "c b") == pytest.approx(wanted, abs=1e-5)
    assert math.exp(both.score("a", "a")) <= max(math.exp(run.score("a", "a")) for run in runs)


@pytest.mark.parametrize("beam", [1, 3])
def test_two_equal_runs_translate_as_the_run_does(run_path, beam):
    texts = ["a b c", "d", "e f g h a"]
    one, both = regard.load(run_path), regard.load([run_path, run_path])
    assert both.translate(texts, beam=beam) == one.translate(texts, beam=beam)
    assert both.translate(texts, beam=3, n_best=2) == one.translate(texts, beam=3, n_best=2)


def test_an_ensemble_streams_samples_and_begins_as_it_is_told(run_path, recurrent):
    both = regard.load([run_path, recurrent])
    assert "".join(both.stream("a b c")) == both.translate("a b c", beam=1)
    assert both.translate("a b", prefix="c d").startswith("c d")
    assert both.translate("a b", temperature=1.0, seed=4) == both.translate(
        "a b", temperature=1.0, seed=4
    )
    assert both.beam("a b", n_beams=2).best


def covering(run):
    settings = run.recipe.decode.model_copy(update={"coverage_penalty": 0.4, "beam": 3})
    return replace(run, recipe=run.recipe.model_copy(update={"decode": settings}))


def test_coverage_goes_by_the_mean_of_the_attentions(run_path, recurrent):
    one, same = covering(regard.load(run_path)), covering(regard.load([run_path, run_path]))
    texts = ["a b c", "d e f g"]
    for ours, theirs in zip(
        same.translate(texts, with_scores=True), one.translate(texts, with_scores=True), strict=True
    ):
        assert ours.text == theirs.text
        assert ours.score == pytest.approx(theirs.score, abs=1e-5)
    both = covering(regard.load([run_path, recurrent]))
    ((best,),) = both.hypotheses(["a b c"])
    written = torch.tensor([[BEGIN_ID, *best.ids]])
    read = torch.tensor([[*both.tokenizers.source.encode("a b c"), END_ID]])
    looks = [
        np.mean(np.concatenate(attentions(model, read, written)["decoder.cross"]), axis=0)
        for model in both.model.members
    ]
    total = np.mean(looks, axis=0).sum(axis=0)  # of each source token
    n = len(best.ids) + best.finished
    length = best.log_prob / ((5 + n) / 6) ** both.recipe.decode.length_penalty
    penalty = 0.4 * np.log(np.clip(total, 1e-6, 1.0)).sum()
    assert (best.finished, penalty < -0.01) == (True, True)
    assert best.score == pytest.approx(length + penalty, abs=1e-4)


def test_unknown_words_are_copied_from_where_all_members_look_on_the_whole():
    runs = [untrained("luong2015"), untrained("transformer"), untrained("sutskever2014")]
    reader, source = runs[0].tokenizers.source, "a b c d e f g h"
    written = [4, UNKNOWN_ID, 5, UNKNOWN_ID]
    read = torch.tensor([[*reader.encode(source), END_ID]])
    target = torch.tensor([[BEGIN_ID, *written[:-1]]])
    looks = [
        np.concatenate(attentions(run.model, read, target)["decoder.cross"]).mean(axis=0)
        for run in runs[:2]
    ]
    best = np.mean(looks, axis=0)[[1, 3], :-1].argmax(axis=1)
    assert not np.array_equal(best, looks[0][[1, 3], :-1].argmax(axis=1))
    said = copies(ensemble_of(runs).model, reader, source, written, torch.device("cpu"))
    assert said == [source.split()[i] for i in best]


def test_commands_take_several_runs(run, run_path, recurrent, tmp_path):
    both = regard.load([run_path, recurrent])
    code, out, _ = run("translate", run_path, recurrent, stdin="a b c\nd e\n")
    assert (code, out.splitlines()) == (0, both.translate(["a b c", "d e"]))
    code, out, _ = run("translate", run_path, recurrent, "d e", "--beam", 2)
    assert (code, out.splitlines()) == (0, [both.translate("d e", beam=2)])
    source, target = write_pairs(tmp_path, "some", [("a b", "b a"), ("c", "c")])
    code, out, _ = run("score", run_path, recurrent, "--source", source, "--target", target)
    wanted = both.score(["a b", "c"], ["b a", "c"])
    assert [float(line) for line in out.splitlines()] == pytest.approx(wanted, abs=1e-5)
    code, out, _ = run("evaluate", run_path, recurrent, "--split", "valid", "--json")
    scores = json.loads(out)
    assert (code, scores["n"], scores["split"]) == (0, 40, "valid")
    assert scores["perplexity"] == pytest.approx(perplexity(both, pairs(40, 2)), rel=1e-4)
    tsv = tmp_path / "mine.tsv"
    tsv.write_text("a b\tb a\n")
    code, out, _ = run("evaluate", run_path, recurrent, tsv, "--json")
    assert (code, json.loads(out)["n"]) == (0, 1)


def perplexity(run, some):
    judged = run.token_scores(*map(list, zip(*some, strict=True)))
    n = sum(len(one.right) for one in judged)
    return math.exp(-sum(float(one.log_probs.sum()) for one in judged) / n)


def test_an_ensemble_is_served(serving, run_path, recurrent):
    both = regard.load([run_path, recurrent])
    address = serving(both)

    def ask(path, **body):
        data = json.dumps(body).encode() if body else None
        asked = urllib.request.Request(address + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=20) as answer:
            return json.loads(answer.read())

    said = ask("/translate", q="a b c", source="ab", target="ba")["translatedText"]
    assert said == both.translate("a b c")
    info = ask("/api/info")
    assert (info["name"], info["attentions"]) == ("short + recurrent", [])
    assert info["form"]["views"] == ["beam"]
    with pytest.raises(urllib.error.HTTPError) as refusal:
        ask("/api/explain", source="a b c")
    assert refusal.value.code == 422
    assert "each run of an ensemble" in refusal.value.read().decode()


def test_looks_belong_to_the_members(run_path, recurrent):
    both = regard.load([run_path, recurrent])
    with pytest.raises(regard.ConfigError, match=f"look into one of {run_path}, {recurrent}"):
        both.explain("a b c")
    assert repr(both).count("<Run ") == 2


def test_other_vocabularies_are_refused(refused, run_path, trained, settings, tmp_path):
    characters = trained("characters", text={"kind": "char"})
    assert refused("translate", run_path, characters) == (
        f"regard: the runs of an ensemble need the same target vocabulary, but {run_path} and "
        f"{characters} have 12 and 13 tokens; train them with the same data and text settings\n"
    )
    some = [(a.replace("h", "z"), b.replace("h", "z")) for a, b in pairs(300, 1)]
    files = {"train": write_pairs(tmp_path, "train", some), "direction": "ab-ba"}
    files |= {name: settings["data"][name] for name in ("valid", "test")}
    words = trained("words", data=files)
    line = refused("evaluate", run_path, words, "--split", "valid")
    assert f"{run_path} and {words} have different tokens, the first of them " in line
    reversed_ = trained("reversed", data={**settings["data"], "direction": "ba-ab"})
    assert "translate between the same languages" in refused("translate", run_path, reversed_)


def test_what_makes_no_ensemble_is_refused(refused, run_path, tmp_path):
    nowhere = tmp_path / "nowhere"
    assert "there is no run folder" in refused("serve", run_path, nowhere)
    line = refused("evaluate", run_path, run_path, nowhere, tmp_path / "more")
    assert line == (
        f"regard: {nowhere} is not a run folder, so {tmp_path / 'more'} is one too many: name "
        "runs, then one file\n"
    )
    with pytest.raises(regard.ConfigError, match="no run to load"):
        regard.load([])
    with pytest.raises(regard.ConfigError, match="runs of the task masked make no ensemble"):
        TASKS["masked"].ensemble([])
    text = f"a {'x' * 5000}"
    assert main(["translate", str(run_path), text]) == 0  # too long for a name: a text
