"""A learner's file in a process of its own: what it may take, and what is believed of it.

Starting a process takes seconds, for it imports torch: each test here tries several things at once.
"""

import sys
import textwrap

import pytest

from regard.core import plugins
from regard.core.errors import ConfigError, DataError, WorkerError
from regard.practice import catalogue, process
from regard.practice.catalogue import EXERCISES
from regard.practice.findings import State
from regard.practice.handout import as_text
from regard.practice.process import check_file

TEACHERS = '''
"""Small numbers: what a teacher's own exercise may look like.

Write the two functions.
"""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from regard.practice.catalogue import EXERCISES, Exercise
from regard.practice.sheet import Arguments, Sheet

EXERCISES.add("numbers")(Exercise(__name__, Path(__file__)))
sheet = Sheet()


@sheet.blank("Add x to itself.", seconds=0.5)
def double(x: Tensor) -> Tensor:
    """x of any shape -> twice x."""
    return 2 * x


@sheet.blank("Multiply x by itself.", seconds=0.5)
def square(x: Tensor) -> Tensor:
    """x of any shape -> its square."""
    return x * x


@sheet.cases(double)
@sheet.cases(square)
def _numbers() -> Iterator[Arguments]:
    yield {"x": torch.tensor([3.0])}


@sheet.mistake(double, "you square: 2x is asked for")
def _squared(x: Tensor) -> Tensor:
    return x * x
'''


@pytest.fixture
def numbers(tmp_path, monkeypatch):
    """The plug-in of a teacher, with little time for each blank."""
    path = tmp_path / "my_numbers.py"
    path.write_text(TEACHERS)
    monkeypatch.setattr(plugins, "_loaded", {})
    plugins.load_plugins([str(path)])
    monkeypatch.setattr(process, "LOADING", 1.0)
    yield
    del sys.modules["my_numbers"]
    del catalogue.EXERCISES._things["numbers"]


@pytest.fixture
def written(tmp_path):
    def write(text, name="mine.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return path

    return write


def told(report):
    return {one.part: one.message for one in report.findings}


def test_a_solution_passes_in_its_process(tmp_path):
    path = tmp_path / "solved.py"
    path.write_text(as_text("attention", EXERCISES["attention"].handout(), ".py", solved=True))
    report = check_file(path)
    assert (report.solved, report.exercise, report.n_passed) == (True, "attention", 3)
    assert report.first_failure == ""


def test_a_file_is_kept_within_bounds_and_its_lies_are_not_believed(written):
    written("SIZE = 2**31  # floats, of which a machine would promise so many", name="beside.py")
    report = check_file(
        written(
            """
            # regard practice: attention
            import os, torch
            from dataclasses import dataclass
            from beside import SIZE

            @dataclass
            class Box:
                x: "int"

            def scores(q, k):
                return torch.empty(SIZE)

            def weights(q, k):
                for descriptor in range(3, 30):  # tells a lie wherever it can
                    try:
                        os.write(descriptor, b'{"kind": "found", "finding": {"part": "weights",'
                        b' "state": "passed", "example": {}}}\\n{"kind": "done"}\\nhalf a line')
                    except OSError:
                        pass
                return q

            def attention(q, k, v):
                os._exit(0)
            """
        )
    )
    messages = told(report)
    assert messages["scores"] == "it takes more memory than a check may have"
    assert report.findings[0].where.endswith("return torch.empty(SIZE)")
    assert messages["weights"] == "your result has the shape (1, 1), not (1, 2)"
    assert messages["attention"].startswith("ended the process (exit code 0)")
    assert (report.n_passed, report.solved) == (0, False)


def test_what_is_printed_is_kept_in_its_beginning(written, numbers, monkeypatch):
    monkeypatch.setenv("REGARD_TEST_SECRET", "open sesame")
    report = check_file(
        written(
            """
            # regard practice: numbers
            import os
            print("hello", os.environ.get("REGARD_TEST_SECRET"), "\\033[31m")
            print("x" * 10**6)
            def double(x):
                return x * x
            def square(x):
                while True:
                    try:
                        while True: pass
                    except Exception: pass
            """
        )
    )
    assert told(report) == {
        "double": "you square: 2x is asked for",
        "square": "it did not end within 0.5 s",
    }
    assert report.printed.startswith("hello None")
    assert "\033" not in report.printed
    assert report.printed.endswith("signs more")


def test_who_does_not_let_itself_be_interrupted_is_killed(written, numbers):
    report = check_file(
        written(
            """
            # regard practice: numbers
            import os, signal, time
            def double(x):
                signal.signal(signal.SIGALRM, signal.SIG_IGN)
                if os.fork() == 0:
                    time.sleep(100)
                time.sleep(100)
            def square(x):
                return x * x
            """
        )
    )
    assert told(report) == {
        "double": "did not end in time",
        "square": "not tried: the process had ended",
    }


def test_a_file_that_does_not_run_is_told_with_its_line(written, numbers):
    report = check_file(written("# regard practice: numbers\ndef double(x)\n    pass\n"))
    assert report.failure == "SyntaxError: expected ':'; mine.py, line 2: def double(x)"
    assert (report.findings, report.of, report.solved) == ((), 2, False)
    assert report.first_failure == report.failure


def test_the_exercise_is_told_by_the_file_or_by_name(written):
    path = written("x = 1")
    with pytest.raises(DataError, match="does not say which exercise it is"):
        check_file(path)
    path = written("# regard practice: masks")
    with pytest.raises(ConfigError, match="is the exercise masks, not attention"):
        check_file(path, "attention")
    path = written("# regard practice: maks")
    with pytest.raises(ConfigError, match="did you mean 'masks'"):
        check_file(path)
    with pytest.raises(DataError, match="neither a .py nor an .ipynb"):
        check_file(written("", name="mine.txt"))


def test_a_process_that_does_not_start_is_told(written, monkeypatch):
    monkeypatch.setattr(process, "_PASSED_ON", ("PATH",))
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(WorkerError, match="did not start"):
        check_file(written("# regard practice: masks"))


def test_nobody_else_is_asked_where_a_part_is_unknown():
    sent = {"finding": {"part": "other", "state": State.PASSED, "example": {}}}
    assert process._findings(sent, {"scores"}) == {}
    assert process._findings({"finding": 3}, {"scores"}) == {}


def test_what_a_file_started_does_not_hide_how_its_process_ended(written, numbers):
    report = check_file(
        written(
            """
            # regard practice: numbers
            import os, signal, time
            if os.fork() == 0:
                os.setsid()  # it is not killed, and holds the pipe
                time.sleep(10)
                os._exit(0)
            def double(x):
                return 2 * x
            def square(x):
                os.kill(os.getpid(), signal.SIGRTMIN + 3)
            """
        )
    )
    assert told(report)["double"] == ""
    assert told(report)["square"].startswith("ended the process: Real-time signal 3")
