"""``regard heads``."""

import csv
import json
import re

import pytest
from systems import untrained

import regard
from regard.cli.main import main
from regard.data.splits import load_records
from regard.runs.heads import head_measures
from regard.visual.heads import heads_text

KEYS = {
    *("name", "layer", "head", "entropy", "confidence", "self", "previous", "next", "first"),
    *("separator", "distance", "aer", "antecedent", "loss_change", "bleu_change"),
}


def test_the_command_prints_what_python_gives(run_path, capsys):
    assert main(["heads", str(run_path), "--json", "--sentences", "7"]) == 0
    shown = json.loads(capsys.readouterr().out)
    run = regard.load(run_path)
    assert shown == head_measures(run, load_records(run.recipe.data, "pair"), n=7).as_json()
    assert shown["n"] == 7
    assert len(shown["rows"]) == 6  # one layer a side, two heads, three attentions
    assert all(set(row) == KEYS for row in shown["rows"])
    assert len(shown["distances"]) == len(shown["map"]) == len(shown["clusters"]) == 6
    assert "not by itself an explanation" in shown["caveat"]


def test_for_a_person_there_are_tables_that_fit_and_the_caveat_beneath(run_path, capsys):
    assert main(["heads", str(run_path), "--split", "test", "--sentences", "5"]) == 0
    out = capsys.readouterr().out
    for word in ("encoder.self", "decoder.cross", "Δloss", "ΔBLEU", "5 sentences of test"):
        assert word in out
    assert "Attention is not by itself an explanation" in " ".join(out.split())
    assert len(re.findall(r"^ *0\.[01] ", out, re.MULTILINE)) == 6
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize("width", [30, 46, 80])
def test_a_narrow_terminal_gets_the_tables_in_pieces(run_path, width):
    run = regard.load(run_path)
    found = head_measures(run, load_records(run.recipe.data, "pair"), n=3).as_json()
    text = heads_text(found, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert text.count("Δloss\n") + text.count("Δloss ") >= 3


def test_pictures_and_tables_go_to_files(run_path, tmp_path, capsys):
    for kind, begin in (("svg", "<svg"), ("csv", "name,layer,head"), ("tex", r"\begin{table}")):
        out = tmp_path / f"heads.{kind}"
        words = ["heads", str(run_path), "--sentences", "3", "--format", kind]
        assert main([*words, "--out", str(out)]) == 0
        assert out.read_text().startswith(begin)
        assert main(words) == 0
        assert capsys.readouterr().out == out.read_text()
    assert "prefers-color-scheme: dark" in (tmp_path / "heads.svg").read_text()
    rows = list(csv.DictReader((tmp_path / "heads.csv").read_text().splitlines()))
    assert len(rows) == 6
    assert main(["heads", str(run_path), "--sentences", "3", "--out", str(tmp_path / "t.txt")]) == 0
    assert "\ndecoder.self\nhead  entropy" in (tmp_path / "t.txt").read_text()


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--json", "--format", "svg"], "give one"),
        (["--split", "tset"], "did you mean 'test'"),
        (["--sentences", "0"], "--sentences"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(run_path, capsys, words, hint):
    assert main(["heads", str(run_path), *words]) == 2
    error = capsys.readouterr().err
    assert hint in error
    assert error.count("\n") == 1


def test_a_system_without_attention_is_refused(monkeypatch, run_path, capsys):
    monkeypatch.setattr(
        "regard.tasks.opening.load", lambda *_args, **_more: untrained("sutskever2014")
    )
    assert main(["heads", str(run_path)]) == 2
    assert "has no attention" in capsys.readouterr().err
