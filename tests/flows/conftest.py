"""Calling the program as a shell would."""

import io
import sys

import pytest

from regard.cli.main import main


@pytest.fixture
def say(monkeypatch, capsys):
    """Run a command with lines on standard input -> exit code, output, errors."""

    def run(*words, lines=""):
        data = io.BytesIO(lines.encode())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(data)))
        code = main([str(word) for word in words])
        found = capsys.readouterr()
        return code, found.out, found.err

    return run
