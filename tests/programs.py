"""Programs that tests start: what they said, where they hang, and an end for all of them."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

LONGEST = 120
"""Seconds in which a program must end; the whole test has 300."""


def start(*words, env=None, **how):
    """Python in a process of its own, which tells where it is if it is aborted."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    known = {**os.environ, "PYTHONFAULTHANDLER": "1", **(env or {})}
    return subprocess.Popen([sys.executable, *map(str, words)], env=known, **{**pipes, **how})


def said(program, seconds=LONGEST):
    """What a program writes until it ends; one that does not end fails the test and says where."""
    try:
        return program.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        out, err = end(program, signal.SIGABRT)
        raise AssertionError(f"no end after {seconds} s: {program.args}\n{out}\n{err}") from None


def end(program, number=signal.SIGKILL):
    """End a program and all that it started, whatever they do -> what was still to be read."""
    family = [program.pid, *descendants(program.pid)] if program.poll() is None else []
    for how in (number, signal.SIGKILL):
        for one in family:
            with suppress(ProcessLookupError):
                os.kill(one, how)
        with suppress(subprocess.TimeoutExpired):
            return program.communicate(timeout=20)
    raise AssertionError(f"what {program.args} started does not end")


def descendants(number):
    """The processes that one has started, and those that they have; needs /proc."""
    children = {}
    for about in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(about.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(about.parent.name))
    found = [number]
    for one in found:
        found += children.get(one, [])
    return found[1:]
