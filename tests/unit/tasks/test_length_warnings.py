"""Translations that may be fragments are told of, and others are not."""

import dataclasses
import logging

import pytest
from systems import untrained

import regard
from regard.cli.main import main
from regard.tasks import translator
from regard.tasks.translator import LengthWarnings


@pytest.fixture(scope="module")
def run():
    """It never ends by itself: twelve tokens are the most; sources up to 24 were trained on."""
    return untrained("transformer")


@pytest.fixture
def told(caplog):
    def lines():
        found = [one.getMessage() for one in caplog.records if one.name == "regard"]
        caplog.clear()
        return found

    with caplog.at_level(logging.WARNING, logger="regard"):
        yield lines


def test_a_target_that_ends_in_time_is_not_cut():
    none = LengthWarnings(most=12, trained=24)
    assert none.lines() == []
    assert none.having(23, 11) == none  # with their end tokens they just fit
    assert none.having(23, 12).n_cut == 1
    assert none.having(24, 11).n_long == 1


def test_doubts_are_summed_up_and_said_with_their_number():
    none = LengthWarnings(most=1200, trained=24)
    some = none.having(24, 1200) + none.having(99, 3)
    assert some == LengthWarnings(1200, 24, n_cut=1, n_long=2)
    cut, long = some.lines()
    assert cut.startswith("1 translation cut off after 1,200 tokens")
    assert long.startswith("2 texts longer than the 24 tokens")
    assert "take shorter texts" in cut
    assert "take shorter texts" in long


def test_translate_tells_what_was_cut_and_what_is_too_long(run, told):
    assert run.hypotheses(["a b"])[0][0].finished is False
    run.translate(["a b", "", "c"])
    assert [line.split(",")[0] for line in told()] == ["2 translations cut off after 12 tokens"]
    run.translate("a b c d e f g h " * 3)
    assert [line.split(" tokens")[0] for line in told()] == [
        "1 translation cut off after 12",
        "1 text longer than the 24",
    ]


def test_a_limit_that_a_short_text_sets_is_no_cut(told):
    babbling = untrained("transformer", decode={"max_len": 99})
    assert len(babbling.hypotheses(["a b"])[0][0].ids) == 3 * 3 + 10
    babbling.translate("a b")
    assert told() == []


def test_a_look_tells_it_too_unless_the_target_was_given(run, told):
    look = run.explain("a b")
    assert list(look.warnings) == told()
    assert "1 translation cut off" in look.warnings[0]
    assert run.explain("a b", "c d e f " * 5).warnings == ()
    assert "1 text longer" in run.explain("a b c d e f g h " * 3, "a").warnings[0]


def test_the_program_tells_it_once_whatever_libraries_set_up(
    run, told, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr("regard.tasks.opening.load", lambda *_args, **_more: run)
    (tmp_path / "config.yaml").touch()
    assert main(["explain", str(tmp_path), "a b"]) == 0
    assert "regard: 1 translation cut off" in capsys.readouterr().err
    assert told() == []


def test_learned_positions_cut_a_target_that_could_not_be_read_again(told):
    run = untrained("transformer", positions="learned", max_len=8, decode={"max_len": 12})
    assert not run.hypotheses(["a b"])[0][0].finished
    run.translate("a b")
    assert "cut off after 7 tokens" in told()[0]


def test_a_text_that_no_memory_would_hold_is_not_looked_at(run, monkeypatch):
    monkeypatch.setattr(translator, "LOOKED_AT", 5)
    run.explain("a b c d", "e")
    with pytest.raises(regard.DataError, match="5 can be looked at, and the text has 6"):
        run.explain("a b c d e", "f")


def test_the_command_notes_it(run_path, capsys, monkeypatch):
    explain = translator.Run.explain

    def doubted(*words, **more):
        return dataclasses.replace(explain(*words, **more), warnings=("all is vain",))

    monkeypatch.setattr(translator.Run, "explain", doubted)
    assert main(["explain", str(run_path), "a b"]) == 0
    assert capsys.readouterr().err == "regard: all is vain\n"
