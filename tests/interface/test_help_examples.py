"""Every verb's ``--help`` ends with examples, which the program understands and does."""

import io
import shlex
import shutil

import pytest
import typer.main
from example_runs import runs, write_inputs

from regard.cli.app import make_app, run
from regard.cli.bench import app as bench_app
from regard.cli.examples import EXAMPLES, RUN, UNTRIED
from regard.tasks.recipe import recipe_from, remember_data

SMALLER = {
    "john loves mary": "a b",
    "john <mask> mary": "a <mask> c",
    "once upon a time": "a c",
    "what a film": "a b",
    "who loves mary?": "what a",
    "--token aime": "--token b",
    "max_steps=20000": "max_steps=31",
    "--workers 8": "--workers 2",
}
"""What a tiny run does not know, or would do for long -> what stands in its place."""
ALL = [(verb, line) for verb, lines in EXAMPLES.items() for line in lines]
TRIED = [(verb, line) for verb, line in ALL if line not in UNTRIED]


def words_of(line):
    """What a shell would hand over; a file that is piped in goes another way."""
    program, *words = shlex.split(line.partition(" < ")[0])
    assert program == "regard"
    return words


@pytest.fixture(scope="module")
def place_run(settings, tmp_path_factory):
    """Puts the run that examples of a verb need where they look for it; each is trained once."""
    ways, found = runs(settings), {}

    def place(verb, where):
        kind = verb if verb in ways else "translate"
        if kind not in found:
            found[kind] = ways[kind](tmp_path_factory.mktemp(kind))
        shutil.copytree(found[kind], where)
        remember_data(where, recipe_from(settings).data)  # as if it had been trained there

    return place


@pytest.fixture
def folder(settings, tmp_path, monkeypatch):
    """A folder with what examples speak of, but runs."""
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path, settings)
    return tmp_path


def test_every_command_has_examples_of_itself():
    names = {one.name for one in make_app(None).registered_commands}
    inside = {f"bench {one.name}" for one in bench_app.registered_commands}
    assert {*EXAMPLES} == names | inside
    for verb, line in ALL:
        assert line.startswith(f"regard {verb}")


def test_those_that_are_not_tried_are_examples():
    assert {*UNTRIED} <= {line for _, line in ALL}


@pytest.mark.parametrize("verb", ["average", "bench decode"])
def test_help_shows_them(verb, capsys):
    assert run([*verb.split(), "--help"]) == 0
    assert EXAMPLES[verb][0] in capsys.readouterr().out


@pytest.mark.parametrize("line", UNTRIED)
def test_the_program_understands_those_that_are_not_tried(folder, line):
    (folder / RUN).mkdir(parents=True)
    words = words_of(line)
    command = typer.main.get_command(make_app(words[0]))
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context(command.name, words)  # or it is told what is wrong


@pytest.mark.parametrize(("verb", "line"), TRIED, ids=[line for _, line in TRIED])
def test_they_do_what_they_say(folder, place_run, verb, line, capsys, monkeypatch):
    if RUN in line and (verb != "train" or "--resume" in line):
        place_run(verb, folder / RUN)
    for long, short in SMALLER.items():
        line = line.replace(long, short)
    if " < " in line:
        raw = (folder / line.partition(" < ")[2]).read_bytes()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
    before = {*folder.iterdir()}
    assert run(words_of(line)) == 0
    wrote = {*folder.iterdir()} - before
    assert capsys.readouterr().out or wrote
