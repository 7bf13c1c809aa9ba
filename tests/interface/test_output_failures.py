"""Output that cannot be written, and Ctrl-C that comes early: one line, never a traceback."""

import os
import signal
import subprocess
import sys

import pytest

from regard.cli.main import main

full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")  # noqa: PTH110


def program(*words, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "regard", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


@full
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_told_in_one_line(unbuffered):
    with open("/dev/full", "w") as nowhere:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, "-m", "regard", "models"],
            stdout=nowhere,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert done.returncode == 2
    told = "regard: cannot write to standard output: No space left on device\n"
    assert done.stderr == told


def test_letters_that_standard_output_does_not_know():
    out, err = (words := program("models", PYTHONIOENCODING="ascii")).communicate()
    assert words.returncode == 2, out
    assert err.startswith("regard: standard output is ascii and has no ")
    assert err.endswith("set PYTHONIOENCODING=utf-8\n")
    assert err.count("\n") == 1


def test_what_the_system_refuses_is_named(capsys, monkeypatch):
    def refused(_words):
        raise PermissionError(13, "Permission denied", "secret.txt")

    monkeypatch.setattr("regard.cli.app.run", refused)
    assert main(["models"]) == 2
    assert capsys.readouterr().err == "regard: secret.txt: Permission denied\n"


def test_an_error_of_the_system_that_is_not_about_output_keeps_it(capsys, monkeypatch):
    def refused(_words):
        print("so far")
        raise ConnectionResetError(104, "Connection reset by peer")

    monkeypatch.setattr("regard.cli.app.run", refused)
    assert main(["models"]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("so far\n", "regard: Connection reset by peer\n")


def test_ctrl_c_is_heard_while_the_commands_are_being_imported():
    """The first of them ends the program, as if by itself, in the middle of its import."""
    code = (
        "import os, signal, sys\n"
        "class Pressing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'regard.cli.bench':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Pressing())\n"
        "from regard.cli.main import main\n"
        "sys.exit(main(['models']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (128 + signal.SIGINT, "")
    assert done.stderr == "regard: stopped by SIGINT\n"


def test_the_program_itself_imports_no_library_before_it_hears_signals():
    code = "import sys; import regard.cli.main; sys.exit('typer' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
