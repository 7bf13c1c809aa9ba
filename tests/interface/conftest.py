"""Calling the program as a shell would."""

import io
import sys

import pytest

from regard.cli.main import main


@pytest.fixture
def run(capsys, monkeypatch):
    """Call the program; -> exit code, standard output, standard error."""

    def call(*argv, stdin=""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = main([str(word) for word in argv])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def refused(run):
    """Call the program, which must fail with one line; -> the line."""

    def call(*argv, stdin=""):
        code, out, err = run(*argv, stdin=stdin)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("regard: ")
        return err

    return call
