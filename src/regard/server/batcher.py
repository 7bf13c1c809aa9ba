"""One thread owns the model, and translates together what arrives together.

A model has one set of hooks, so whoever looks inside or edits must be alone with it. All work goes
through one queue to one thread: translations that arrive within a few milliseconds make one batch,
and everything else runs by itself. What shares a batch changes no result, an error included.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from regard.server.errors import BusyError
from regard.server.limits import LIMITS, Limits

T = TypeVar("T")
MODEL = "model"  # name of the thread


@dataclass(slots=True, eq=False)
class _Job:
    work: Callable[[], Any]  # what to do when the job is alone
    texts: tuple[str, ...] = ()  # what may share a batch; nothing where the job must be alone
    future: Future[Any] = field(default_factory=Future)
    dropped: threading.Event = field(default_factory=threading.Event)  # nobody waits any more
    arrived: float = field(default_factory=time.monotonic)


class Worker:
    """A queue and the thread that empties it. The thread starts with the first job."""

    def __init__(
        self,
        translate: Callable[[list[str]], list[str]],
        *,
        limits: Limits = LIMITS,
        batching: bool = True,
        on_batch: Callable[[int], None] = lambda _n_texts: None,
    ) -> None:
        self.limits = limits
        self.batching = batching
        self._translate = translate
        self._on_batch = on_batch
        self._waiting: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False

    def __len__(self) -> int:
        return len(self._waiting)

    async def translate(self, texts: Sequence[str]) -> list[str]:
        """The translations of the texts, in order, perhaps together with those of others."""
        many = list(texts)
        return await self._done(_Job(lambda: self._together(many), tuple(many))) if many else []

    async def call(self, work: Callable[[], T], dropped: threading.Event | None = None) -> T:
        """What ``work`` gives alone with the model; once ``dropped`` is set, nobody waits."""
        return await self._done(_Job(work, dropped=dropped or threading.Event()))

    def open(self) -> None:
        """Take work again, after ``close``."""
        with self._changed:
            self._closing = False

    def close(self, patience: float | None = None) -> None:
        """Take nothing new, finish what waits, end the thread; within so many seconds, if given."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            ended = self._changed.wait_for(lambda: self._thread is None, timeout=patience)
        if not ended:
            self.abandon()

    def abandon(self) -> None:
        """Take nothing new, drop what waits; the thread ends with what it is doing."""
        with self._changed:
            self._closing = True
            dropped, self._waiting = self._waiting, deque()
            self._thread = None
            self._changed.notify_all()
        for job in dropped:
            job.future.cancel()

    async def _done(self, job: _Job) -> Any:
        self._put(job)
        try:  # past the time the job is cancelled; where it has begun, its result is dropped
            return await asyncio.wait_for(asyncio.wrap_future(job.future), self.limits.seconds)
        except TimeoutError:
            job.dropped.set()
            why = f"this took more than {self.limits.seconds:g} s; ask again later"
            raise BusyError(why) from None
        except asyncio.CancelledError:  # the client has gone
            job.dropped.set()
            raise

    def _put(self, job: _Job) -> None:
        with self._changed:
            if self._closing:
                raise BusyError("the server is ending")
            if sum(max(1, len(one.texts)) for one in (*self._waiting, job)) > self.limits.queue:
                raise BusyError("too many requests are waiting; ask again later")
            self._waiting.append(job)
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=MODEL, daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while batch := self._next():
            wanted = [job for job in batch if job.future.set_running_or_notify_cancel()]
            if len(wanted) < 2 or not _shared(wanted, self._together):
                for job in wanted:  # one bad text must not spoil the others
                    try:
                        job.future.set_result(job.work())
                    except Exception as error:  # it belongs to whoever asked
                        job.future.set_exception(error)
        with self._changed:
            if self._mine():
                self._thread = None
            self._changed.notify_all()

    def _mine(self) -> bool:
        """Whether this thread is still the one: a thread that was left alone takes no new work."""
        return self._thread is threading.current_thread()

    def _next(self) -> list[_Job]:
        """The jobs to do next: one, or translations. Nothing when the worker ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            if not self._waiting or not self._mine():
                return []
            first = self._waiting.popleft()
            if not self.batching or not first.texts:
                return [first]
            left = first.arrived + self.limits.window - time.monotonic()
            room = self.limits.batch - len(first.texts)

            def enough() -> bool:
                return self._closing or sum(len(job.texts) for job in self._waiting) >= room

            self._changed.wait_for(enough, timeout=max(0.0, left))
            return [first, *self._company(room)]

    def _company(self, room: int) -> list[_Job]:
        """Other translations that fit into the batch. The rest keeps its order."""
        company: list[_Job] = []
        others: deque[_Job] = deque()
        for job in self._waiting:
            fits = 0 < len(job.texts) <= room
            (company if fits else others).append(job)
            room -= len(job.texts) if fits else 0
        self._waiting = others
        return company

    def _together(self, texts: list[str]) -> list[str]:
        self._on_batch(len(texts))
        return self._translate(texts)


def _shared(jobs: Sequence[_Job], translate: Callable[[list[str]], list[str]]) -> bool:
    """Translate the texts of all jobs at once; False where that fails."""
    try:
        found = iter(translate([text for job in jobs for text in job.texts]))
        results = [[next(found) for _ in job.texts] for job in jobs]
    except Exception:  # whose fault it was shows when each is alone
        return False
    for job, result in zip(jobs, results, strict=True):
        job.future.set_result(result)
    return True
