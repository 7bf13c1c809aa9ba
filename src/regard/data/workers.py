"""Work that is shared out to processes, by functions that a module has.

``multiprocessing`` would import the script that asks anew in every process, which one without ``if
__name__ == "__main__"`` does not survive. A worker here is Python with one import: it reads pickled
work from its standard input and writes pickled results to its standard output.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from queue import SimpleQueue
from subprocess import PIPE, Popen, TimeoutExpired
from typing import IO, Any, TypeVar

from regard.core.errors import DataError, RegardError

T = TypeVar("T")
R = TypeVar("R")

BEGIN = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from regard.data.workers import answer; answer()"
)
"""What a worker runs. It imports what whoever asks can import."""
GRACE = 5.0
"""Seconds for a worker that is going to end."""
LOST = (EOFError, OSError, pickle.UnpicklingError)
"""What comes of talking to a worker that is no more."""


def mapped(function: Callable[[T], R], items: Sequence[T], *, at_once: int) -> Iterator[R]:
    """``function`` of each item, in their order; a worker is handed ``at_once`` of them together.

    There are as many workers as cores. What the function raises of our own errors is raised here.
    """
    starts = range(0, len(items), at_once)
    n = min(os.cpu_count() or 1, len(starts)) or 1
    parts = (items[start : start + at_once] for start in starts)
    for some in streamed(partial(_each, function), parts, n_workers=n):
        yield from some


def _each(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    return [function(one) for one in items]


def streamed(
    function: Callable[[T], R], items: Iterable[T], *, n_workers: int, alone: bool = False
) -> Iterator[R]:
    """``function`` of each item, in their order, by some workers; few items are held at a time.

    Workers that are to be ``alone`` with a core each have one thread for tokenizers.
    """
    idle: SimpleQueue[Worker] = SimpleQueue()
    pending: deque[Future[R]] = deque()

    def found(item: T) -> R:
        worker = idle.get()
        try:
            return worker.call(function, item)
        finally:
            idle.put(worker)

    with ThreadPoolExecutor(n_workers) as threads, ExitStack() as started:
        for _ in range(n_workers):
            idle.put(started.enter_context(Worker(alone=alone)))
        started.callback(threads.shutdown, wait=False, cancel_futures=True)
        for item in items:
            pending.append(threads.submit(found, item))
            if len(pending) > n_workers:  # one more than is worked on, so that nobody waits
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


class Worker:
    """A process that calls functions; leaving it as a context ends it."""

    def __init__(self, *, alone: bool = False) -> None:
        command = [sys.executable, "-P", "-c", BEGIN]
        threads = {"RAYON_NUM_THREADS": "1"} if alone else {}
        # In a session of its own it is not interrupted from the keyboard: whoever asks ends it.
        self.process = Popen(
            command, stdin=PIPE, stdout=PIPE, start_new_session=True, env={**os.environ, **threads}
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.to_worker, self.from_worker = self.process.stdin, self.process.stdout

    def __enter__(self) -> Worker:
        _send(sys.path, self.to_worker)
        return self

    def __exit__(self, *_error: object) -> None:
        self.process.kill()
        self.process.communicate()

    def call(self, function: Callable[[T], R], item: T) -> R:
        """``function`` of an item."""
        try:
            _send((function, item), self.to_worker)
            found: R | RegardError = pickle.load(self.from_worker)
        except LOST:
            raise DataError(
                f"a process that prepares data ended by itself (exit status {self._status()}); is "
                "there enough memory?"
            ) from None
        if isinstance(found, RegardError):
            raise found
        return found

    def _status(self) -> int:
        """Of a process that ends, or that is ended as what it says makes no sense."""
        try:
            return self.process.wait(timeout=GRACE)
        except TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def answer() -> None:
    """What a worker does, until its standard input ends."""
    asked, told = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what is printed is no result
    while (work := _received(asked)) is not None:
        function, item = work
        try:
            _send(function(item), told)
        except RegardError as error:
            _send(error, told)


def _received(file: IO[bytes]) -> Any:
    """None at the end."""
    try:
        return pickle.load(file)
    except EOFError:
        return None


def _send(what: Any, file: IO[bytes]) -> None:
    pickle.dump(what, file, pickle.HIGHEST_PROTOCOL)
    file.flush()
