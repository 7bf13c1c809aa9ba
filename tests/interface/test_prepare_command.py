"""``regard prepare`` fills a folder of shards, and ``regard train`` learns from it."""

import json

import pytest
import yaml

from regard.data import sharding
from regard.runs.train import train
from regard.tasks.recipe import recipe_from

TINY = {"d_model": 16, "n_heads": 2, "n_layers": 1, "d_ff": 32, "max_len": 16}


def lines(n, first=0):
    words = [f"w{i % 9} w{i % 5} w{i % 7}{' w1 w2' * (i % 2)}" for i in range(first, first + n)]
    return "".join(f"{one}\t{' '.join(reversed(one.split()))}\n" for one in words)


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """Write a recipe of 240 pairs in two files, with changes; -> its settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sharding, "CHARACTERS", 400)
    for part in range(2):
        (tmp_path / f"{part}.tsv").write_text(lines(120, 120 * part))
    (tmp_path / "valid.tsv").write_text(lines(9, 500))

    def write(name="mine.yaml", **changes):
        asked = {
            "data": {
                "train": "?.tsv",
                "valid": "valid.tsv",
                "shards": "shards",
                "window_tokens": 400,
            },
            "text": {"kind": "word"},
            "model": {"preset": "transformer", "size": "tiny", **TINY},
            "train": {
                "max_steps": 16,
                "batch_tokens": 100,
                "save_every": 5,
                "eval_every": 9,
                "log_every": 3,
            },
        }
        for section, some in changes.items():
            asked[section] = {**asked.get(section, {}), **some}
        asked["data"] = {key: value for key, value in asked["data"].items() if value is not None}
        (tmp_path / name).write_text(yaml.safe_dump(asked))
        return asked

    return write


def test_a_recipe_is_prepared_once_and_trained_from_its_shards(run, recipe, tmp_path):
    recipe()
    code, out, err = run("prepare", "mine.yaml", "--workers", 2)
    assert (code, err) == (0, "")
    assert out.startswith("shards: 240 pairs in ")
    for name in "01":
        (tmp_path / f"{name}.tsv").unlink()  # nobody needs them now
    changes = ("--set", "max_steps=3", "--set", "model.max_len=8")  # nothing was longer
    code, out, _ = run("train", "mine.yaml", "--out", "run", *changes)
    assert code == 0
    assert "reached max_steps=3" in out
    code, out, _ = run("evaluate", "run", "--split", "valid", "--json")
    assert json.loads(out)["n"] == 9


def test_a_folder_may_be_named_on_the_command_line(run, recipe):
    recipe(data={"shards": None})
    assert run("prepare", "mine.yaml", "--out", "here", "--workers", 1)[0] == 0
    code, out, _ = run("train", "mine.yaml", "--dry-run", "--set", "data.shards=here")
    assert code == 0
    assert out.startswith("training pairs     240\n")


@pytest.mark.parametrize("task", ["translation", "language"])
def test_a_training_from_shards_can_be_cut_in_two(run, recipe, tmp_path, task):
    changes = {}
    if task == "language":
        for name in ("0", "1", "valid"):
            text = (tmp_path / f"{name}.tsv").read_text()
            (tmp_path / f"{name}.txt").write_text(text.replace("\t", " "))
        mix = [{"train": "0.txt", "weight": 3}, {"train": "1.txt"}]
        data = {"train": None, "valid": "valid.txt", "mix": mix}
        changes = {"data": data, "model": {"preset": "gpt"}}
    asked = {"task": task, **recipe(**changes)}
    if task == "language":
        asked["model"].pop("size")
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(asked))
    assert run("prepare", "mine.yaml", "--workers", 1)[0] == 0

    class StopError(Exception):
        pass

    def stop(line):
        if line["step"] == 12:
            raise StopError

    def trained(out, **how):
        train(recipe_from(asked), tmp_path / out, test_sets=(), device="cpu", **how)
        return (tmp_path / out / "model.safetensors").read_bytes()

    whole = trained("whole")
    with pytest.raises(StopError):
        trained("cut", observers=[stop])
    assert trained("cut", resume=True) == whole


@pytest.fixture
def prepared(run, recipe):
    recipe()
    assert run("prepare", "mine.yaml", "--workers", 1)[0] == 0
    return recipe


@pytest.mark.usefixtures("prepared")
def test_a_shard_whose_digest_is_wrong_ends_the_training_in_one_line(run, tmp_path):
    path = tmp_path / "shards" / "000002.npy"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    code, _, said = run("train", "mine.yaml", "--out", "run")
    *_, begun, told = said.splitlines()  # it is read when its turn comes
    assert (code, " parameters into run, until " in begun) == (2, True)
    assert "000002.npy is damaged: its digest is" in told
    assert "`regard prepare` with the same recipe" in told


def test_shards_that_do_not_belong_to_a_training_are_refused(prepared, refused, tmp_path):
    told = refused("train", "mine.yaml", "--out", "run", "--set", "vocab_size=20")
    assert "shards of another recipe: text.vocab_size was 8000 and is now 20" in told
    told = refused("train", "mine.yaml", "--out", "run", "--set", "model.max_len=5")
    assert "shards of another recipe: model.max_len was 16 and is now 5" in told
    told = refused("train", "mine.yaml", "--out", "run", "--set", "data.columns=[2, 1]")
    assert "data.columns was None and is now [2, 1]" in told
    tokenizer = tmp_path / "shards" / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace("w8", "w9"))
    told = refused("train", "mine.yaml", "--out", "run")
    assert "holds ids of the tokenizer" in told
    assert "but this run has the tokenizer" in told
    (tmp_path / "shards" / "000001.npy").unlink()
    assert "000001.npy is missing" in refused("train", "mine.yaml", "--out", "run")


def test_what_needs_texts_is_refused_with_shards(prepared, refused):
    told = refused("train", "mine.yaml", "--set", "bpe_dropout=0.1", "--set", "text.kind=bpe")
    assert "text.bpe_dropout needs the texts of all pairs, and data.shards has their ids" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--workers", 0], "Invalid value for '--workers'"),
        (["--set", "data.train=z*.tsv"], "no file matches the pattern"),
        (["--set", "data.train=['?.tsv', valid.tsv]"], "matches 2 files and valid.tsv 1"),
        (["--set", "data.valid=null"], "nothing is held out of shards; name files in data.valid"),
        (["--set", "data.shards=null"], "where to? name a folder with --out"),
        (["--set", "hold_out=5"], "data.hold_out needs all texts in memory"),
        (
            ["--set", "data.train=null", "--set", "data.mix=[{train: 0.tsv, weight: 0}]"],
            "data.mix.0.weight=0: input should be greater than 0",
        ),
        (
            ["--set", "data.train=null", "--set", "data.mix=[{train: 0.tsv, wait: 1}]"],
            "unknown setting 'data.mix.0.wait'",
        ),
        (["--set", "data.mix=[{train: 0.tsv}]"], "data.mix names files too; keep one of them"),
    ],
)
def test_what_cannot_be_prepared_is_told(recipe, refused, tmp_path, words, told):
    recipe()
    assert told in refused("prepare", "mine.yaml", *words)
    assert not (tmp_path / "shards").exists()


def test_only_tasks_that_read_texts_have_shards(recipe, refused, tmp_path):
    asked = recipe()
    asked |= {"task": "classification", "model": {"preset": "bert"}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(asked))
    told = refused("prepare", "mine.yaml")
    assert "data.shards=shards does nothing in the task classification" in told


def test_a_training_without_shards_says_what_to_do(recipe, refused):
    recipe()
    told = refused("train", "mine.yaml", "--out", "run")
    assert told == "regard: shards holds no shards: run `regard prepare` with this recipe first\n"
