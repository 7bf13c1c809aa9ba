"""``regard table``, as typed."""

import json
from types import SimpleNamespace

import pytest

from regard.cli.main import main


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["parsing"], "no table 'parsing'; there are translation, summarization"),
        (["translation", "--budget", "ten"], "a budget is an amount above 0 and its unit"),
        (["translation", "--data", "nowhere"], "no data 'nowhere'"),
        (["translation", "--data", "sst2"], "sst2 is a recipe for classification"),
        (["translation", "--size", "huge"], "--size 'huge'"),
        (["translation", "--members", "1"], "two members at least"),
        (["translation", "--quick", "--budget", "1min"], "leave out --budget"),
        (["translation", "--seeds", "0"], "--seeds"),
    ],
)
def test_a_wrong_word_is_one_line_and_exit_code_2(words, message, capsys, tmp_path):
    assert main(["table", *words, "--out", str(tmp_path / "out")]) == 2
    shown, told = capsys.readouterr()
    assert shown == ""
    assert told.count("\n") == 1
    assert message in told
    assert not (tmp_path / "out").exists()


def test_the_table_is_printed_with_its_verdicts(monkeypatch, capsys, tmp_path):
    from regard.runs import table as tables
    from regard.runs import table_request
    from regard.runs.table_results import RowResult, Section, Verdict

    row = RowResult(
        row="transformer",
        title="Transformer (base model)",
        parameters=1000,
        training_flops=3e8,
        seconds=5.0,
        scores={"bleu": 31.25, "chrf": 50.0},
        published={"bleu": 27.3, "flops": 3.3e18},
    )
    verdict = Verdict(claim="Larger is better", verdict=False, finding="31.25 beside 30.00")
    section = Section(
        data="letters",
        direction="en-de",
        budget="3e8flops",
        until="budget",
        size="tiny",
        seeds=[1],
        members=2,
        n=40,
        best="transformer",
        signatures={},
        rows=[row],
        verdicts=[verdict],
    )
    asked = SimpleNamespace()

    def pretended(request, out, **_others):
        asked.request, asked.out = request, out
        return [section]

    monkeypatch.setattr(tables, "make_table", pretended)
    monkeypatch.setattr(table_request, "least_work", lambda *_: {"letters/transformer": 0.0})
    words = ["table", "translation", "--seeds", "2", "--no-converge", "--out", str(tmp_path)]
    assert main(words) == 0
    shown, told = capsys.readouterr()
    assert told == "regard: all trainings were done already\n"
    assert "31.25" in shown
    assert "27.3" in shown
    assert "letters: Larger is better: does not hold (31.25 beside 30.00)" in shown
    assert asked.out == tmp_path
    assert (asked.request.seeds, asked.request.endings) == ((1, 2), ("budget",))
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sections"][0]["rows"][0]["published"]["bleu"] == 27.3
