"""Every verb's ``--help`` ends with examples, which the program understands and, where a small
translator is enough, does."""

import io
import shlex
import shutil

import pytest
import typer.main

from regard.cli.app import make_app, run
from regard.cli.examples import EXAMPLES
from regard.tasks.recipe import recipe_from, remember_data

DONE = ("translate", "evaluate", "score", "explain", "heads", "info", "models", "recipes")
"""Verbs whose examples are done here; trainings and other tasks' verbs have tests of their own."""
ALL = [line for lines in EXAMPLES.values() for line in lines]


@pytest.fixture
def folder(run_path, settings, tmp_path, monkeypatch):
    """A folder with what examples speak of."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(run_path, tmp_path / "runs" / "mine")
    remember_data(tmp_path / "runs" / "mine", recipe_from(settings).data)
    for name in ("mine.yaml", "report.txt", "photo.png"):
        (tmp_path / name).touch()
    for name in ("lines.txt", "lines.en", "lines.fr"):
        (tmp_path / name).write_text("a b\n")


def words_of(line):
    """What a shell would hand over; a file that is piped in goes another way."""
    program, *words = shlex.split(line.partition(" < ")[0])
    assert program == "regard"
    return words


def test_every_command_has_examples_of_itself():
    names = {one.name for one in make_app(None).registered_commands}
    assert {*EXAMPLES} == names
    for verb, lines in EXAMPLES.items():
        assert all(words_of(line)[0] == verb for line in lines)


def test_help_shows_them(capsys):
    assert run(["average", "--help"]) == 0
    assert EXAMPLES["average"][0] in capsys.readouterr().out


@pytest.mark.parametrize("line", ALL)
def test_the_program_understands_them(folder, line):
    verb, *rest = words_of(line)
    command = typer.main.get_command(make_app(verb)).commands[verb]
    command.make_context(verb, rest)  # or it is told what is wrong


@pytest.mark.parametrize("line", [one for one in ALL if words_of(one)[0] in DONE])
def test_they_do_what_they_say(folder, line, capsys, monkeypatch, tmp_path):
    line = line.replace("--token aime", "--token b").replace("john loves mary", "a b")
    if " < " in line:
        raw = (tmp_path / line.partition(" < ")[2]).read_bytes()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
    run(words_of(line))
    shown = capsys.readouterr().out
    assert shown or "--out" in line
