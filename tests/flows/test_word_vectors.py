"""From texts to vectors of words, to their neighbours, and into the embedding of a translator."""

import json
import math

import numpy as np
import pytest
import torch
import yaml
from letters import pairs
from vector_runs import vectors_recipe, vectors_run

import regard
from regard.core.errors import ConfigError, DataError
from regard.data.batch import Batch
from regard.layers.embeddings import token_tables
from regard.models.skip_gram import SkipGram, SkipGramConfig
from regard.recipes.recipe import load_recipe
from regard.runs.prepare import prepare
from regard.runs.train import train
from regard.tasks.recipe import recipe_from
from regard.tasks.vectors import skip_gram_loss, telling_apart

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return vectors_run(tmp_path_factory.mktemp("vectors"))


# ------------------------------------------------------------------ learning


def loss_by_loops(words, near, others):
    total = 0.0
    for w, c, rest in zip(words.tolist(), near.tolist(), others.tolist(), strict=True):
        products = [sum(a * b for a, b in zip(w, x, strict=True)) for x in (c, *rest)]
        right, *wrong = products
        total += math.log(1 + math.exp(-right)) + sum(math.log(1 + math.exp(x)) for x in wrong)
    return total


def test_the_loss_is_that_of_the_paper(rng):
    model = SkipGram(SkipGramConfig(n_vocab=9, d_model=3)).double()
    for table in (model.tokens, model.contexts):
        torch.nn.init.normal_(table.weight, generator=rng)
    words = torch.randint(9, (5,), generator=rng)
    contexts = torch.randint(9, (5, 4), generator=rng)
    near, others = contexts[:, 0], contexts[:, 1:]
    tables = model.tokens.weight.detach(), model.contexts.weight.detach()
    expected = loss_by_loops(tables[0][words], tables[1][near], tables[1][others])
    assert skip_gram_loss(model(words, contexts)).item() == pytest.approx(expected)


def test_a_neighbour_is_told_where_it_is_nearer_than_all_that_were_drawn():
    model = SkipGram(SkipGramConfig(n_vocab=4, d_model=1))
    with torch.no_grad():
        model.tokens.weight[:] = 1.0
        model.contexts.weight[:, 0] = torch.tensor([0.0, 1.0, 2.0, 3.0])
    contexts = torch.tensor([[3, 1, 2], [2, 1, 3], [1, 1, 0], [2, 0, 1]])
    batch = Batch({"words": torch.zeros(4, dtype=torch.long), "contexts": contexts}, (), count=4)
    assert telling_apart(model, [batch], CPU)["accuracy"] == 2 / 4


def test_words_of_the_same_company_become_alike(folder):
    run = regard.load(folder)
    unit = run.vectors / np.linalg.norm(run.vectors, axis=1, keepdims=True)
    at = {word: unit[run.words.index(word)] for word in run.words}
    assert {*run.words} == {*"abcd", "dog", "cat", "red", "big"}
    assert at["dog"] @ at["cat"] > 0.9
    assert at["red"] @ at["big"] > 0.9
    assert at["dog"] @ at["red"] < 0.5


def test_unknown_words_beside_a_known_one_are_told(folder, caplog):
    caplog.set_level("WARNING", logger="regard")
    run = regard.load(folder)
    assert run.neighbours("dog zebra") == run.neighbours("dog")
    assert [one.message for one in caplog.records] == ["1 unknown word read as <unk>: zebra"]


def test_a_resumed_training_is_the_one_that_was_never_stopped(folder, tmp_path):
    asked = recipe_from(yaml.safe_load((folder / "config.yaml").read_text()))

    class Cut(Exception):  # noqa: N818
        pass

    def cut(line):
        if line["step"] == 50 and line["kind"] == "train":
            raise Cut

    with pytest.raises(Cut):
        train(asked, tmp_path / "run", observers=[cut])
    train(asked, tmp_path / "run", resume=True)
    for name in ("model.safetensors", "tokenizer.json"):
        assert (tmp_path / "run" / name).read_bytes() == (folder / name).read_bytes()


def test_both_texts_of_a_line_are_read_each_by_itself(tmp_path):
    two = tmp_path / "two.tsv"
    two.write_text("a dog\tun chien\n" * 5)
    raw = vectors_recipe(tmp_path, data={"train": str(two), "valid": str(two)})
    prepared = prepare(recipe_from(raw), CPU)
    batch = prepared.stream().next()
    shown = prepared.tokenizer.tokens
    near = {*zip(shown(batch.words.tolist()), shown(batch.contexts[:, 0].tolist()), strict=True)}
    assert near == {("a", "dog"), ("dog", "a"), ("un", "chien"), ("chien", "un")}
    assert prepared.example(batch.numbers[0]) in ("a dog", "un chien")


def test_the_recipe_reads_both_languages_of_the_world():
    prepared = prepare(load_recipe("vectors", ["n_train=200"]), CPU)
    words = {*prepared.tokenizer.tokens(range(prepared.tokenizer.n_vocab))}
    assert {"dog", "chien"} <= words


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"text": {"kind": "char"}}, "text.kind=char: vectors are learned of words; set text.kind"),
        ({"train": {"compile": True}}, "train.compile=true: two tables gain nothing"),
        ({"model": {"context": 0}}, "model.context=0: input should be greater than or equal to 1"),
        ({"model": {"threshold": 0}}, "model.threshold=0: input should be greater than 0"),
        ({"model": {"max_len": 9}}, "model: max_len would do nothing in this model"),
        ({"train": {"init": "runs/x"}}, "train.init=runs/x does nothing in the task vectors"),
    ],
)
def test_what_does_not_fit_is_told(tmp_path, changes, told):
    with pytest.raises(ConfigError, match=told):
        prepare(recipe_from(vectors_recipe(tmp_path, **changes)), CPU)


def test_too_little_is_refused(tmp_path):
    raw = vectors_recipe(tmp_path)
    (tmp_path / "texts.txt").write_text("a\nb\n")
    with pytest.raises(DataError, match="two different words"):
        train(recipe_from(raw), tmp_path / "run")


# ------------------------------------------------------------------ using them


def test_neighbours_are_by_cosine_and_never_the_word_itself(folder):
    run = regard.load(folder)
    best, *others = run.neighbours("dog", n=50)
    assert best.text == "cat"
    assert [one.score for one in others] == sorted((one.score for one in others), reverse=True)
    assert {one.text for one in (best, *others)} == {*run.words} - {"dog"}
    unit = run.vectors / np.linalg.norm(run.vectors, axis=1, keepdims=True)
    dog, cat = (unit[run.words.index(word)] for word in ("dog", "cat"))
    assert best.score == pytest.approx(float(dog @ cat), abs=1e-5)
    assert {one.text for one in run.neighbours("dog cat", n=50)} == {*run.words} - {"dog", "cat"}


def test_the_command_line_tells_neighbours(folder, say):
    code, out, _ = say("neighbours", folder, "dog", "--n", 1)
    assert code == 0
    assert out.split("\t")[1] == "cat\n\n"
    _, out, _ = say("neighbours", folder, "red", "--json")
    found = json.loads(out)
    assert found["text"] == "red"
    assert found["nearest"][0]["text"] == "big"
    assert len(found["nearest"]) == 5


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("zebra",), "input 1: the model knows no word of 'zebra'"),
        (("",), "input 1: there is no word in an empty text"),
        (("dog", "--n", "0"), "Input should be greater than or equal to 1"),
    ],
)
def test_what_has_no_neighbours_is_told_in_a_line(folder, say, asked, told):
    code, _, err = say("neighbours", folder, *asked)
    assert code == 2
    assert told in err
    assert err.count("\n") == 1


def test_it_is_scored_told_and_looked_at_as_any_run(folder, say):
    assert {"loss", "accuracy"} < {*regard.load(folder).evaluate("valid").scores}
    code, out, _ = say("info", folder, "--json")
    assert (code, json.loads(out)["task"]) == (0, "vectors")
    code, out, _ = say("explain", folder, "a dog")
    assert code == 0
    assert "does not attend" in out
    assert say("evaluate", folder, folder.parent / "texts.txt")[0] == 0


def test_an_embedding_begins_as_the_vectors_of_a_run(folder, tmp_path):
    lines = "".join(f"{source} dog\t{target} zebra\n" for source, target in pairs(40, 1))
    (tmp_path / "pairs.tsv").write_text(lines)
    raw = {
        "data": {"train": str(tmp_path / "pairs.tsv")},
        "text": {"kind": "word"},
        "model": {"preset": "transformer", "d_model": 16, "n_heads": 2, "n_layers": 1, "d_ff": 16},
        "train": {"max_steps": 1, "vectors": str(folder)},
    }
    prepared = prepare(recipe_from(raw), CPU)
    (name, table), run = *token_tables(prepared.model).items(), regard.load(folder)
    assert any(f"{name}: 5 of" in note and str(folder) in note for note in prepared.notes)  # a-d
    (row,) = prepared.tokenizers.source.encode("dog")
    given = torch.from_numpy(run.vectors[run.words.index("dog")])
    assert torch.cosine_similarity(table.weight[row], given, dim=0).item() == pytest.approx(1)
    raw["model"]["d_model"] = 32
    with pytest.raises(ConfigError, match="vectors of 16 numbers, but model.d_model is 32"):
        prepare(recipe_from(raw), CPU)


def test_a_run_of_another_task_is_no_word_vectors(run_path, tmp_path):
    raw = vectors_recipe(tmp_path, train={"vectors": str(run_path)})
    with pytest.raises(ConfigError, match="holds a run of the task translation, and this needs wo"):
        prepare(recipe_from(raw), CPU)
