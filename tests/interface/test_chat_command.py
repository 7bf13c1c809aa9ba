"""``regard chat``: lines are turns; one message; a terminal; and what is refused."""

import io
import json
import sys

import pytest
from chats import chat_folder

from regard.cli.main import main
from regard.tasks.opening import load

HOW = ("--max-new", "5", "--temperature", "0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return chat_folder(tmp_path_factory.mktemp("talk"))


@pytest.fixture(scope="module")
def talked(folder):
    """Two turns with what was told before."""
    talk = load(folder, device="cpu").conversation(
        [{"role": "system", "content": "be"}], max_new=5, temperature=0
    )
    return [talk.say("a"), talk.say("b")]


def test_lines_are_turns_of_one_conversation(run, folder, talked):
    code, out, err = run("chat", folder, *HOW, "--system", "be", stdin="a\n\nb\n")
    assert (code, out, err) == (0, "\n".join(talked) + "\n", "")
    words = ("chat", folder, *HOW, "--system", "be", "--json")
    found = [json.loads(line) for line in run(*words, stdin="a\nb\n")[1].splitlines()]
    assert [one["message"] for one in found] == ["a", "b"]
    assert [one["answer"] for one in found] == talked
    assert {*found[0]} == {"message", "answer", "finished"}


def test_one_message(run, folder, talked):
    words = ("chat", folder, *HOW, "--system", "be", "--message", "a")
    assert run(*words, stdin="not read") == (0, talked[0] + "\n", "")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_until_it_is_closed(capsys, monkeypatch, folder, talked):
    monkeypatch.setattr(sys, "stdin", Terminal(f"a\n{'x' * 130}\nb\n"))
    assert main(["chat", str(folder), *HOW, "--system", "be"]) == 0
    out, err = capsys.readouterr()
    assert out == f"> {talked[0]}\n> > {talked[1]}\n> \n"  # what was too long is not remembered
    assert err.count("\n") == 1
    assert "but the model's context holds 120" in err


def test_nothing_in_nothing_out(run, folder):
    assert run("chat", folder) == (0, "", "")


def test_a_conversation_beyond_the_context(run, folder):
    code, out, err = run("chat", folder, *HOW, stdin=f"a\n{'x' * 130}\n")
    assert code == 2
    assert out.count("\n") >= 1
    assert "standard input, line 2: the conversation has" in err
    assert "--truncate left" in err
    stdin = "".join(f"{'x' * 40}\n" for _ in range(3))
    assert run("chat", folder, *HOW, stdin=stdin)[0] == 2
    assert run("chat", folder, *HOW, "--truncate", "left", stdin=stdin)[0] == 0


def test_runs_that_cannot_talk(refused, folder, run_path, tmp_path):
    plain = chat_folder(tmp_path, template=None)
    assert "has no chat_template.jinja" in refused("chat", plain)
    assert "use `regard translate` with it" in refused("chat", run_path)
    assert "temperature must be at least 0" in refused("chat", folder, "--temperature", "-1")
