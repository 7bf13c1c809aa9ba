"""Checks a learner's file in a process of its own, which keeps accidents away, not ill will.

Messages have a token, so that what the file writes by chance is none. Its code runs in the process
that knows the token, and could forge a message if it meant to.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from regard.core.errors import ConfigError, DataError, WorkerError
from regard.core.files import parse_json
from regard.core.plain import plain, plain_line
from regard.core.plugins import loaded_plugins
from regard.practice.catalogue import EXERCISES
from regard.practice.findings import LONGEST, Finding, Report, State, finding_from
from regard.practice.submission import exercise_of, read_submission

LOADING = 25.0
"""Seconds that the file itself may take when it is run, beside those of its blanks."""
STARTING = 120.0
"""Seconds until the process is ready: torch is imported on a machine that may be busy."""
_ENDING = 5.0
"""Seconds from the end of its answers to its own."""
_MOST_BYTES = 2**20
"""Of all that it sends."""
_GLANCE = 0.2
"""Seconds without a message after which is looked whether the process is still there."""
_PASSED_ON = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
)
"""Variables that a learner's code may see: there may be secrets in others."""


def check_file(path: Path, name: str | None = None) -> Report:
    """Run a file's functions and judge them; ``name`` is the exercise where the file tells none."""
    codes = read_submission(path)
    named = exercise_of(codes)
    if name is None and named is None:
        raise DataError(
            f"{path} does not say which exercise it is: give its NAME, or a first line "
            "'# regard practice: NAME'"
        )
    if name is not None and named not in (None, name):
        raise ConfigError(f"{path} says that it is the exercise {named}, not {name}")
    exercise = name or named or ""
    parts = [blank.name for blank in EXERCISES[exercise].handout().blanks]
    with _Child(path, exercise) as child:
        return _report(path, exercise, parts, child)


def _report(path: Path, exercise: str, parts: list[str], child: _Child) -> Report:
    """Put together what the process tells until it is done, or ends otherwise."""
    found: dict[str, Finding] = {}
    failure = printed = trying = ""
    done = False
    for message in child.messages():
        kind = message.get("kind")
        if kind == "begin":
            trying = str(message.get("part"))
        elif kind == "found":
            found |= _findings(message, parts)
        elif kind == "failed":
            where = plain_line(str(message.get("where")))[:LONGEST]
            failure = plain_line(str(message.get("message")))[:LONGEST] or "it does not run"
            failure += f"; {where}" * bool(where)
        elif kind == "done":
            printed, done = plain(str(message.get("printed")))[: 4 * LONGEST], True
    if not done and not trying:
        failure = f"running the file {child.end_told()}"
    if failure:
        return Report(str(path), exercise, len(parts), (), failure, printed)
    for name in parts:
        if name not in found:
            why = child.end_told() if name == trying else "not tried: the process had ended"
            found[name] = Finding(name, State.BROKEN, why)
    return Report(str(path), exercise, len(parts), [found[name] for name in parts], "", printed)


def _findings(message: Mapping[str, Any], known: Collection[str]) -> dict[str, Finding]:
    """The finding of a message by its part; nothing where it is none of this exercise."""
    try:
        one = finding_from(message.get("finding"))
    except ValueError:
        return {}
    return {one.part: one} if one.part in known else {}


class _Child:
    """The process, which is killed at the end of a ``with`` block with its process group.

    What the learner's code started in a session of its own may outlive it.
    """

    def __init__(self, path: Path, exercise: str) -> None:
        self._late = self._noisy = False
        self._token = secrets.token_hex(16)
        """Of every message: what the learner's code writes in between by chance is none."""
        self._asked = {
            "exercise": exercise,
            "file": str(path),
            "plugins": loaded_plugins(),
            "token": self._token,
        }

    def __enter__(self) -> _Child:
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "regard.practice.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
            env={**kept, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        )
        return self

    def __exit__(self, *_why: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(OSError), self._process:  # closes its pipes
            pass
        self._errors.close()

    def messages(self) -> Iterator[Mapping[str, Any]]:
        """What it sends, until it is done, ends, takes too long or sends too much."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(self._asked).encode() + b"\n")
            self._process.stdin.flush()
        lines = self._lines()
        ready = next(lines, None)
        if ready is None or ready.get("kind") != "ready":
            raise WorkerError(f"the process of the check did not start: {self._last_error()}")
        self._end = time.monotonic() + float(ready["seconds"]) + LOADING
        for message in lines:
            yield message
            if message.get("kind") == "done":
                return  # the pipe may be held open by what the learner's code started

    def _lines(self) -> Iterator[Mapping[str, Any]]:
        assert self._process.stdout is not None
        self._end = time.monotonic() + STARTING
        pipe, rest, n_bytes = self._process.stdout.fileno(), b"", 0
        while True:
            left = self._end - time.monotonic()
            if left <= 0:
                self._late = True
                return
            ended = self._process.poll() is not None  # asked first: what it sent is read then
            if not select.select([pipe], [], [], 0 if ended else min(left, _GLANCE))[0]:
                if ended:
                    return
                continue
            block = os.read(pipe, 2**16)
            n_bytes += len(block)
            self._noisy = n_bytes > _MOST_BYTES
            if not block or self._noisy:
                return
            *whole, rest = (rest + block).split(b"\n")
            yield from filter(self._is_ours, map(_parsed, whole))

    def _is_ours(self, message: Mapping[str, Any]) -> bool:
        return message.get("token") == self._token

    def _last_error(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read(2**16).decode(errors="replace").splitlines()
        return plain_line(lines[-1])[:LONGEST] if lines else "it told nothing"

    def end_told(self) -> str:
        """How the process ended before it was done, as the end of a sentence."""
        if self._late:
            return "did not end in time"
        if self._noisy:
            return "sent too much"
        try:
            code = self._process.wait(timeout=_ENDING)
        except subprocess.TimeoutExpired:
            return "cut off its way of answering"
        if -code == signal.SIGXCPU:
            return "did not end in time"
        if code < 0:
            by = signal.strsignal(-code) or f"signal {-code}"
            return f"ended the process: {by} (perhaps out of memory)"
        return f"ended the process (exit code {code}): let your code return instead"


def _parsed(line: bytes) -> Mapping[str, Any]:
    """A message; an empty one where a line is none."""
    try:
        found = parse_json(line.decode("utf-8"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
