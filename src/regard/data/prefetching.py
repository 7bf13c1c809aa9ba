"""Batches made ahead by a thread, so that the training never waits for them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from regard.data.streams import Stream


class Pinnable(Protocol):
    """A batch that can move to where a GPU fetches it by itself."""

    def pin_memory(self: B) -> B:
        """The batch there."""
        ...


B = TypeVar("B", bound=Pinnable)


@dataclass(frozen=True, slots=True)
class _Made(Generic[B]):
    """A batch, and the stream as it was left by it."""

    batch: B
    state: dict[str, int | str]
    n_batches: int


class Prefetched(Generic[B]):
    """A stream whose next ``ahead`` batches are ready, in pinned memory if asked for.

    Its place is that of the batches that were handed out. What was made beyond them is made again
    by whoever goes on from there.
    """

    def __init__(self, stream: Stream[B, Any], *, ahead: int = 2, pin: bool = False) -> None:
        self._stream, self._ahead, self._pin = stream, ahead, pin
        self._worker: _Worker[B] | None = None
        self._last: _Made[B] | None = None

    @property
    def epoch(self) -> int:
        """The epoch of the next batch; as many are complete."""
        return int(self.state()["epoch"])

    @property
    def n_batches(self) -> int:
        """Batches of the current epoch."""
        return self._stream.n_batches if self._last is None else self._last.n_batches

    def next(self) -> B:
        """The next batch."""
        if self._worker is None:
            self._worker = _Worker(self._stream, self._ahead, pin=self._pin)
            weakref.finalize(self, self._worker.stop)  # also when the program ends
        self._last = self._worker.take()
        return self._last.batch

    def state(self) -> dict[str, int | str]:
        """Where the stream is; JSON can hold it."""
        return self._stream.state() if self._last is None else dict(self._last.state)

    def restore(self, state: Mapping[str, int | str]) -> None:
        """Go on as the stream did whose state this was."""
        self.close()
        self._stream.restore(state)

    def close(self) -> None:
        """End the thread; the next batch would begin another, from the same place."""
        place = self.state()
        if self._worker is not None:
            self._worker.stop()
            self._worker = self._last = None
            self._stream.restore(place)


class _Worker(Generic[B]):
    """The thread. It knows nothing of who takes the batches, so that it can outlive nobody."""

    def __init__(self, stream: Stream[B, Any], ahead: int, *, pin: bool) -> None:
        self._stream, self._pin = stream, pin
        self._room = threading.Semaphore(ahead)
        self._made: SimpleQueue[_Made[B] | BaseException] = SimpleQueue()
        self._error: BaseException | None = None
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="batches", daemon=True)
        self._thread.start()

    def take(self) -> _Made[B]:
        """The next batch; what went wrong in making it is raised here, each time."""
        if self._error is None:
            made = self._made.get()
            self._room.release()
            if not isinstance(made, BaseException):
                return made
            self._error = made
        raise self._error

    def stop(self) -> None:
        """End when the batch in hand is done."""
        self._stopped = True
        self._room.release()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _work(self) -> None:
        try:
            while self._room.acquire() and not self._stopped:
                batch = self._stream.next()
                batch = batch.pin_memory() if self._pin else batch
                self._made.put(_Made(batch, self._stream.state(), self._stream.n_batches))
        except BaseException as error:
            self._made.put(error)
