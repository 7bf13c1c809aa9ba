"""``regard compare``, as typed."""

import io
import json
import os
import signal

import pytest
import yaml
from rich.console import Console

from regard.cli.main import main
from regard.runs.comparison import mean_and_spread
from regard.visual.tables import Table, pieces, show_table


@pytest.fixture
def recipe(settings, tmp_path):
    model = {**settings["model"], "d_model": 16, "d_ff": 24}
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump({**settings, "model": model}))
    return str(path)


@pytest.fixture
def words(recipe, tmp_path):
    data = ["--data", recipe, "--out", str(tmp_path / "out")]
    return ["compare", recipe, *data, "--budget", "2e8flops", "--seeds", "1"]


def test_json_first_then_the_table_of_what_is_there(words, capsys, tmp_path):
    assert main([*words, "--json"]) == 0
    shown, told = capsys.readouterr()
    (row,) = json.loads(shown)["systems"]
    assert row["system"] == "small"
    assert row.keys() >= {
        "parameters", "training_flops", "grid_flops", "seconds", "lr", "bleu", "bleu_deviation",
        "chrf", "exact_match", "p_value", "aer", "by_length", "error",
    }  # fmt: skip
    first, grid, second, *_ = told.splitlines()
    assert first.startswith("regard: 2.875 × 2e8flops to go, or more: how long")
    assert grid.startswith(
        "regard: small: learning rate: tries 0.0025, 0.005, 0.01, around 0.005 ("
    )
    assert second == "regard: small: trying learning rate 0.0025, 0.5 of the budget"
    assert told.count(" to go\n") == len(row["lr_grid"])  # after each but the last
    assert json.loads((tmp_path / "out" / "comparison.json").read_text()) == json.loads(shown)

    assert main(words) == 0
    shown, told = capsys.readouterr()
    assert told == "regard: all trainings were done already\n"
    assert f"{row['parameters']:,}" in shown
    assert "version:" in shown  # the signatures
    assert "BLEU by source length" in shown

    assert main([*words, "--budget", "3e8flops"]) == 2
    assert "was begun with other settings: budget was '2e8flops'" in capsys.readouterr().err


def test_nobody_at_work_is_refused(words, capsys):
    assert main([*words, "--jobs", "0"]) == 2
    assert "--jobs 0: at least one must work" in capsys.readouterr().err


def press(*_words, **_more):
    os.kill(os.getpid(), signal.SIGINT)
    return "pressed"


@pytest.mark.parametrize(
    "moment", ["regard.runs.progress.described", "regard.runs.trainings.read_metrics"]
)
def test_a_signal_ends_it_with_a_line_that_says_how_to_go_on(words, capsys, monkeypatch, moment):
    """In the middle of a training, or after it."""
    monkeypatch.setattr(moment, press)
    assert main(words) == 128 + signal.SIGINT
    told = capsys.readouterr().err
    assert "regard: stopped by SIGINT; all is saved in " in told
    assert told.endswith("the same command goes on from there\n")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--budget", "ten"], "such as 3e12flops, 5e6tokens or 10min, but found 'ten'"),
        (["--data", "nowhere"], "no data 'nowhere'"),
        (["--seeds", "0"], "--seeds"),
        (["transfomer"], "did you mean 'transformer'?"),
    ],
)
def test_a_wrong_word_is_one_line_and_exit_code_2(words, capsys, wrong, message):
    assert main([*words, *wrong]) == 2
    shown, told = capsys.readouterr()
    assert shown == ""
    assert told.count("\n") == 1
    assert message in told


def test_no_system_is_an_error(capsys):
    assert main(["compare"]) == 2
    assert "SYSTEM" in capsys.readouterr().err


def test_a_wide_table_is_shown_in_pieces_that_fit():
    table = Table("", ["system", "aaaa", "bbbb", "cccc"], [["x", "1", "2", "3"]])
    (whole,) = pieces(table, 30, margin=3)
    assert whole == table
    first, second = pieces(table, 29, margin=3)
    assert (first.header, first.rows) == (["system", "aaaa", "bbbb"], [["x", "1", "2"]])
    assert (second.header, second.rows) == (["system", "cccc"], [["x", "3"]])
    assert len(pieces(table, 4, margin=3)) == 3  # one column at least


def test_a_deviation_is_shown_with_its_spaces_in_a_terminal():
    table = Table("", ["system", "BLEU"], [["x", mean_and_spread(0.04, 0.001, 1, 2)]])
    text = io.StringIO()
    show_table(table, Console(file=text, width=40), ruled=True)
    assert "0.04\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.00" in text.getvalue()


@pytest.mark.parametrize("ruled", [False, True])
@pytest.mark.parametrize("width", [22, 28, 29, 30, 31, 32])
def test_no_cell_is_cut_at_any_width(width, ruled):
    table = Table("", ["system", "aaaa", "bbbb", "cccc"], [["x", "1.25", "2", "3.5"]])
    text = io.StringIO()
    show_table(table, Console(file=text, width=width), ruled=ruled)
    shown = text.getvalue()
    assert all(cell in shown for cell in (*table.header, *table.rows[0]))
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
