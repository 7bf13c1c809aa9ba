"""``regard lab``: a list, one experiment, all of them."""

import json
import os
import signal
import subprocess
import sys

import pytest

from regard import lab
from regard.cli.main import main
from regard.core.signals import Stop
from regard.lab.result import _stem


def test_the_list_has_a_line_a_claim_and_needs_no_torch():
    code = (
        "import sys; from regard.cli.main import main; main(['lab']); "
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(lab.NAMES)


def test_every_claim_is_a_sentence():
    for name in lab.NAMES:
        claim = lab.claim(name)
        assert claim.endswith("."), name
        assert 20 < len(claim) <= 100, name


def test_the_list_as_json(capsys):
    assert main(["lab", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {"name": "rows", "claim": lab.claim("rows")} in listed


def test_one_experiment_shows_verdict_and_numbers(capsys, tmp_path):
    assert main(["lab", "rows", "--out", str(tmp_path / "lab")]) == 0
    shown = capsys.readouterr().out
    assert lab.claim("rows") in shown
    assert "The claim holds." in shown
    assert "largest error of a sum" in shown
    assert {p.name for p in (tmp_path / "lab").iterdir()} == {
        "index.html",
        "rows.html",
        "rows.json",
        "rows.svg",
        "rows-2.svg",
    }


def test_a_page_leads_to_the_experiments_that_were_there_before(tmp_path):
    facts = {"name": "linear", "claim": "lines are straight", "verdict": False}
    (tmp_path / "linear.json").write_text(json.dumps(facts))
    (tmp_path / "linear.html").write_text("its page")
    (tmp_path / "mine.json").write_text("[1, 2]")  # not ours
    assert main(["lab", "rows", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "index.html").read_text()
    assert 'id="rows"' in page
    assert '<a href="linear.html">linear</a>' in page
    assert "lines are straight" in page
    assert "mine" not in page
    assert (tmp_path / "linear.html").read_text() == "its page"


def test_one_experiment_as_json(capsys):
    assert main(["lab", "rows", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["verdict"] is True
    assert {"name", "claim", "numbers"} <= set(facts)


def test_a_place_that_cannot_be_written_to_is_refused_first(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert main(["lab", "rows", "--out", str(tmp_path / "file")]) == 2
    assert "is a file" in capsys.readouterr().err
    assert main(["lab", "--out", str(tmp_path)]) == 2
    assert "--out needs an experiment" in capsys.readouterr().err


def test_an_unknown_experiment(capsys):
    assert main(["lab", "rws"]) == 2
    assert "did you mean 'rows'" in capsys.readouterr().err


def test_a_keyword_can_be_changed_and_turn_the_verdict(capsys):
    assert main(["lab", "rows", "--set", "axis=-2"]) == 0
    assert "the claim does not hold." in capsys.readouterr().out
    assert main(["lab", "rows", "--set", "axes=-2"]) == 2
    assert "did you mean 'axis'" in capsys.readouterr().err
    assert main(["lab", "all", "--set", "seed=1"]) == 2
    assert "--set needs one experiment" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "setting", "message"),
    [
        ("context", "steps=0", "greater than or equal to 1"),
        ("context", "heads=[1,0]", "greater than or equal to 1"),
        ("context", "heads=[]", "at least 1 item"),
        ("walkthrough", "scores=[]", "at least 1 item"),
    ],
)
def test_counts_are_one_or_more_and_lists_have_something(capsys, name, setting, message):
    assert main(["lab", name, "--set", setting]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


def test_one_experiment_says_what_to_try(capsys):
    assert main(["lab", "rows"]) == 0
    assert f"Try it: {lab.LESSONS['rows'].command}" in capsys.readouterr().out


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_a_line(monkeypatch, capsys, kind):
    monkeypatch.setattr(lab, "experiment", lambda _name: lambda: os.kill(os.getpid(), kind))
    assert main(["lab", "rows"]) == 128 + kind
    assert capsys.readouterr().err == f"regard: stopped by {kind.name}\n"


def test_a_training_that_was_interrupted_ends_it_too(monkeypatch, capsys, tmp_path):
    def interrupted():
        raise Stop(signal.SIGINT)

    monkeypatch.setattr(lab, "experiment", lambda _name: interrupted)
    monkeypatch.chdir(tmp_path)
    assert main(["lab", "all"]) == 130
    first, last = capsys.readouterr().err.splitlines()
    wanted = f"{len(lab.NAMES)} experiments: about {lab.MINUTES} minutes on two CPU cores"
    assert first == f"regard: {wanted}"
    assert last == "regard: stopped by SIGINT"


@pytest.fixture
def two(monkeypatch):
    """A lab of two experiments, one of which breaks down."""

    def broken():
        raise ZeroDivisionError("no numbers today")

    known = lab.experiment
    monkeypatch.setattr(lab, "NAMES", ("rows", "linear"))
    monkeypatch.setattr(lab, "experiment", lambda name: broken if name == "linear" else known(name))


def test_all_go_on_when_one_breaks_down(two, capsys, tmp_path):
    assert main(["lab", "all", "--out", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert "1 of 1 claims hold" in out
    assert "linear broke down (ZeroDivisionError: no numbers today)" in err
    page = (tmp_path / "index.html").read_text()
    assert 'id="rows"' in page
    assert "linear could not be run" in page


def test_pictures_are_written_as_asked_for(tmp_path):
    assert main(["lab", "rows", "--out", str(tmp_path), "--figures", "pdf"]) == 0
    assert (tmp_path / "rows.pdf").read_bytes().startswith(b"%PDF")
    assert not (tmp_path / "rows.svg").exists()


def test_a_changed_experiment_is_no_verdict_on_the_claim(capsys, tmp_path):
    assert main(["lab", "rows", "--out", str(tmp_path)]) == 0
    honest = (tmp_path / "rows.json").read_text()
    capsys.readouterr()
    assert main(["lab", "rows", "--set", "axis=-2", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "[changed: axis=-2] So changed, the claim does not hold." in shown
    assert "Try it: regard lab rows\n" in shown
    assert (tmp_path / "rows.json").read_text() == honest
    assert json.loads((tmp_path / "rows-axis=-2.json").read_text())["changed"] == {"axis": -2}
    assert "changed: axis=-2" in (tmp_path / "rows-axis=-2.html").read_text()
    index = (tmp_path / "index.html").read_text()
    assert "1 of 1 claims hold. Not counted: 1 with changed settings." in index
    assert "changed: axis=-2" in index


def test_the_index_keeps_a_changed_experiment_apart_from_its_claim(tmp_path):
    assert main(["lab", "rows", "--set", "axis=-2", "--out", str(tmp_path)]) == 0
    assert main(["lab", "rows", "--out", str(tmp_path)]) == 0
    index = (tmp_path / "index.html").read_text()
    assert '<a href="#rows">rows</a>' in index
    assert '<a href="rows-axis=-2.html">rows</a>' in index
    assert "1 of 1 claims hold. Not counted: 1 with changed settings." in index


def test_files_of_two_changes_are_two(tmp_path):
    one, other = (_stem("relations", {"run": run}) for run in ("runs/a/b", "runs/ab"))
    assert one != other
    assert not {*"/[]: "} & {*one, *other}
    assert len(_stem("relations", {"run": "deep/" * 200})) < 100
    (tmp_path / "notes.json").write_text('{"name": "x", "claim": "x", "verdict": 1, "changed": []}')
    assert main(["lab", "rows", "--out", str(tmp_path)]) == 0  # a file that is not ours


def test_a_setting_that_changes_nothing_is_no_change(capsys):
    assert main(["lab", "rows", "--set", "axis=-1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changed"] == {}


def test_several_experiments_run_in_one_call_and_name_their_files(capsys, tmp_path):
    assert main(["lab", "rows", "vectorise", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert shown.index(lab.claim("rows")) < shown.index(lab.claim("vectorise"))
    assert f"{tmp_path / 'rows-2.svg'}, {tmp_path / 'index.html'}" in shown
    assert str(tmp_path / "vectorise.html") in shown
    index = (tmp_path / "index.html").read_text()
    assert 'id="rows"' in index
    assert 'id="vectorise"' in index
    assert main(["lab", "rows", "vectorise", "--set", "seed=1"]) == 2
    assert "--set needs one experiment" in capsys.readouterr().err
    assert main(["lab", "rows", "all"]) == 2
    assert "all stands for every experiment" in capsys.readouterr().err


def test_a_claim_is_told_before_it_is_measured(monkeypatch, capsys):
    def stopped():
        raise Stop(signal.SIGINT)

    monkeypatch.setattr(lab, "experiment", lambda _name: stopped)
    monkeypatch.setattr("regard.lab.keywords.keywords", lambda _name, _settings: {})
    assert main(["lab", "rows"]) == 130
    assert lab.claim("rows") in capsys.readouterr().out
