"""The measures of a run's heads, made once, by a process of their own.

Measuring takes a while and ablates heads meanwhile. In another process it disturbs neither the
model that translates nor the thread that answers, and it can be ended at any moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Coroutine
from typing import Any

from regard.core.errors import RegardError
from regard.core.plugins import load_plugins, loaded_plugins
from regard.server.errors import BusyError, RefusedError, as_json
from regard.tasks.opening import load

TICK = re.compile(rb"(\d+) of (\d+)\n")
"""What the process says after each head."""
LONGEST_LINE = 2**20
MOST_BYTES = 4096
"""Of what else it says: its last line tells what went wrong."""
CANNOT = 3  # exit code of the process where a run has no heads, or its data is gone


class HeadMeasuring:
    """One result for all who ask, a refusal too; what was too much at the time is tried again."""

    def __init__(self, run: Any, *, seconds: float) -> None:
        self.words = [str(run.folder.path), str(run.device), *loaded_plugins()]
        self.seconds = seconds
        self._going: asyncio.Task[bytes] | None = None
        self._process: Process | None = None
        self._closing = False
        self._ticks = (0, 0)

    async def result(self) -> bytes:
        """The JSON of ``regard heads``, and of pictures ``figures`` beside the map, as SVG."""
        if self._going is None or _failed(self._going):
            self._going = asyncio.create_task(self._measured())
            self._going.add_done_callback(_failed)  # perhaps nobody waits for its error any more
        return await asyncio.shield(self._going)  # a client that goes leaves it to the others

    def progress(self) -> dict[str, Any]:
        """How far it is: ``state`` is idle, measuring, done or refused; heads ``done`` ``of``."""
        going = self._going
        state = "idle" if going is None or _failed(going) else "measuring"
        if going is not None and going.done() and state == "measuring":
            state = "done" if going.exception() is None else "refused"
        done, of = self._ticks
        return {"state": state, "done": done, "of": of}

    def open(self) -> None:
        """Measure again, after ``close``, perhaps in another event loop."""
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

    async def _measured(self) -> bytes:
        if self._closing:
            raise BusyError("the server is ending")
        self._ticks = (0, 0)
        words = [sys.executable, "-P", "-m", "regard.server.heads", *self.words]
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
            raise BusyError(f"measuring took more than {self.seconds:g} s") from None
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
            why = "it has none, or its data is not here; `regard heads` says which"
            raise RefusedError(404, f"the heads of this run cannot be measured: {why}")
        last = err.decode(errors="replace").strip().rpartition("\n")[2]
        raise RuntimeError(f"measuring ended with code {code}: {last}")


def _failed(going: asyncio.Task[bytes]) -> bool:
    """Whether it came to an end that says nothing of the run."""
    if not going.done() or going.cancelled():
        return going.cancelled()
    error = going.exception()
    lasting = isinstance(error, RefusedError) and not isinstance(error, BusyError)
    return error is not None and not lasting


def _tell(done: int, of: int) -> None:
    """A line that ``HeadMeasuring`` reads."""
    print(f"{done} of {of}", file=sys.stderr, flush=True)


def main(path: str, device: str, *plugins: str) -> int:
    """What the process does: the measures as JSON on standard output."""
    from regard.runs.heads import head_measures
    from regard.visual.patch_figures import head_figures

    load_plugins(plugins)
    try:
        found = head_measures(load(path, device=device), tick=_tell)
    except RegardError as error:
        print(error, file=sys.stderr)
        return CANNOT
    told = found.as_json()
    figures = head_figures(told)[1:]
    sys.stdout.buffer.write(as_json(told | ({"figures": figures} if figures else {})))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
