"""What takes long and needs no answer's model: made once, by a process of its own.

In another process it disturbs neither the model that answers nor the thread that is asked, it gives
its memory back, and it can be ended at any moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Coroutine
from typing import Any, ClassVar

from regard.core.plugins import loaded_plugins
from regard.server.errors import BusyError, RefusedError

TICK = re.compile(rb"(\d+) of (\d+)\n")
"""What the process may say of its progress, on standard error."""
LONGEST_LINE = 2**20
MOST_BYTES = 4096
"""Of what else it says: its last line tells what went wrong."""
CANNOT = 3
"""Exit code of the process where the run has nothing to work with."""


class OwnProcess:
    """One result for all who ask, a refusal too; what was too much at the time is tried again."""

    module: ClassVar[str]
    """What is run; it is given the run's folder and device, and plug-ins."""
    doing: ClassVar[str]
    """What takes the time, such as ``measuring``."""
    refusal: ClassVar[str]
    """What a client is told where the process ends with ``CANNOT``."""

    def __init__(self, run: Any, *, seconds: float) -> None:
        self.words = [str(run.folder.path), str(run.device), *loaded_plugins()]
        self.seconds = seconds
        self._going: asyncio.Task[bytes] | None = None
        self._process: Process | None = None
        self._closing = False
        self._ticks = (0, 0)

    async def result(self) -> bytes:
        """What the process writes on standard output."""
        if self._going is None or _failed(self._going):
            self._going = asyncio.create_task(self._made())
            self._going.add_done_callback(_failed)  # perhaps nobody waits for its error any more
        return await asyncio.shield(self._going)  # a client that goes leaves it to the others

    def progress(self) -> dict[str, Any]:
        """How far it is: ``state`` is idle, ``doing``, done or refused; ``done`` ``of`` ticks."""
        going = self._going
        state = "idle" if going is None or _failed(going) else self.doing
        if going is not None and going.done() and state == self.doing:
            state = "done" if going.exception() is None else "refused"
        done, of = self._ticks
        return {"state": state, "done": done, "of": of}

    def open(self) -> None:
        """Begin again, after ``close``, perhaps in another event loop."""
        self._closing = False
        if self._going is not None and not self._going.done():
            self._going = None

    def close(self) -> None:
        """Let nobody wait any longer."""
        self._closing = True
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    def _heard(self, process: Process) -> tuple[Coroutine[Any, Any, bytes], ...]:
        """All of its standard output; of its standard error all that is no progress."""
        assert process.stdout is not None
        assert process.stderr is not None
        return process.stdout.read(), self._errors(process.stderr)

    async def _errors(self, lines: asyncio.StreamReader) -> bytes:
        told = b""
        async for line in lines:
            if (tick := TICK.fullmatch(line)) is not None:
                self._ticks = int(tick[1]), int(tick[2])
            else:
                told = (told + line)[-MOST_BYTES:]
        return told

    async def _made(self) -> bytes:
        if self._closing:
            raise BusyError("the server is ending")
        self._ticks = (0, 0)
        words = [sys.executable, "-P", "-m", self.module, *self.words]
        # A session of its own: Ctrl-C is for the server, which then ends this process.
        self._process = await asyncio.create_subprocess_exec(
            *words,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            limit=LONGEST_LINE,
            start_new_session=True,
        )
        if self._closing:  # the end came while it was starting
            self.close()
        try:
            async with asyncio.timeout(self.seconds):
                out, err = await asyncio.gather(*self._heard(self._process))
                await self._process.wait()  # it has closed both, and is about to end
        except TimeoutError:
            raise BusyError(f"{self.doing} took more than {self.seconds:g} s") from None
        finally:  # it goes no further, whether it wanted to or not
            if self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
            code = await self._process.wait()
            self._process = None
        if code == 0:
            return out
        if self._closing:
            raise BusyError("the server is ending")
        if code == CANNOT:
            raise RefusedError(404, self.refusal)
        last = err.decode(errors="replace").strip().rpartition("\n")[2]
        raise RuntimeError(f"{self.doing} ended with code {code}: {last}")


def _failed(going: asyncio.Task[bytes]) -> bool:
    """Whether it came to an end that says nothing of the run."""
    if not going.done() or going.cancelled():
        return going.cancelled()
    error = going.exception()
    lasting = isinstance(error, RefusedError) and not isinstance(error, BusyError)
    return error is not None and not lasting
