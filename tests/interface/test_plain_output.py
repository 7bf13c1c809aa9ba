"""What others wrote is printed on a terminal and never obeyed by it."""

import io
import os
import pty
import subprocess
import sys

import pytest
from rich.console import Console
from rich.table import Table as Grid

from regard.cli.main import main
from regard.cli.plain_output import PlainStream
from regard.visual.tables import Table, show_table

TITLE = "\x1b]0;pwned\x07"
CLEAR = "\x1b[2J\x9b2J"


class Terminal(io.StringIO):
    """A terminal that remembers what it was sent."""

    def isatty(self):
        return True

    def fileno(self):
        raise OSError


@pytest.mark.parametrize(
    "words",
    [
        ["translate", "RUN", f"a {TITLE} b"],
        ["translate", "RUN", f"a b {CLEAR}", "--json"],
        ["explain", "RUN", f"a {TITLE}{CLEAR} b"],
        ["serve", f"gone{TITLE}"],
        [f"no-such-verb{CLEAR}"],
        ["evaluate", "RUN", "--split", f"none{TITLE}"],
    ],
)
def test_no_text_of_a_user_a_file_or_a_model_steers_the_terminal(run_path, monkeypatch, words):
    terminals = Terminal(), Terminal()
    for name, one in zip(("stdout", "stderr"), terminals, strict=True):
        monkeypatch.setattr(sys, name, one)
    main([str(run_path) if word == "RUN" else word for word in words])
    sent = "".join(one.getvalue() for one in terminals)
    assert sent
    assert not [one for one in ("\x1b]", "\x07", "\x1b[2J", "\x9b") if one in sent]


def test_a_pipe_gets_what_it_would_get(run_path, capsys):
    main(["translate", str(run_path), f"a {TITLE} b"])
    assert "\x1b" in capsys.readouterr().err  # named as an unknown word


def test_tables_are_drawn_and_their_texts_are_plain():
    terminal = Terminal()
    console = Console(file=PlainStream(terminal), force_terminal=True, color_system="standard")
    show_table(Table("caption", ["system", "BLEU"], [[f"mine{TITLE}", f"1{CLEAR}"]]), console)
    assert "\x1b]" not in terminal.getvalue()
    assert "\x1b[2J" not in terminal.getvalue()
    grid = Grid("a")
    grid.add_row("b", style="bold")
    console.print(grid)
    assert "\x1b[1m" in terminal.getvalue()  # rich's own colours reach the terminal


def test_a_real_terminal_gets_an_error_in_plain_text(tmp_path):
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "regard", "serve", str(tmp_path / f"gone{TITLE}{CLEAR}")]
    code = subprocess.run(words, stdout=theirs, stderr=theirs, check=False).returncode
    os.close(theirs)
    said = os.read(ours, 10_000)
    os.close(ours)
    assert code == 2
    assert b"there is no run folder" in said
    assert b"\x1b" not in said
