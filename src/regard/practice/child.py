"""The process in which a learner's file is run and judged: ``python -m regard.practice.child``.

It reads one JSON object from standard input and answers with one a line: what it is about to try,
and what it found. Before the learner's code runs, memory, processor time and files are bounded,
and standard output and error lead nowhere.
"""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from typing_extensions import override

from regard.core.plugins import load_plugins
from regard.practice.catalogue import EXERCISES
from regard.practice.judging import LateError, Namespace, judge, told_error, where_raised, within
from regard.practice.sheet import Sheet
from regard.practice.submission import Code, read_submission

MEMORY = 2 * 2**30
"""Bytes that a learner's code may take beyond what Python and torch have."""
LOADING = 20.0
"""Seconds that the file itself may take when it is run."""
_FILES = 2**26
"""Bytes of a file that it may write."""
_PRINTED = 1000
"""Signs of what it prints that are kept."""

Send = Callable[..., None]


def main() -> None:
    """Answer one request: the exercise, the file, and the plug-ins that bring the exercise."""
    asked = json.loads(sys.stdin.buffer.readline())
    torch.set_num_threads(1)
    load_plugins(asked["plugins"])
    sheet = EXERCISES[asked["exercise"]].sheet()
    codes = read_submission(Path(asked["file"]))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")

    def send(**message: Any) -> None:
        # A line of its own, whatever the learner's code may have written there.
        answers.write("\n" + json.dumps({**message, "token": asked["token"]}) + "\n")
        answers.flush()

    seconds = sum(part.seconds for part in sheet.parts.values())
    send(kind="ready", seconds=seconds)
    _bound(LOADING + seconds)
    sys.path.append(str(Path(asked["file"]).resolve().parent))  # what lies beside it
    printed = _Printed()
    with redirect_stdout(printed), redirect_stderr(printed):
        _check(sheet, codes, send)
    send(kind="done", printed=printed.beginning())
    os._exit(0)  # threads that the learner's code started are not waited for


def _check(sheet: Sheet, codes: Sequence[Code], send: Send) -> None:
    module = sys.modules["practice"] = ModuleType("practice")  # as dataclasses expect
    namespace: Namespace = vars(module)
    try:
        with within(LOADING):
            for code in codes:
                exec(compile(code.text, code.label, "exec", dont_inherit=True), namespace)
    except LateError:
        send(kind="failed", message=f"running the file did not end within {LOADING:g} s", where="")
        return
    except BaseException as error:  # whatever a learner's code may raise
        send(kind="failed", message=told_error(error), where=where_raised(error, codes))
        return
    for found in judge(sheet, namespace, codes, lambda name: send(kind="begin", part=name)):
        send(kind="found", finding=found.as_json())


def _bound(seconds: float) -> None:
    """Bound what this process may take from now on."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: _FILES,
        resource.RLIMIT_CPU: int(seconds) + 1,
    }
    with suppress(OSError, ValueError):  # only Linux tells; elsewhere time alone is bounded
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limits[resource.RLIMIT_AS] = pages * resource.getpagesize() + MEMORY
    for limit, most in limits.items():
        with suppress(OSError, ValueError):  # a lower one is set already
            resource.setrlimit(limit, (most, most))


class _Printed(io.TextIOBase):
    """Takes all that is printed, and keeps the beginning."""

    def __init__(self) -> None:
        self._kept = ""
        self._n_dropped = 0

    @override
    def write(self, text: str) -> int:
        room = _PRINTED - len(self._kept)
        self._kept += text[:room]
        self._n_dropped += len(text[room:])
        return len(text)

    def beginning(self) -> str:
        """What was printed first, and how much more there was."""
        more = f"\n… and {self._n_dropped:,} signs more" if self._n_dropped else ""
        return self._kept + more


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started this process ends it
    with suppress(BrokenPipeError, LateError):
        main()
