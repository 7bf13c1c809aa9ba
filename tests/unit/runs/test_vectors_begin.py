"""``train.vectors``: embeddings of every task begin as word vectors."""

import pytest
import torch
import yaml
from encoders import labelled, scored, settings
from letters import pairs

import regard
from regard.checkpoints.run_folder import RunFolder, read_weights
from regard.core.errors import ConfigError, DataError
from regard.runs.prepare import prepare
from regard.runs.train import train
from regard.tasks.recipe import recipe_from

CPU = torch.device("cpu")
WIDTH = 16
VECTORS = {word: [float((7 * i + j) % 5 - 2) for j in range(WIDTH)] for i, word in enumerate("abx")}


@pytest.fixture
def file(tmp_path):
    return write(tmp_path / "some.vec")


def write(path, vectors=VECTORS):
    rows = [f"{word} {' '.join(map(str, vector))}\n" for word, vector in vectors.items()]
    path.write_text(f"{len(vectors)} {WIDTH}\n{''.join(rows)}")
    return str(path)


def plain(n, seed):
    return labelled(n, seed).replace("\tmany a", "").replace("\tfew a", "")


def translated(n, seed):
    return "".join(f"{source}\t{target.upper()}\n" for source, target in pairs(n, seed))


TASKS = {
    "classification": (labelled, {}),
    "masked": (plain, {}),
    "similarity": (scored, {}),
    "language": (plain, {"preset": "gpt"}),
    "translation": (translated, {"preset": "transformer"}),
}


def asked(task, folder, **changes):
    lines, model = TASKS[task]
    model = {**model, **changes.pop("model", {})}
    raw = settings(task, folder, lines, model=model, **changes)
    if task == "language":
        for name in ("train", "valid", "test"):
            (folder / f"{name}.tsv").rename(folder / f"{name}.txt")
            raw["data"][name] = f"{name}.txt"
    return raw


def begun(raw, **train):
    """The model before its first step, and what is said of it."""
    recipe = recipe_from({**raw, "train": {**raw["train"], **train}})
    prepared = prepare(recipe, CPU)
    return dict(prepared.model.named_parameters()), prepared


def cosine(a, b):
    return torch.cosine_similarity(a, torch.tensor(b), dim=0).item()


@pytest.mark.parametrize("task", TASKS)
def test_words_that_a_file_has_begin_as_it_says_and_all_else_as_drawn(task, tmp_path, file):
    raw = asked(task, tmp_path)
    drawn, fresh = begun(raw)
    given, prepared = begun(raw, vectors=file)
    table = "encoder.embedding.tokens" if task == "translation" else "embedding.tokens"
    name = f"{table}.weight"
    tokenizer = prepared.vocabularies[0]
    rows = tokenizer.encode("a b")
    assert cosine(given[name][rows[0]], VECTORS["a"]) == pytest.approx(1)
    assert cosine(given[name][rows[1]], VECTORS["b"]) == pytest.approx(1)
    if task == "translation":
        rows += tokenizer.encode("A B")  # which the file has in small letters only
        assert torch.equal(given[name][rows[0]], given[name][rows[2]])
    words = 16 if task == "translation" else 8
    assert prepared.notes == (
        *fresh.notes, f"{table}: {len(rows)} of {words} words begin as vectors of {file}",
    )  # fmt: skip
    others = [row for row in range(tokenizer.n_vocab) if row not in rows]
    assert torch.equal(given[name][others], drawn[name][others])
    assert all(torch.equal(given[one], drawn[one]) for one in drawn if one != name)


@pytest.mark.parametrize("preset", ["bahdanau2015", "cheng2016", "transformer"])
def test_two_files_are_for_source_and_target(preset, tmp_path, file):
    other = write(tmp_path / "other.vec", {"A": VECTORS["b"], "a": VECTORS["x"]})
    sizes = {} if preset == "transformer" else {"n_heads": None, "n_layers": None, "d_ff": None}
    raw = asked("translation", tmp_path, model={"preset": preset, **sizes})
    raw["text"]["shared"] = False
    given, prepared = begun(raw, vectors=[file, other])
    tables = [name for name in given if name.endswith("tokens.weight")]
    source, target = prepared.vocabularies
    assert cosine(given[tables[0]][source.encode("a")[0]], VECTORS["a"]) == pytest.approx(1)
    assert cosine(given[tables[1]][target.encode("A")[0]], VECTORS["b"]) == pytest.approx(1)
    assert [note.split(" words")[0].split(": ")[1] for note in prepared.notes] == [
        "2 of 8", "1 of 8",
    ]  # fmt: skip


def test_frozen_they_stay_as_they_begin_and_the_file_is_not_needed_again(tmp_path, file):
    raw = asked("classification", tmp_path)
    recipe = recipe_from(
        {**raw, "train": {**raw["train"], "vectors": file, "freeze": ["*tokens.weight"]}}
    )

    class Cut(Exception):  # noqa: N818
        pass

    def cut(line):
        if line["step"] == 15:
            raise Cut

    first = prepare(recipe, CPU).model.embedding.tokens.weight
    with pytest.raises(Cut):
        train(recipe, tmp_path / "run", observers=[cut])
    (tmp_path / "some.vec").unlink()
    train(recipe, tmp_path / "run", resume=True)
    last = read_weights(RunFolder(tmp_path / "run"))["embedding.tokens.weight"]
    assert torch.equal(first, last)
    assert regard.load(tmp_path / "run").classify("a b") in ("few a", "many a")
    kept = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert kept["train"]["vectors"] == file
    with pytest.raises(DataError, match="no file some.vec"):
        train(recipe, tmp_path / "again")


def test_what_does_not_fit_is_told(tmp_path, file):
    raw = asked("classification", tmp_path)
    with pytest.raises(ConfigError, match="vectors of 16 numbers, but model.d_model is 18; set mo"):
        begun({**raw, "model": {**raw["model"], "d_model": 18}}, vectors=file)
    with pytest.raises(ConfigError, match="tokens here are of kind char; set text.kind=word"):
        begun({**raw, "text": {"kind": "char"}}, vectors=file)
    with pytest.raises(ConfigError, match="names two files, but there is one embedding, embedding"):
        begun(raw, vectors=[file, file])
    strange = write(tmp_path / "strange.vec", {"y": VECTORS["a"], "z": VECTORS["b"]})
    with pytest.raises(DataError, match="none of the words of the training texts is in .*strange"):
        begun(raw, vectors=strange)
    with pytest.raises(ConfigError, match="train.init brings embeddings of its own; keep one"):
        begun(raw, vectors=file, init="runs/x")
    with pytest.raises(ConfigError, match="expected a file name or two of them, .* but found 3"):
        begun(raw, vectors=3)
