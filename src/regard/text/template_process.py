"""Templates of conversations, rendered in a process of their own.

A template is somebody else's program, in the language of Jinja. Its sandbox lets it change nothing
and read no file, but not even a sandbox keeps ``{{ 'a' * 10**11 }}`` from all memory, or a loop in
a loop from all time. So one process renders all templates, with little memory, and is ended when
it takes too long; the next template starts another. Even compiling is done there, for Jinja
computes constants when it compiles.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import IO, Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from regard.core.numbers import told

SECONDS = 10.0
"""That a template may take; those of public models take milliseconds."""
STARTING = 60.0
"""Seconds until the process answers at first, on a machine that is busy."""
MEMORY = 2**29
"""Bytes that the process may have, Python and Jinja among them."""
LONGEST = 2**24
"""Bytes of an answer."""

Answer = dict[str, Any]
"""``text``, or what went wrong as ``refused`` (by the template), ``broken`` or ``failed``."""


class Renderer:
    """The process that renders, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, source: str, given: Mapping[str, Any] | None) -> Answer:
        """Render a template with what it is given; with None, only compile it."""
        with self._lock:
            try:
                process = self._started()
                return self._exchange(process, {"source": source, "given": given}, SECONDS)
            except (OSError, ValueError):
                self.end()
                return {"failed": f"it takes too much memory, or more than {SECONDS:.0f} s"}

    def end(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            with suppress(OSError), self._process:  # closes its pipes
                pass
            self._process = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.end()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "regard.text.template_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            self._exchange(self._process, {"source": "", "given": None}, STARTING)
        return self._process

    def _exchange(self, process: subprocess.Popen[bytes], asked: Any, seconds: float) -> Answer:
        """One line out, one line in; an OSError where none comes in time."""
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        process.stdin.flush()
        end, pipe, found = time.monotonic() + seconds, process.stdout.fileno(), b""
        while not found.endswith(b"\n"):
            left = end - time.monotonic()
            ready = left > 0 and select.select([pipe], [], [], left)[0]
            block = os.read(pipe, 2**16) if ready else b""
            if not block or len(found) > LONGEST:
                raise OSError("no answer")
            found += block
        answer: Answer = json.loads(found)
        return answer


RENDERER = Renderer()
"""Of this process."""
atexit.register(RENDERER.end)


# ------------------------------------------------------------------ inside the process


class _RefusedError(Exception):
    """A template says what is wrong with a conversation."""


class _Generation(Extension):
    """``{% generation %}`` marks what a model is trained to say; here it is just said."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """What stands inside."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    """With all that public templates expect."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    made.filters["tojson"] = _to_json
    made.globals |= {
        "raise_exception": _refuse,
        "strftime_now": lambda form: datetime.now().strftime(form),
    }
    return made


def _to_json(value: Any, ensure_ascii: bool = False, **how: Any) -> str:
    """Jinja's own writes HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, **how)


def _refuse(message: str) -> NoReturn:
    raise _RefusedError(message)


@lru_cache(maxsize=8)
def _compiled(source: str) -> jinja2.Template:
    return _environment().from_string(source)


def _answer(source: str, given: Mapping[str, Any] | None) -> Answer:
    try:
        template = _compiled(source)
    except jinja2.TemplateError as error:
        return {"broken": told(error)}
    except Exception as error:  # computing a constant is running a program
        return {"failed": told(error)}
    try:
        return {"text": "" if given is None else template.render(**given)}
    except _RefusedError as refused:
        return {"refused": str(refused)}
    except Exception as error:  # it is a program: anything may go wrong in it
        return {"failed": told(error)}


def _serve(inbox: IO[bytes], outbox: IO[bytes]) -> None:
    """Answer until the pipe ends."""
    with suppress(OSError, ValueError):  # macOS knows no such limit; time is bounded there, too
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for line in inbox:
        answer = json.dumps(_answer(**json.loads(line))).encode()
        if len(answer) > LONGEST:
            answer = json.dumps({"failed": f"it writes more than {LONGEST:,} bytes"}).encode()
        outbox.write(answer + b"\n")
        outbox.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks ends us when it ends
    with suppress(BrokenPipeError):
        _serve(sys.stdin.buffer, sys.stdout.buffer)
