"""Scores of tasks that are texts: against one prompt at a time, and a run from end to end."""

import json
import random

import pytest
import torch
from language_models import language_model

from regard.cli.main import main
from regard.core.errors import ConfigError, DataError
from regard.data.worlds.prompted import Item, PromptedTask
from regard.runs.prepare import prepare
from regard.runs.train import train
from regard.tasks.language_scores import exercise_scores, log_probs_after
from regard.tasks.opening import load
from regard.tasks.recipe import recipe_from

CPU = torch.device("cpu")


@torch.no_grad()
def test_what_comes_after_is_scored_as_one_by_one():
    model = language_model()
    rng = random.Random(0)
    pairs = [
        ([rng.randrange(13) for _ in range(n)], [rng.randrange(13) for _ in range(m)])
        for n, m in ((3, 1), (5, 2), (3, 1), (3, 2), (1, 4), (16, 1), (16, 2))
    ]
    for (before, after), found in zip(
        pairs, log_probs_after(model, pairs, device=CPU), strict=True
    ):
        log_probs = model(torch.tensor([[*before, *after[:-1]]])).log_softmax(dim=-1)[0]
        wanted = sum(log_probs[len(before) - 1 + i, id_] for i, id_ in enumerate(after))
        assert found == pytest.approx(float(wanted), abs=1e-5)


def test_what_cannot_be_scored_is_told():
    model = language_model()
    with pytest.raises(DataError, match="18 tokens to read, but the model's context holds 17"):
        log_probs_after(model, [([1], [2]), ([1] * 17, [2, 3])], device=CPU)
    with pytest.raises(DataError, match="no text to be chosen by"):
        log_probs_after(model, [([1], [])], device=CPU)


def rows(n, seed):
    """Colours have a temper, which is what the text ends with."""
    rng = random.Random(seed)
    for _ in range(n):
        things = rng.choices(["tea", "mud", "sun"], k=rng.randint(1, 3))
        yield " ".join([*things, rng.choice(["red", "blue"])])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    for name, n, seed in (("train", 300, 1), ("test", 40, 2)):
        texts = list(rows(n, seed))
        labels = [{"red": "warm", "blue": "cold"}[text.split()[-1]] for text in texts]
        lines = [f"{text}\t{label}\n" for text, label in zip(texts, labels, strict=True)]
        (folder / f"{name}.tsv").write_text("".join(lines))
    return folder


@pytest.fixture(scope="module")
def solver(table, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "solver"
    train(
        recipe_from(
            {
                "task": "language",
                "data": {
                    "folder": str(table),
                    "train": "train.tsv",
                    "test": "test.tsv",
                    "prompt": "{text} feels",
                },
                "text": {"kind": "word"},
                "model": {
                    "preset": "gpt",
                    "d_model": 32,
                    "n_layers": 2,
                    "n_heads": 2,
                    "d_ff": 48,
                    "max_len": 24,
                    "dropout": 0.0,
                    "positions": "rotary",
                },
                "train": {
                    "max_steps": 120,
                    "batch_tokens": 480,
                    "lr": 1e-2,
                    "warmup_steps": 10,
                    "label_smoothing": 0.0,
                },
                "decode": {"max_len": 4},
            }
        ),
        out,
    )
    return out


def test_a_table_is_learned_as_texts_and_scored(solver, capsys):
    facts = json.loads((solver / "scores.json").read_text())
    scores = facts["scores"]["test"]
    assert scores["parts"]["answers"]["n"] == 40
    assert scores["parts"]["answers"]["accuracy"] > 0.9
    assert "accuracy" in scores  # of the next token, as ever
    assert scores == load(solver, device="cpu").evaluate("test").scores
    assert main(["evaluate", str(solver)]) == 0
    out = capsys.readouterr().out
    assert "test: answers" in out
    assert main(["evaluate", str(solver), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == scores
    page = (solver / "report.html").read_text()
    assert "Answers, as texts to go on with" in page


def items_of(n):
    return [Item(f"{text} feels", "warm") for text in rows(n, 5)]


def test_options_are_chosen_as_choose_chooses(solver):
    run = load(solver, device="cpu")
    items, options = items_of(12), ("cold", "tea", "warm")
    found = exercise_scores(run, [PromptedTask("e", tuple(items), options)])["e"]
    best = [
        max(shares, key=shares.get).strip()
        for shares in (run.choose(item.prompt, [f" {one}" for one in options]) for item in items)
    ]
    assert found == {"n": 12, "accuracy": sum(one == "warm" for one in best) / 12}
    assert 0 < found["accuracy"] < 1


def test_answers_are_written_as_generate_writes(solver):
    run = load(solver, device="cpu")
    items = items_of(12)
    found = exercise_scores(run, [PromptedTask("e", tuple(items), ())])["e"]
    written = [run.generate(item.prompt, temperature=0, max_new=4).strip() for item in items]
    assert found["exact_match"] == sum(one == "warm" for one in written) / 12
    assert 0 < found["exact_match"] < 1
    assert {"bleu", "bleu_signature", "chrf", "chrf_signature"} < {*found}


def test_what_is_too_long_counts_as_not_answered(solver):
    run = load(solver, device="cpu")
    long = Item("tea " * 30, "warm")
    right = next(item for item in items_of(12) if "red" in item.prompt)
    for options, name in ((("cold", "warm"), "accuracy"), ((), "exact_match")):
        found = exercise_scores(run, [PromptedTask("e", (long, right), options)])["e"]
        assert found[name] == 0.5


def test_prompts_are_for_language_models(table):
    recipe = recipe_from(
        {
            "task": "classification",
            "data": {"train": str(table / "train.tsv"), "prompt": "{text} ="},
            "model": {"preset": "bert"},
            "train": {"max_steps": 1},
        }
    )
    with pytest.raises(ConfigError, match=r"data\.prompt=.* does nothing in the task classif"):
        prepare(recipe, CPU)


def test_rows_that_are_held_out_are_a_test_set(solver, table, capsys):
    words = ["evaluate", str(solver), "--json", "--data", str(table / "held.yaml")]
    data = {"train": str(table / "train.tsv"), "hold_out": 30, "prompt": "{text} feels"}
    recipe = {"task": "language", "data": data, "model": {"preset": "gpt"}}
    (table / "held.yaml").write_text(json.dumps({**recipe, "train": {"max_steps": 1}}))
    assert main(words) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["split"] == "test"
    assert scores["n"] >= 30
    assert scores["parts"]["answers"]["accuracy"] > 0.9


def test_texts_that_were_written_are_shown_with_their_signatures(solver, table, capsys):
    texts = [f"{text}\t{text.split()[-1]} {i}\n" for i, text in enumerate(rows(30, 3))]
    (table / "written.tsv").write_text("".join(texts))
    data = {"train": str(table / "written.tsv"), "prompt": "{text} feels"}
    recipe = {"task": "language", "data": data, "model": {"preset": "gpt"}}
    (table / "written.yaml").write_text(json.dumps({**recipe, "train": {"max_steps": 1}}))
    assert main(["evaluate", str(solver), "--data", str(table / "written.yaml")]) == 0
    out = capsys.readouterr().out
    assert "valid: answers" in out
    assert "answers: nrefs:1|case:mixed|eff:no|tok:13a" in out
