"""``regard evaluate RUN FILE``: any run, scored on a file of the user's."""

import json
from pathlib import Path

import pytest
from encoders import labelled, labelled_pairs, scored, settings, texts

from regard.runs.train import train
from regard.tasks.recipe import recipe_from

RELATIONS = ("entailment", "neutral", "contradiction")


def plain(n, seed):
    return "".join(f"{text}\n" for text in texts(n, seed))


def related(n, seed):
    """Pairs of texts, and which of three relations they have, as JSON lines."""
    rows = zip(texts(n, seed), texts(n, seed + 1000), strict=True)
    entries = [
        {"text": a, "other": b, "label": RELATIONS[(a[0] > "c") + (a[0] > "f")], "genre": i}
        for i, (a, b) in enumerate(rows)
    ]
    return "".join(f"{json.dumps(entry)}\n" for entry in entries)


def swapped(n, seed):
    """As ``labelled``, the label first."""
    rows = (line.split("\t") for line in labelled(n, seed).splitlines())
    return "".join(f"{label}\t{text}\n" for text, label in rows)


def entries(n, seed):
    """As ``labelled``, as JSON lines."""
    rows = (line.split("\t") for line in labelled(n, seed).splitlines())
    return "".join(f"{json.dumps({'text': text, 'label': label})}\n" for text, label in rows)


def questions(n, seed):
    """What is the first letter of a text?"""
    return "".join(f"the first ?\t{text}\t{text[0]}\n" for text in texts(n, seed))


KINDS = {
    "classification": (labelled, "tsv"),
    "columns": (swapped, "tsv"),
    "pairs": (labelled_pairs, "tsv"),
    "relations": (related, "jsonl"),
    "similarity": (scored, "tsv"),
    "masked": (plain, "txt"),
    "answers": (questions, "tsv"),
    "language": (plain, "txt"),
    "prompt": (labelled, "tsv"),
    "prompt in JSON": (entries, "jsonl"),
}
TASKS = {
    **dict.fromkeys(("columns", "pairs", "relations"), "classification"),
    **dict.fromkeys(("prompt", "prompt in JSON"), "language"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A short run of each kind, its files beside it."""

    def trained(kind):
        folder = tmp_path_factory.mktemp(kind)
        lines, ending = KINDS[kind]
        raw = settings(TASKS.get(kind, kind), folder, lines)
        for name in ("train", "valid", "test"):
            (folder / f"{name}.tsv").rename(folder / f"{name}.{ending}")
            raw["data"][name] = f"{name}.{ending}"
        if kind == "columns":
            raw["data"]["columns"] = [2, 1]
        if raw["task"] == "language":
            raw["model"]["preset"] = "gpt"
        if kind.startswith("prompt"):
            raw["data"]["prompt"] = "{text} which ?"
        train(recipe_from(raw), folder / "run", test_sets=["test"])
        return folder / "run"

    return {kind: trained(kind) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_scored_as_the_split_that_it_is(runs, run, kind):
    path = runs[kind].parent / f"test.{KINDS[kind][1]}"
    code, out, _ = run("evaluate", runs[kind], path, "--json")
    assert code == 0
    known = json.loads((runs[kind] / "scores.json").read_text())["scores"]["test"]
    found, parts = json.loads(out), known.pop("parts", None)
    assert found.pop("parts", None) == parts
    assert ("answers" in (parts or {})) == kind.startswith("prompt")
    assert found == pytest.approx({**known, "split": path.name})
    shown = run("evaluate", runs[kind], path)[1]
    assert path.name in shown


def test_pairs_from_json_lines_are_learned_classified_and_scored(runs, run):
    facts = json.loads((runs["relations"] / "labels.json").read_text())
    assert facts == {"labels": sorted(RELATIONS), "pairs": True}
    _, out, _ = run("classify", runs["relations"], stdin="a b c\tc b\n")
    assert out.split("\t")[0] in RELATIONS
    assert (
        "standard input, line 2: this run was trained on pairs"
        in (run("classify", runs["relations"], stdin="a\tb\na\n")[2])
    )


def test_a_translator_is_scored_on_one_file_as_on_two(run, run_path, corpus, tmp_path):
    sides = [Path(name).read_text().splitlines() for name in corpus["test"]]
    both = tmp_path / "both.tsv"
    both.write_text("".join(f"{a}\t{b}\n" for a, b in zip(*sides, strict=True)))
    found = json.loads(run("evaluate", run_path, both, "--json")[1])
    source, reference = corpus["test"]
    flags = ("--source", source, "--reference", reference, "--json")
    wanted = json.loads(run("evaluate", run_path, *flags)[1])
    assert found == {**wanted, "split": "both.tsv"}


def test_rows_for_a_prompt_that_are_passed_over_are_told(run, runs, tmp_path):
    path = tmp_path / "mine.tsv"
    path.write_text("text\tlabel\na b\tfew a\n\na\tmany a\n")
    _, out, err = run("evaluate", runs["prompt"], path, "--stride", 4, "--json")
    found = json.loads(out)
    assert (found["split"], found["n"], found["stride"]) == ("mine.tsv", 2, 4)
    assert found["parts"]["answers"]["n"] == 2
    assert err.splitlines() == [
        "regard: mine.tsv: 1 lines skipped, being empty in some part",
        "regard: mine.tsv: 1 header line passed over",
    ]


def test_windows_of_a_language_model_may_overlap_on_a_file_too(run, runs):
    path = runs["language"].parent / "test.txt"
    found = json.loads(run("evaluate", runs["language"], path, "--stride", 4, "--json")[1])
    assert found["stride"] == 4


def test_what_was_passed_over_or_cut_is_told(run, runs, tmp_path):
    path = tmp_path / "mine.tsv"
    path.write_text(f"text\tlabel\na b\tfew a\n\n{'a ' * 30}\tmany a\n")
    code, _, err = run("evaluate", runs["classification"], path)
    assert code == 0
    assert err.splitlines() == [
        "regard: mine.tsv: 1 lines skipped, being empty in some part",
        "regard: mine.tsv: 1 header line passed over",
        "regard: mine.tsv: 1 text cut to 16 tokens",
    ]


@pytest.mark.parametrize(
    ("kind", "lines", "message"),
    [
        (
            "classification",
            "a\tfew a\nb\tsome a\n",
            ":2: label 'some a' was not seen in training, which knows few a, many a; correct it",
        ),
        ("pairs", "a\tsame\n", ":1: expected two texts with a label, as in training, but found"),
        ("classification", "a\tb\tfew a\n", ":1: expected one text with a label, as in training"),
        ("similarity", "a\tb\tvery\n", ":1: expected a number as the score, but found 'very'"),
        ("classification", "\n", ": no example in it"),
    ],
)
def test_a_file_that_does_not_fit_is_told_with_its_line(
    refused, runs, tmp_path, kind, lines, message
):
    path = tmp_path / "mine.tsv"
    path.write_text(lines)
    assert f"{path}{message}" in refused("evaluate", runs[kind], path)


def test_a_file_says_by_itself_what_to_score_on(refused, run_path, runs, tmp_path):
    path = tmp_path / "mine.tsv"
    path.write_text("a\tfew a\n")
    for more in (("--split", "test"), ("--source", "a", "--reference", "b"), ("--data", "copy")):
        assert "mine.tsv says what to score on" in refused("evaluate", run_path, path, *more)
    message = refused("evaluate", runs["classification"], path, "--stride", 3)
    assert "--stride is for runs of the task language" in message
    assert "no file none.tsv" in refused("evaluate", runs["masked"], tmp_path / "none.tsv")


def test_only_texts_of_one_task_are_compared(runs, refused, run_path):
    folder = runs["classification"]
    files = ("evaluate", folder, folder.parent / "test.tsv", "--against")
    assert "compares texts, and a run for classification writes none" in refused(*files, folder)
    message = refused("evaluate", run_path, "--against", folder)
    assert f"{folder} is a run for classification, and this is a run for translation" in message
