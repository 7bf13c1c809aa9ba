"""Encoders from files to answers: classification, similarity, masked words."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from encoders import labelled, labelled_pairs, scored, settings, texts

import regard
from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.data.corpora import read_corpus
from regard.runs.train import train
from regard.tasks.recipe import recipe_from

KINDS = {
    "classification": labelled,
    "pairs": labelled_pairs,
    "bilstm": labelled,
    "similarity": scored,
    "contrast": lambda n, seed: "".join(
        f"{a}\t{a} {b}\n" for a, b in zip(texts(n, seed), texts(n, seed + 9), strict=True)
    ),
    "masked": lambda n, seed: "".join(f"{text}\n" for text in texts(n, seed)),
}
TASKS = {"pairs": "classification", "bilstm": "classification", "contrast": "similarity"}


def recipe(kind, folder, **changes):
    raw = settings(TASKS.get(kind, kind), folder, KINDS[kind], **changes)
    if kind == "bilstm":
        raw["model"] = {"preset": "bilstm", "d_model": 16, "max_len": 16}
    return recipe_from(raw)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A short run of each kind: good for little, but whole."""
    paths = {}
    for kind in KINDS:
        folder = tmp_path_factory.mktemp(kind)
        train(recipe(kind, folder), folder / "run")
        paths[kind] = folder / "run"
    return paths


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_folder_holds_what_it_should(runs, kind):
    names = {path.name for path in runs[kind].iterdir()}
    assert names >= {
        "config.yaml", "config.json", "model.safetensors", "tokenizer.json", "metrics.jsonl",
        "checkpoints", "report.html", "scores.json",
    }  # fmt: skip
    assert ("labels.json" in names) == (TASKS.get(kind, kind) == "classification")
    scores = json.loads((runs[kind] / "scores.json").read_text())
    assert scores["scores"]["test"]["n"] == 30
    expected, measured = scores["estimate"]["flops"], scores["measured"]["flops"]
    assert expected == pytest.approx(measured, rel=0.3)
    assert regard.load(runs[kind]).facts()["task"] == TASKS.get(kind, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_evaluating_again_gives_the_scores_of_the_report(runs, kind, say):
    known = json.loads((runs[kind] / "scores.json").read_text())["scores"]["test"]
    code, out, _ = say("evaluate", runs[kind], "--json")
    assert code == 0
    again = json.loads(out)
    assert again == pytest.approx(known)
    assert {"task", "split", "n"} < set(again)


def test_each_task_has_its_scores(runs):
    found = {kind: set(regard.load(path).evaluate("valid").scores) for kind, path in runs.items()}
    common = {"task", "split", "n"}
    for kind in ("classification", "pairs", "bilstm"):
        assert found[kind] == {*common, "accuracy", "macro_f1", "loss"}
    assert found["similarity"] == {*common, "spearman", "pearson"}
    assert found["contrast"] == {*common, "accuracy"}
    assert found["masked"] == {*common, "accuracy", "perplexity", "loss"}
    with pytest.raises(ConfigError, match=r"no split 'tset' \(did you mean 'test'\?\); it has"):
        regard.load(runs["masked"]).evaluate("tset")


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_training_is_the_one_that_was_never_stopped(runs, kind, tmp_path):
    """Cut at step 10, which lies in the middle of an epoch."""
    asked = recipe_from(yaml.safe_load((runs[kind] / "config.yaml").read_text()))

    class Cut(Exception):  # noqa: N818
        pass

    def cut(line):
        if line["step"] == 15 and line["kind"] == "train":
            raise Cut

    with pytest.raises(Cut):
        train(asked, tmp_path / "run", observers=[cut])
    train(asked, tmp_path / "run", resume=True)
    for name in ("model.safetensors", "tokenizer.json"):
        assert (tmp_path / "run" / name).read_bytes() == (runs[kind] / name).read_bytes()


@pytest.mark.parametrize("kind", ["classification", "bilstm"])
def test_a_classifier_learns(kind, tmp_path):
    """Trained for longer, it is right where a coin would be wrong."""
    longer = {"max_steps": 150, "eval_every": 75, "label_smoothing": 0.0}
    trained = train(recipe(kind, tmp_path, n=400, train=longer), tmp_path / "run")
    assert trained.evaluations["test"].scores["accuracy"] > 0.85


def test_an_embedder_learns_with_scores_and_without(runs, tmp_path):
    longer = {"max_steps": 120, "eval_every": 60}
    for kind, score, least in (("similarity", "spearman", 0.4), ("contrast", "accuracy", 0.5)):
        folder = tmp_path / kind
        folder.mkdir()
        trained = train(recipe(kind, folder, n=400, train=longer), folder / "run")
        assert trained.evaluations["test"].scores[score] > least


# ------------------------------------------------------------------ using runs


def test_classify_takes_a_text_or_a_list(runs):
    run = regard.load(runs["classification"])
    one = run.classify("a b a")
    assert one in run.labels.names == ("few a", "many a")
    assert run.classify(["a b a", "c"])[0] == one
    sure = run.classify(["a b a"], with_scores=True)[0]
    assert sure.label == one
    assert 0.5 <= sure.probability <= 1
    assert run.classify([]) == []
    with pytest.raises(DataError, match="expected a text or a list of texts, found int"):
        run.classify(["a", 3])


def test_pairs_are_classified_together(runs):
    run = regard.load(runs["pairs"])
    one = run.classify(("a b", "c d"), with_scores=True)
    assert run.classify([("a b", "c d"), ("e", "f")], with_scores=True)[0].label == one.label
    assert run.probabilities([("a b", "c d")]) != pytest.approx(run.probabilities([("c d", "a b")]))
    with pytest.raises(DataError, match="trained on pairs: expected two texts, but found 'a b'"):
        run.classify("a b")


@pytest.mark.parametrize("kind", KINDS)
def test_padding_and_company_change_no_answer(runs, kind):
    run = regard.load(runs[kind])
    some = ["a b c", "a", "h g f e d c b a", "b b"]
    together = run.embed(some)
    assert together.shape == (4, 16)
    assert together.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    for text, vector in zip(some, together, strict=True):
        np.testing.assert_allclose(run.embed(text), vector, atol=1e-5)
    if kind == "classification":
        alone = np.concatenate([run.probabilities([text]) for text in some])
        np.testing.assert_allclose(run.probabilities(some), alone, atol=1e-5)


def test_an_embedding_is_the_mean_of_all_tokens(runs):
    run = regard.load(runs["similarity"])
    ids = torch.tensor([[1, *run.tokenizer.encode("a b"), 2]])
    mean = run.model.states(ids)[0].mean(dim=0).detach().numpy()
    np.testing.assert_allclose(run.embed("a b", normalised=False), mean, atol=1e-5)
    np.testing.assert_allclose(run.embed("a b"), mean / np.linalg.norm(mean), atol=1e-5)


def test_the_nearest_text_is_the_text_itself(runs):
    run = regard.load(runs["similarity"])
    among = texts(20, 5)
    found = run.nearest(among[7], among, 3)
    assert found[0].text == among[7]
    assert found[0].score == pytest.approx(1, abs=1e-5)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert [one[0].text for one in run.nearest(among[:2], among, 1)] == among[:2]
    assert regard.load(runs["masked"]).nearest(among[3], among, 1)[0].text == among[3]


def test_masks_are_filled_with_words(runs):
    run = regard.load(runs["masked"])
    filled = run.fill("a <mask> c <mask>", n=3)
    assert len(filled.masks) == 2
    assert all(len(guesses) == 3 for guesses in filled.masks)
    best = [guesses[0].token for guesses in filled.masks]
    assert filled.text == f"a {best[0]} c {best[1]}"
    shares = [guess.probability for guess in filled.masks[0]]
    assert shares == sorted(shares, reverse=True)
    everything = run.fill("<mask>", n=99).masks[0]
    assert {guess.token for guess in everything if guess.probability} <= set("abcdefgh")
    with pytest.raises(DataError, match="there is no <mask> in 'a b'"):
        run.fill("a b")
    with pytest.raises(DataError, match="has 33 tokens .*, and the model reads 16; shorten it"):
        run.fill("a " * 30 + "<mask>")


# ------------------------------------------------------------------ the command line


def test_the_command_line_classifies(runs, say):
    code, out, err = say("classify", runs["classification"], lines="a a a\nb b\n")
    assert (code, err) == (0, "")
    rows = [line.split("\t") for line in out.splitlines()]
    assert len(rows) == 2
    assert all(name in ("many a", "few a") and 0.5 <= float(share) <= 1 for name, share in rows)
    code, out, _ = say("classify", runs["classification"], "--json", lines="a a a\n")
    found = json.loads(out)
    assert sum(found["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    assert found["probability"] == max(found["probabilities"].values())
    assert found["text"] == "a a a"
    code, _, err = say("classify", runs["classification"], lines="a " * 40)
    assert "1 line cut to 16 tokens" in err


def test_the_command_line_embeds_and_finds(runs, say, tmp_path):
    code, out, _ = say("embed", runs["similarity"], lines="a b\nc\n")
    assert code == 0
    vectors = [[float(x) for x in line.split(" ")] for line in out.splitlines()]
    expected = regard.load(runs["similarity"]).embed(["a b", "c"])
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    code, out, _ = say("embed", runs["classification"], "--json", lines="a b\n")
    assert len(json.loads(out)["embedding"]) == 16
    among = tmp_path / "among.txt"
    among.write_text("a b\nc d e\nh g\n")
    code, out, _ = say("embed", runs["similarity"], "--nearest", among, "--n", 2, lines="h g\n")
    assert out.splitlines()[0] == "1.0000\th g"
    assert len(out.rstrip("\n").splitlines()) == 2
    code, out, _ = say("embed", runs["masked"], "--nearest", among, "--json", lines="h g\nx\n")
    assert [len(json.loads(line)["nearest"]) for line in out.splitlines()] == [3, 3]


def test_the_command_line_fills(runs, say):
    code, out, _ = say("fill", runs["masked"], lines="a <mask>\n")
    assert code == 0
    assert len(out.split()) == 2
    code, out, _ = say("fill", runs["masked"], "--n", 2, lines="a <mask>\n<mask>\n")
    assert len(out.splitlines()) == 4
    code, out, _ = say("fill", runs["masked"], "--json", lines="a <mask>\n")
    assert json.loads(out)["filled"].startswith("a ")


@pytest.mark.parametrize(
    ("words", "lines", "message"),
    [
        (["classify", "pairs"], "a\tb\nc\n", "standard input, line 2: this run was trained on pai"),
        (["classify", "masked"], "", "holds a run of the task masked, and this needs one of"),
        (["embed", "similarity", "--n", "3"], "", "needs --nearest FILE"),
        (["embed", "similarity", "--nearest", "none.txt"], "", "no file none.txt"),
        (["fill", "masked"], "a <mask>\nb\n", "standard input, line 2: there is no <mask> in 'b'"),
        (["fill", "similarity"], "", "use `regard embed` with it"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(runs, say, words, lines, message):
    code, _, err = say(words[0], runs[words[1]], *words[2:], lines=lines)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


# ------------------------------------------------------------------ bad data


def test_a_label_that_training_never_showed_is_told_before_the_first_step(tmp_path):
    asked = recipe("classification", tmp_path)
    path = tmp_path / "test.tsv"
    path.write_text(path.read_text() + "a b\tsome a\n")
    with pytest.raises(DataError) as caught:
        train(asked, tmp_path / "run")
    assert str(caught.value).startswith(
        f"{path}:31: label 'some a' was not seen in training, which knows few a, many a; "
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"criterion": "bleu"}, "criterion=bleu is for other tasks; with this data, classificatio"),
        ({"compile": True}, "only models that write or guess words are compiled"),
    ],
)
def test_what_only_others_are_trained_with_is_refused(tmp_path, setting, message):
    with pytest.raises(ConfigError, match=message):
        train(recipe("classification", tmp_path, train=setting), tmp_path / "run")


def test_one_label_is_nothing_to_learn(tmp_path):
    asked = recipe("classification", tmp_path)
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.tsv").write_text("a\tx\nb\tx\n")
    with pytest.raises(DataError, match="all training examples have the label 'x'"):
        train(asked, tmp_path / "run")


@pytest.mark.parametrize(
    ("task", "world", "message"),
    [
        ("classification", "copy", "world 'copy' has no labels; choose sentiment or topics"),
        ("similarity", "topics", "world 'topics' has no pairs that are alike; choose sentences"),
        ("masked", "copy", "world 'copy' has no texts"),
    ],
)
def test_a_world_without_what_is_wanted_is_refused(tmp_path, task, world, message):
    asked = {**settings(task, tmp_path, labelled), "data": {"world": world, "n_train": 20}}
    with pytest.raises(ConfigError, match=message):
        train(recipe_from(asked), tmp_path / "run")


def test_labels_that_belong_to_another_run_are_refused(runs, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in runs["classification"].iterdir():
        if path.is_file():
            (copy / path.name).write_bytes(path.read_bytes())
    (copy / "labels.json").write_text('{"labels": ["a", "b", "c"], "pairs": false}')
    with pytest.raises(CheckpointError, match="has 3 labels, but the model knows 2"):
        regard.load(copy)
    (copy / "labels.json").write_text('{"labels": 3}')
    with pytest.raises(CheckpointError, match="is damaged: it holds no labels"):
        regard.load(copy)


# ------------------------------------------------------------------ starting from a run


def begun(kind, folder, init, **changes):
    """The recipe of a kind, with weights of another run; its sizes come with that run."""
    raw = settings(TASKS.get(kind, kind), folder, KINDS[kind], **changes)
    raw["model"] = {"preset": "bert", "dropout": 0.0}
    raw["train"] |= {"init": str(init)}
    return recipe_from(raw)


def test_a_run_that_reads_otherwise_than_the_recipe_says_is_refused(runs, tmp_path):
    with pytest.raises(ConfigError, match=r"has cell=lstm, and .* 'bert' .*choose preset 'bilstm'"):
        train(begun("classification", tmp_path, runs["bilstm"]), tmp_path / "run")
    raw = begun("classification", tmp_path, runs["bilstm"]).model_dump(mode="json")
    raw["model"] = {"preset": "bilstm"}
    trained = train(recipe_from(raw), tmp_path / "run")
    assert trained.run.model.config.cell == "lstm"
    raw["train"]["init"] = str(runs["classification"])
    with pytest.raises(ConfigError, match=r"has cell=None, and .* 'bilstm' .*choose preset 'bert'"):
        train(recipe_from(raw), tmp_path / "other")


@pytest.mark.parametrize(
    ("kind", "init", "fresh"),
    [
        ("classification", "masked", True),
        ("classification", "pairs", True),
        ("classification", "classification", False),
        ("masked", "similarity", True),
        ("similarity", "masked", False),
    ],
)
def test_an_encoder_begins_as_that_of_another_run(runs, tmp_path, kind, init, fresh):
    from regard.runs.prepare import prepare

    prepared = prepare(begun(kind, tmp_path, runs[init]), torch.device("cpu"))
    old = dict(regard.load(runs[init]).model.named_parameters())
    for name, parameter in prepared.model.named_parameters():
        if not name.startswith("head.") or not fresh:
            assert torch.equal(parameter, old[name]), name
    assert any("head is fresh" in note for note in prepared.notes) == fresh
    assert any(str(runs[init]) in note for note in prepared.notes)


def test_a_head_that_is_fresh_is_not_the_old_one(runs, tmp_path):
    from regard.runs.prepare import prepare

    prepared = prepare(begun("classification", tmp_path, runs["pairs"]), torch.device("cpu"))
    old = regard.load(runs["pairs"]).model.head.to_labels.weight
    assert not torch.equal(prepared.model.head.to_labels.weight, old)


def test_an_encoder_that_does_not_fit_is_refused_with_both_shapes(runs, tmp_path):
    from regard.runs.prepare import prepare

    asked = begun("classification", tmp_path, runs["masked"])
    wider = asked.model_copy(update={"model": asked.model.model_copy(update={"d_ff": 40})})
    with pytest.raises(CheckpointError, match=r"is \(32, 16\), the model wants \(40, 16\)"):
        prepare(wider, torch.device("cpu"))


def test_a_translator_is_no_encoder_to_start_from(run_path, tmp_path):
    from regard.runs.prepare import prepare

    with pytest.raises(ConfigError, match="of the family 'transformer', and this needs an encod"):
        prepare(begun("classification", tmp_path, run_path), torch.device("cpu"))


def test_frozen_parts_stay_while_the_head_learns_and_resuming_is_exact(runs, tmp_path):
    changes = {"freeze": ["embedding.*", "layers.0.*"], "layer_decay": 0.7, "max_steps": 20}
    asked = begun("classification", tmp_path, runs["masked"], train=changes)
    train(asked, tmp_path / "run")
    old, new = (
        dict(regard.load(p).model.named_parameters()) for p in (runs["masked"], tmp_path / "run")
    )
    assert torch.equal(old["embedding.tokens.weight"], new["embedding.tokens.weight"])
    names = [name for name in old if name.startswith("layers.1.") and "weight" in name]
    assert not any(torch.equal(old[name], new[name]) for name in names)

    class Cut(Exception):  # noqa: N818
        pass

    def cut(line):
        if line["step"] == 15 and line["kind"] == "train":
            raise Cut

    with pytest.raises(Cut):
        train(asked, tmp_path / "again", observers=[cut])
    train(asked, tmp_path / "again", resume=True)
    first, second = (tmp_path / name / "model.safetensors" for name in ("run", "again"))
    assert first.read_bytes() == second.read_bytes()


# ------------------------------------------------------------------ files as they are


def test_real_files_are_read_by_their_recipes(tmp_path, say):
    """Lines of the kinds that the public files have, in their stead."""
    lines = {
        "sst2": ("train.tsv", "label\tsentence\r\n0\tno wit , only gags\r\n1\tlovely film\r\n"),
        "trec": ("train.txt", "DESC:manner How did it go ?\nLOC:city What county ?\n"),
        "imdb": ("train.tsv", '0\t3\tbad <br />film\n1\t9\tgood "film"\n'),
        "stsb": ("sts-train.csv", "main\tMSR\t2012\t0001\t5.0\tA plane.\tAn air plane.\r\n" * 2),
    }
    from regard.recipes.recipe import load_recipe

    expected = {
        "sst2": [("no wit , only gags", None, "0", None), ("lovely film", None, "1", None)],
        "trec": [("How did it go ?", None, "DESC", None), ("What county ?", None, "LOC", None)],
        "imdb": [("bad <br />film", None, "0", None), ('good "film"', None, "1", None)],
        "stsb": [("A plane.", "An air plane.", None, 5.0)] * 2,
    }
    for name, (file, text) in lines.items():
        (tmp_path / file).write_bytes(text.encode())
        recipe = load_recipe(name, [f"folder={tmp_path}"])
        assert recipe.data.train == file
        wanted = "score" if name == "stsb" else "label"
        found = read_corpus(str(Path(tmp_path / file)), wanted, recipe.data)
        assert [(e.text, e.other, e.label, e.score) for e in found.examples] == expected[name]
