"""``regard evaluate`` on files with gold alignments, and its ways to score text."""

import gzip
import json
import re
from functools import partial
from pathlib import Path

import pytest

from regard.cli.evaluate import show_scores


@pytest.fixture
def run(run):
    """Call the program with this command; -> exit code, standard output, standard error."""
    return partial(run, "evaluate")


@pytest.fixture
def hansards(tmp_path):
    """Five pairs of letters reversed, with their alignments."""
    pairs, gold = tmp_path / "pairs.gz", tmp_path / "gold.gz"
    pairs.write_bytes(gzip.compress(b"a b c  |||  c b a\n" * 5))
    gold.write_bytes(gzip.compress(b"1-3 2-2 3p1\n" * 5))
    return pairs, gold


def test_attention_is_scored_against_gold_alignments(run, run_path, hansards):
    code, out, _ = run(run_path, "--alignments", hansards[0], "--gold", hansards[1], "--json")
    assert code == 0
    scores = json.loads(out)
    assert (scores["task"], scores["split"], scores["n"]) == ("translation", "pairs.gz", 3)
    assert scores["chosen_on"] == 2
    assert scores["aer"] == scores["chosen_on_aer"]  # all sentences are the same
    assert scores["aer_by"].startswith("decoder.cross ")
    code, out, _ = run(run_path, "--alignments", hansards[0], "--gold", hansards[1])
    assert code == 0
    assert out.startswith(f"alignment error rate {100 * scores['aer']:.1f} % on 3 sentences (shuf")
    assert "chosen on the first 2 sentences" in out


def test_gold_that_does_not_fit_is_refused(refused, run_path, hansards, tmp_path):
    pairs, gold = hansards
    gold.write_bytes(gzip.compress(b"1-3 2-2 4p1\n" * 5))
    message = refused(run_path, "--alignments", pairs, "--gold", gold)
    assert f"{gold}:1: link 4p1 does not fit a pair of 3 and 3 words" in message
    gold.write_bytes(gzip.compress(b"1-3\n" * 4))
    assert "unequal length" in refused(run_path, "--alignments", pairs, "--gold", gold)
    nowhere = tmp_path / "gold"
    assert "no file gold in" in refused(run_path, "--alignments", pairs, "--gold", nowhere)


def test_what_does_not_go_together_is_refused(refused, run_path):
    assert "--alignments and --gold go together" in refused(run_path, "--alignments", "a")
    assert "--alignments and --gold go together" in refused(run_path, "--gold", "a")
    both = ("--alignments", "a", "--gold", "b")
    others = (("--split", "test"), ("--beam", "4"), ("--against", run_path))
    for more in (*others, ("--source", "a", "--reference", "b")):
        assert "nothing is translated" in refused(run_path, *both, *more)


def test_lower_cased_bleu_stands_beside_the_other(run, run_path, corpus, tmp_path):
    source, reference = corpus["test"]
    upper = tmp_path / "upper"
    upper.write_text(Path(reference).read_text().upper())
    plain = json.loads(run(run_path, "--source", source, "--reference", reference, "--json")[1])
    shouted = json.loads(run(run_path, "--source", source, "--reference", upper, "--json")[1])
    assert plain["bleu_lc"] == plain["bleu"] == shouted["bleu_lc"] > shouted["bleu"] == 0
    assert "case:lc" in plain["bleu_lc_signature"]
    _, out, _ = run(run_path, "--source", source, "--reference", upper)
    assert f"lower-cased BLEU {plain['bleu_lc']:.2f} (nrefs:1|case:lc|" in out


def test_several_references_of_a_source_count_together(run, run_path, corpus, tmp_path):
    import regard

    asked = list(dict.fromkeys(Path(corpus["test"][0]).read_text().splitlines()))
    said = regard.load(run_path).translate(asked)
    source, reference = tmp_path / "source", tmp_path / "reference"
    source.write_text("".join(f"{one}\n{one}\n" for one in asked))
    reference.write_text("".join(f"no\n{one}\n" for one in said))
    flags = (run_path, "--source", source, "--reference", reference)
    scores = json.loads(run(*flags, "--json")[1])
    assert scores["n"] == 2 * len(asked)
    assert scores["n_sources"] == len(asked)
    assert scores["bleu_multi"] == pytest.approx(100)
    assert scores["bleu"] < 100
    assert "nrefs:2" in scores["bleu_multi_signature"]
    assert (
        f"BLEU 100.00 with all references of each of {len(asked)} sources (nrefs:2|"
        in run(*flags)[1]
    )


def test_without_several_references_nothing_is_said_of_them(run, run_path, tmp_path):
    source, reference = tmp_path / "source", tmp_path / "reference"
    source.write_text("a b\na b\n")
    reference.write_text("b a\nb a\n")
    scores = json.loads(run(run_path, "--source", source, "--reference", reference, "--json")[1])
    assert "bleu_multi" not in scores


@pytest.fixture
def other_data(tmp_path):
    """A recipe with other data, and the same data as two files."""
    pairs = [("a b c", "c b a"), ("d e", "e d"), ("f", "f")]
    files = tmp_path / "s", tmp_path / "t"
    for file, side in zip(files, zip(*pairs, strict=True), strict=True):
        file.write_text("\n".join(side))
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    recipe = tmp_path / "other.yaml"
    recipe.write_text("data: {train: pairs.tsv, test: pairs.tsv}\ntrain: {max_steps: 1}\n")
    return recipe, files


def test_a_recipe_may_bring_other_data(run, run_path, other_data, tmp_path):
    recipe, (source, reference) = other_data
    where = ["--data", recipe, "--set", f"data.folder={tmp_path}"]
    code, out, _ = run(run_path, *where, "--json")
    assert code == 0
    found = json.loads(out)
    wanted = json.loads(run(run_path, "--source", source, "--reference", reference, "--json")[1])
    assert (found["n"], found["split"]) == (3, "test")
    for name in ("bleu", "chrf", "exact_match", "perplexity"):
        assert found[name] == wanted[name]


def test_other_data_is_of_the_same_task(refused, run_path, tmp_path):
    recipe = tmp_path / "words.yaml"
    recipe.write_text("task: language\ndata: {world: sentences}\nmodel: {preset: gpt}\n"
                      "train: {max_steps: 1}\n")  # fmt: skip
    message = refused(run_path, "--data", recipe)
    assert "is a recipe for language, and this is a run for translation" in message
    assert "--set changes the recipe of --data" in refused(run_path, "--set", "folder=x")


def test_two_runs_are_compared_on_the_same_texts(run, run_path, corpus):
    files = ("--source", corpus["test"][0], "--reference", corpus["test"][1])
    code, out, _ = run(run_path, *files, "--against", run_path, "--json")
    assert code == 0
    ahead = json.loads(out)["against"]
    assert set(ahead) >= {"bleu", "chrf", "gleu", "exact_match"}
    assert ahead["gleu"]["difference"] == 0.0
    assert ahead["gleu"]["p_value"] == 1.0
    code, out, _ = run(run_path, *files, "--against", run_path)
    assert code == 0
    assert re.search(rf"BLEU \S+, {re.escape(str(run_path))} \S+: \+0.00 \[.*\], p = 1.000", out)


def test_no_name_of_a_score_is_cut_off(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    scores = {"n": 1000, "rouge1": 30.1, "rouge2": 20.2, "rouge_l": 25.5, "facts": 0.5}
    scores |= {"two_hop_facts": 0.25, "log_perplexity": 1.2, "too_long": 1}
    show_scores({"test": scores})
    out = capsys.readouterr().out
    assert "log-perplexity" in out
    assert "…" not in out
    rules = [line for line in out.splitlines() if line.startswith("┏")]
    assert len(rules) > 1  # pieces
    assert max(map(len, rules)) <= 80
    assert "test: too long for the model and left empty: 1 text\n" in out
