"""The program ``regard``: words → calls, and errors → one line and exit code 2.

Nothing but signals is imported before the block that hears them, so that Ctrl-C finds no gap, and
nothing heavy before a command runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

from regard.core.errors import RegardError
from regard.core.plain import plain
from regard.core.signals import Stop, raise_stop, signals_to

_LONGEST = 4000
"""Signs of a message."""
_GIVEN_UP = {
    "PanicException": "a library gave up on this input: {}",
    "OutOfMemoryError": (
        "the GPU has too little memory left for this; take smaller batches (--batch-tokens, where "
        "there is that flag), fewer runs or beams at once, or --device cpu ({})"
    ),
}
"""Errors by name: what libraries in Rust raise in distress, which is no Exception and of no module
that could be named; and torch's, which is not imported for its name."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    # Torch's threads wait for each other by spinning. Where another program takes a core, that
    # makes training fifty times slower; a short spin costs five per cent and avoids it.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        with signals_to(raise_stop):
            return _run(sys.argv[1:] if argv is None else argv)
    except RegardError as error:
        return _failed(str(error))
    except Stop as stop:
        if "REGARD_LAUNCHED" not in os.environ:  # else who started it tells
            print(f"regard: stopped by {stop.signal.name}", file=sys.stderr)
        return 128 + stop.signal
    except BrokenPipeError:  # the reader went away, as `head` does
        _close_output()
        return 0
    except UnicodeEncodeError as error:
        return _failed(
            f"standard output is {error.encoding} and has no {error.object[error.start]!r}; set "
            "PYTHONIOENCODING=utf-8"
        )
    except OSError as error:
        return _failed(_told(error))
    except BaseException as error:
        if type(error).__name__ not in _GIVEN_UP:
            raise
        return _failed(_GIVEN_UP[type(error).__name__].format(error))


def _run(words: Sequence[str]) -> int:
    import logging

    from regard.cli.app import run
    from regard.cli.plain_output import make_terminals_plain

    make_terminals_plain()
    # Commands tell what is to be told; what Python would be told as well is dropped.
    log = logging.getLogger("regard")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    before, log.propagate = log.propagate, False  # libraries may set up the root logger
    try:
        code = run(words)
    finally:
        log.propagate = before
    if sys.stdout is not None:
        sys.stdout.flush()  # here, where it can still be told that the disk is full
    return code


def _told(error: OSError) -> str:
    """What the system refused, in one line."""
    reason = error.strerror or str(error)
    if error.filename is not None:
        return f"{error.filename}: {reason}"
    full = error.errno in _FULL  # files that we write are named
    try:
        sys.stdout.flush()
    except OSError:  # it still cannot get rid of what it was given
        full = True
        _close_output()
    return f"cannot write to standard output: {reason}" if full else reason


def _close_output() -> None:
    """What is left to be written goes nowhere, or Python would complain when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(message: str) -> int:
    one_line = " ".join(message.split("\n"))
    if len(one_line) > _LONGEST:
        one_line = f"{one_line[: _LONGEST - 1]}…"
    if "RANK" in os.environ:  # one of several processes
        from regard.runs.launch import leave_message

        if leave_message(one_line):
            return 2
    print(f"regard: {plain(one_line)}", file=sys.stderr)
    return 2
