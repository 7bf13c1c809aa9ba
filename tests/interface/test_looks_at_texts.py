"""``regard explain`` and ``regard heads`` for encoders and language models, as typed."""

import json

import pytest
from chats import chat_folder
from looked_at import LABELLED, encoder_run, saved, writer_run

import regard
from regard.tasks.base import TASKS


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder a task; the classifier has data, the others have none."""
    home = tmp_path_factory.mktemp("texts")
    (home / "train.tsv").write_text(LABELLED)
    made = {
        "classification": encoder_run("classification", folder=home / "own", data=home),
        "pairs": encoder_run("classification", pairs=True, folder=home / "pairs"),
        "masked": encoder_run("masked", folder=home / "masked"),
        "language": writer_run(folder=home / "language"),
    }
    return {name: saved(run) for name, run in made.items()}


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("classification", ["a b c"]),
        ("pairs", ["a b", "c d"]),
        ("pairs", ["a b\tc d"]),
        ("masked", ["a <mask> c"]),
        ("language", ["a b", "--max-tokens", "3"]),
        ("language", ["a b", "--target", "c d"]),
    ],
    ids=str,
)
def test_the_program_shows_what_python_gives(folders, run, kind, words):
    code, out, err = run("explain", folders[kind], *words, "--format", "json")
    assert (code, err) == (0, "")
    opened = regard.load(folders[kind])
    named = dict(zip(words[1::2], words[2::2], strict=False)) if kind == "language" else {}
    if "--max-tokens" in named:
        look = opened.explain(words[0], max_tokens=3)
    else:
        look = opened.explain(words[0], *[word for word in words[1:] if word[0] != "-"])
    assert json.loads(out) == look.as_json()
    code, out, err = run("explain", folders[kind], *words)
    assert (code, err) == (0, "")
    assert next(iter(look.attentions)) in out
    assert look.outcome.text.strip() in out


def test_the_steps_of_a_token_and_unknown_words_are_told(folders, run):
    code, out, err = run("explain", folders["masked"], "a zebra <mask>", "--token", "a")
    assert code == 0
    assert "a in encoder.self, layer 1, head 0: 1 query" in out
    assert "1 unknown word read as <unk>: zebra" in err
    code, out, _ = run("explain", folders["language"], "a b", "--target", "c", "--token", "c")
    assert code == 0
    assert "c in decoder.self, layer 2, head 0" in out


@pytest.mark.parametrize(
    ("kind", "words", "told"),
    [
        ("classification", ["a", "b"], "reads each text alone"),
        ("pairs", ["a b"], "reads pairs of texts"),
        ("masked", ["a", "--target", "b"], "writes nothing: leave out --target"),
        ("masked", ["a", "--max-tokens", "2"], "leave out --max-tokens"),
        ("language", ["a", "b"], "reads one text: give one, not two"),
        ("language", ["a", "--max-tokens", "-1"], "--max-tokens"),
        ("language", ["a", "--attention", "encoder.self"], "known: decoder.self"),
        ("classification", [""], "nothing to look at"),
        ("classification", ["a", "--token", "x"], "no row of encoder.self is 'x'"),
    ],
    ids=str,
)
def test_what_is_wrong_is_told_in_one_line(folders, refused, kind, words, told):
    assert told in refused("explain", folders[kind], *words)


def test_heads_of_a_runs_own_data_and_of_texts(folders, run, refused, tmp_path):
    code, out, err = run("heads", folders["classification"], "--json", "--sentences", "3")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["task"], found["n"], len(found["rows"])) == ("classification", 3, 6)
    assert all("accuracy_change" in row for row in found["rows"])
    texts = tmp_path / "some.txt"
    texts.write_text("a b c\n\nd e\n")
    for kind, worth in (("language", "Δppl"), ("masked", "Δacc"), ("classification", "moved")):
        code, out, err = run("heads", folders[kind], "--texts", texts)
        assert (code, err) == (0, "")
        assert worth in out
        assert "2 texts of some.txt" in out
    for form, begin in (("svg", "<svg"), ("csv", "name,layer"), ("tex", "\\begin{table}")):
        code, out, _ = run("heads", folders["language"], "--texts", texts, "--format", form)
        assert (code, out[: len(begin)]) == (0, begin)
    told = refused("heads", folders["classification"], "--texts", texts, "--split", "valid")
    assert "give one" in told


def test_a_run_without_data_says_so_and_what_to_do(folders, refused, run_path, tmp_path):
    told = refused("heads", folders["masked"])
    assert "was imported and has no data of its own" in told
    assert "--texts FILE" in told
    told = refused("evaluate", folders["language"])
    assert "was imported and has no data of its own" in told
    assert "--data RECIPE" in told
    (tmp_path / "some.txt").write_text("a b\n")
    told = refused("heads", run_path, "--texts", tmp_path / "some.txt")
    assert "heads of a translator are measured on pairs" in told


def test_a_file_that_lies_here_by_chance_is_not_the_data_of_an_imported_run(
    refused, run, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    imported = chat_folder(tmp_path, template=None)
    (tmp_path / "train.txt").write_text("somebody else's text\n" * 30)
    told = refused("evaluate", imported)
    assert "was imported and has no data of its own; name a file" in told
    examples = TASKS["language"].examples(regard.load(imported, device="cpu"))
    shown = [example["text"] for example in examples]
    assert not any("somebody" in text for text in shown)
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        "task: language\ndata: {train: train.txt}\nmodel: {preset: gpt}\ntrain: {max_steps: 1}\n"
    )
    code, out, _ = run("evaluate", imported, "--data", recipe, "--split", "train", "--json")
    assert code == 0
    assert json.loads(out)["perplexity"] > 1
