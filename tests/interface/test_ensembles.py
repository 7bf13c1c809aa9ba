"""Several runs as one: from Python, on the command line, over HTTP."""

import itertools
import json
import math
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import replace

import numpy as np
import pytest
import torch
from letters import LETTERS, pairs, write_pairs
from systems import system, untrained

import regard
from regard.cli.main import main
from regard.decoding.hypothesis import Hypothesis
from regard.inspection.capture import attentions
from regard.runs.train import train
from regard.tasks.base import TASKS
from regard.tasks.ensembles import ensemble_of
from regard.tasks.opening import Tokenizers
from regard.tasks.recipe import recipe_from
from regard.tasks.translator import copies
from regard.tasks.verbs import check_source
from regard.text.settings import TextSettings
from regard.text.specials import BEGIN_ID, END_ID, UNKNOWN_ID
from regard.text.tokenizer import Tokenizer


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


def reading(preset, reader, **changes):
    """A run with random weights that reads with this tokenizer and writes the letters a to h."""
    run = untrained(preset, decode={"max_len": 100})
    n_vocab = run.tokenizers.target.n_vocab
    model = system(preset, n_vocab=n_vocab, n_source_vocab=reader.n_vocab, **changes)
    return replace(run, tokenizers=Tokenizers(reader, run.tokenizers.target), model=model)


def word_reader(text="a b c d e f g h"):
    return Tokenizer.train([text], TextSettings(kind="word"))


def letter_reader():
    """Reads signs one by one, spaces included."""
    return Tokenizer.train([" ".join(LETTERS)], TextSettings(kind="char"))


TABLES = {"luong2015": "encoder.tokens.weight", "transformer": "encoder.embedding.tokens.weight"}


@pytest.fixture(params=TABLES)
def relabelled(request):
    """A run, and the same with more source words in another order; their weights moved along."""
    run, name = reading(request.param, word_reader()), TABLES[request.param]
    reader = word_reader("z z z z h h h d d a b c e f g")
    other = reading(request.param, reader)
    ours, theirs = run.tokenizers.source.spelled(), reader.spelled()
    weights = run.model.state_dict()
    rows = [ours.index(token) if token in ours else 0 for token in theirs]
    other.model.load_state_dict({**weights, name: weights[name][rows]})
    assert (len(theirs), theirs[4:7]) == (len(ours) + 1, ["z", "h", "d"])
    return run, other


def test_each_member_reads_the_source_with_its_own_tokenizer(relabelled):
    one, same, both = relabelled[0], ensemble_of([relabelled[0]] * 2), ensemble_of(relabelled)
    texts, targets = ["a b c", "h", "", "e f x g h a"], ["c b", "", "a a", "d"]
    assert both.source_ids(["a h"]) != same.source_ids(["a h"])
    for how in (
        {"beam": 1},
        {"beam": 3},
        {"beam": 3, "n_best": 2},
        {"temperature": 1.0, "seed": 3},
    ):
        asked = {**how, "with_scores": True}
        found = both.translate(texts, **asked)
        assert found == same.translate(texts, **asked)
        alone = one.translate(texts, **asked)
        if "n_best" in how:
            found, alone = itertools.chain(*found), itertools.chain(*alone)
        found, alone = list(found), list(alone)
        assert [x.text for x in found] == [x.text for x in alone]
        assert [x.score for x in found] == pytest.approx([x.score for x in alone], abs=1e-5)
    assert both.score(texts, targets) == same.score(texts, targets)
    assert both.score(texts, targets) == pytest.approx(one.score(texts, targets), abs=1e-5)
    assert [*both.stream("a h")] == [*one.stream("a h")] != [*one.stream("d h")]
    assert both.beam("a d h", n_beams=2).tokens == one.beam("a d h", n_beams=2).tokens
    assert both.translate("a h", prefix="c d").startswith("c d")


def test_typed_signs_are_read_by_the_members_that_know_them():
    plain = word_reader().reading_plain()
    both = ensemble_of([reading("luong2015", word_reader()), reading("luong2015", plain)])
    assert both.source_ids(["A b."]) == [[UNKNOWN_ID, 5, UNKNOWN_ID, 12 + 4, 12 + 5]]


def test_members_that_cut_texts_otherwise_are_averaged():
    runs = [reading("luong2015", letter_reader()), reading("transformer", word_reader())]
    both, source, target = ensemble_of(runs), "a b c d", "d c b"
    tokens = [run.token_scores([source], [target])[0].log_probs.double().exp() for run in runs]
    wanted = float(((tokens[0] + tokens[1]) / 2).log().sum())
    assert both.score(source, target) == pytest.approx(wanted, abs=1e-5)
    assert both.score([source, "h"], [target, "h"])[0] == pytest.approx(wanted, abs=1e-5)


def test_the_first_members_source_limits_the_length_of_the_target():
    letters, spoken = reading("luong2015", letter_reader()), reading("luong2015", word_reader())
    for runs, n in (((letters, spoken), 4), ((spoken, letters), 3)):
        both, limit = ensemble_of(runs), 3 * n + 10
        with pytest.raises(regard.DataError, match=f"may have {limit} with the end token"):
            both.translate("a b", prefix="a " * 40)
        begun = both.translate("a b", prefix="a " * (limit - 1)).split()
        assert begun[: limit - 1] == ["a"] * (limit - 1)
        assert len(begun) <= limit
        (written,) = both.hypotheses(["a b"])[0]
        assert written.ids == both.hypotheses(["a b", "a b c d e"])[0][0].ids
        assert len(written.ids) == limit
        assert len(both.beam("a b", n_beams=1).best) == limit


def test_every_member_must_be_able_to_read_a_source():
    learned = {"positions": "learned", "max_len": 24}
    letters = reading("transformer", letter_reader(), **learned)
    spoken = reading("transformer", word_reader(), **{**learned, "max_len": 20})
    for runs in ((letters, spoken), (spoken, letters)):
        both = ensemble_of(runs)
        assert both.fits("a b c d e f g h a b c", "a " * 19)  # 21 signs, more than 20 words
        assert not both.fits("a b c d e f g h a b c d e", "a")
        assert not both.fits("a", "a " * 20)
        check_source(both, 100, "a b c d e f g h a b c")
        TASKS["translation"].check_look(both, 100, "a b c d e f g h a b c")
        assert both.unreadable("a b c d e f g h a b c d e").startswith(
            "26 tokens with the end token"
        )
        assert "positions know 20;" in both.too_long("a " * 20, both.tokenizers.target)
        for check in (check_source, TASKS["translation"].check_look):
            with pytest.raises(regard.DataError, match="25 tokens, at most 23 "):
                check(both, 100, "a b c d e f g h a b c d e")


def test_texts_are_long_that_are_too_long_for_a_member():
    spoken = reading("luong2015", word_reader(), max_len=10)
    letters = reading("luong2015", letter_reader(), max_len=16)
    silent = [Hypothesis(ids=(), log_prob=0.0, score=0.0, finished=True)]
    for runs in ((letters, spoken), (spoken, letters)):
        both = ensemble_of(runs)
        assert both.length_warnings(["a b c d e f"], silent).lines() == []  # 11 signs, 6 words
        (line,) = both.length_warnings(["a b c d e f g h a"], silent).lines()  # 17 signs, 9 words
        assert line.startswith("1 text longer than the 16 tokens")


@pytest.mark.parametrize("setting", ["replace_unknown", "coverage_penalty"])
def test_what_goes_by_attention_needs_the_same_source_tokens(setting):
    def asking(run):
        decode = run.recipe.decode.model_copy(update={setting: True})
        return replace(run, recipe=run.recipe.model_copy(update={"decode": decode}))

    letters, spoken = reading("luong2015", letter_reader()), reading("luong2015", word_reader())
    assert len(ensemble_of([asking(letters)] * 2).members) == 2
    both = ensemble_of([letters, asking(spoken)])  # settings are those of the first
    with pytest.raises(regard.ConfigError) as refusal:
        ensemble_of([asking(letters), spoken])
    assert str(refusal.value) == (
        f"decode.{setting} of nowhere goes by attention to source tokens, and runs of different "
        "source vocabularies have different ones; name a run first that leaves it out, or take "
        "runs of one source vocabulary"
    )
    with pytest.raises(regard.ConfigError, match=f"decode.{setting}"):
        asking(both)
    with pytest.raises(regard.ConfigError, match="looks with attentions of its own"):
        both.heads()


@pytest.fixture(scope="module")
def other_source(trained, settings, tmp_path_factory):
    """A run that writes the same letters, but reads z for h, and capitals besides."""
    folder = tmp_path_factory.mktemp("sources")
    some = [(f"{a} Q".replace("h", "z"), b) for a, b in pairs(1500, 1)]
    data = {**settings["data"], "train": write_pairs(folder, "train", some)}
    model = {"preset": "luong2015", "d_model": 20}
    text = {"kind": "word", "shared": False, "vocab_size": 14}
    return trained("other-source", data=data, model=model, text=text)


def test_commands_take_runs_of_different_source_vocabularies(run, run_path, other_source):
    runs = [regard.load(run_path), regard.load(other_source)]
    both, texts = regard.load([run_path, other_source]), ["a b h", "h c a d"]
    assert runs[0].tokenizers.source.n_vocab != runs[1].tokenizers.source.n_vocab
    code, out, _ = run("translate", run_path, other_source, "--beam", 2, stdin="\n".join(texts))
    assert (code, out.splitlines()) == (0, both.translate(texts, beam=2))
    code, out, _ = run("evaluate", run_path, other_source, "--split", "valid", "--json")
    some = pairs(40, 2)
    wanted = [perplexity_of_mean(runs, some), perplexity(both, some)]
    assert [json.loads(out)["perplexity"]] * 2 == pytest.approx(wanted, rel=1e-4)


def test_runs_of_different_source_vocabularies_are_served(serving, run_path, other_source):
    both = regard.load([run_path, other_source])
    address = serving(both)
    query = urllib.parse.urlencode({"source": "a b h"})
    with urllib.request.urlopen(f"{address}/api/stream?{query}", timeout=20) as answer:
        done = answer.read().decode().rpartition("data: ")[2]
    assert json.loads(done)["translation"] == both.translate("a b h", beam=1)
    data = urllib.parse.urlencode({"q": "a b h", "source": "ab", "target": "ba"}).encode()
    with urllib.request.urlopen(f"{address}/translate", data, timeout=20) as answer:
        assert json.loads(answer.read())["translatedText"] == both.translate("a b h")


def perplexity_of_mean(runs, some):
    """Of the mean of the runs' probabilities, each run scoring by itself."""
    columns = list(map(list, zip(*some, strict=True)))
    judged = zip(*(run.token_scores(*columns) for run in runs), strict=True)
    tokens = [sum(one.log_probs.double().exp() for one in each) / len(runs) for each in judged]
    return float(torch.cat(tokens).log().mean().neg().exp())


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
    (model,) = ask("/v1/models")["data"]
    newest = max((path / "model.safetensors").stat().st_mtime for path in (run_path, recurrent))
    assert (model["id"], model["created"]) == ("short + recurrent", int(newest))
    assert info["form"]["views"] == ["beam"]
    with pytest.raises(urllib.error.HTTPError) as refusal:
        ask("/api/explain", source="a b c")
    assert refusal.value.code == 422
    assert "each run of an ensemble" in refusal.value.read().decode()
    with pytest.raises(urllib.error.HTTPError) as refusal:
        ask("/api/heads")
    assert refusal.value.code == 404
    assert "heads of its own: serve one of them alone" in refusal.value.read().decode()


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
    line = refused("translate", run_path, run_path, "a b", "--engine", "ctranslate2")
    assert "runs one model, not an ensemble; take the native one" in line
    line = refused("evaluate", run_path, run_path, nowhere, tmp_path / "more")
    assert line == (
        f"regard: {nowhere} is not a run folder, so {tmp_path / 'more'} is one too many: name "
        "runs, then one file\n"
    )
    assert "there is no run folder" in refused("translate", run_path, nowhere, "a b")
    assert "neither a run folder nor a file" in refused("evaluate", run_path, nowhere)
    with pytest.raises(regard.ConfigError, match="no run to load"):
        regard.load([])
    for strange in (5, [run_path, 5], None):
        with pytest.raises(regard.ConfigError, match="a run folder is a text or a Path, and sev"):
            regard.load(strange)
    with pytest.raises(regard.ConfigError, match="runs of the task masked make no ensemble"):
        TASKS["masked"].ensemble([])
    text = f"a {'x' * 5000}"
    assert main(["translate", str(run_path), text]) == 0  # too long for a name: a text
