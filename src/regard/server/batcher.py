"""One thread owns the model, and translates together what arrives together.

A model has one set of hooks, so whoever looks inside or edits must be alone with it. All work goes
through one queue to one thread: translations that arrive within a few milliseconds make one batch,
and everything else runs by itself. What shares a batch changes no result, an error included.

Clients have their turns one after the other, and long texts are translated in pieces, so that
whoever asks for much waits longest. What nobody waits for any more ends at its next step.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Any, TypeVar

from regard.decoding.wanted import while_wanted
from regard.server.errors import BusyError
from regard.server.limits import LIMITS, Limits
from regard.server.log import log_error

T = TypeVar("T")
MODEL = "model"  # name of the thread
CLIENT: ContextVar[str] = ContextVar("CLIENT", default="")
"""Whose request this is: clients share the model fairly."""


class EngineError(Exception):
    """What computes has crashed, and was set up again."""


@dataclass(slots=True, eq=False)
class _Job:
    work: Callable[[], Any]  # what to do when the job is alone
    dropped: threading.Event  # set when nobody waits any more
    texts: tuple[str, ...] = ()  # what may share a batch; nothing where the job must be alone
    client: str = field(default_factory=CLIENT.get)
    future: Future[Any] = field(default_factory=Future)
    arrived: float = field(default_factory=time.monotonic)

    @property
    def size(self) -> int:
        """How much of the queue it takes."""
        return max(1, len(self.texts))

    @property
    def n_characters(self) -> int:
        return sum(map(len, self.texts))


class Worker:
    """A queue and the thread that empties it. The thread starts with the first job.

    ``recover`` sets the engines up again after a crash, and raises where they are not whole.
    """

    def __init__(
        self,
        translate: Callable[[list[str]], list[str]],
        *,
        limits: Limits = LIMITS,
        batching: bool = True,
        on_batch: Callable[[int], None] = lambda _n_texts: None,
        recover: Callable[[], object] = lambda: None,
    ) -> None:
        self.limits = limits
        self.batching = batching
        self._translate = translate
        self._on_batch = on_batch
        self._set_up = recover
        self._waiting: dict[str, deque[_Job]] = {}  # by client; who was served last is last
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._broken = False
        self._began: float | None = None  # when the work began that is being done

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    @property
    def trouble(self) -> str | None:
        """Why nothing can be computed at the moment; None where all is well."""
        thread, began = self._thread, self._began
        if self._broken:
            return "the model's engine has crashed and is being set up again"
        if thread is not None and not thread.is_alive():
            return "the model's thread has ended"
        if began is not None and (taken := time.monotonic() - began) > self.limits.stuck:
            return f"the model has been at one piece of work for {taken:.0f} s"
        return None

    async def translate(self, texts: Sequence[str]) -> list[str]:
        """The translations of the texts, in order, perhaps together with those of others."""
        dropped, parts = threading.Event(), [texts[cut] for cut in pieces(texts, self.limits)]
        jobs = [_Job(partial(self._together, [*part]), dropped, (*part,)) for part in parts]
        return [one for part in await self._done(jobs) for one in part]

    async def call(self, work: Callable[[], T], dropped: threading.Event | None = None) -> T:
        """What ``work`` gives alone with the model; once ``dropped`` is set, nobody waits."""
        (found,) = await self._done([_Job(work, dropped or threading.Event())])
        return found

    async def each(self, works: Sequence[Callable[[], T]]) -> list[T]:
        """What several pieces of one request's work give; between two others have their turn."""
        dropped = threading.Event()
        return await self._done([_Job(work, dropped) for work in works])

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
            dropped, self._waiting = self._in_turn(), {}
            self._thread = None
            self._changed.notify_all()
        for job in dropped:
            job.future.cancel()

    # -------------------------------------------------------------- who asks

    async def _done(self, jobs: Sequence[_Job]) -> list[Any]:
        """The results of the jobs of one request."""
        if not jobs:
            return []
        self._put(jobs)
        try:
            async with asyncio.timeout(self.limits.seconds) as clock:
                return [await asyncio.wrap_future(job.future) for job in jobs]
        except BaseException as error:  # too late, the client has gone, or one of the jobs failed
            for job in jobs:
                job.dropped.set()
                job.future.cancel()  # where it has begun, it ends at its next step
            if isinstance(error, TimeoutError) and clock.expired():
                why = f"this took more than {self.limits.seconds:g} s; ask again later"
                raise BusyError(why) from None
            raise

    def _put(self, jobs: Sequence[_Job]) -> None:
        with self._changed:
            if self._closing:
                raise BusyError("the server is ending")
            waiting = [*self._in_turn(), *jobs]
            if sum(job.size for job in waiting) > self.limits.queue:
                raise BusyError("too many requests are waiting; ask again later")
            mine = [job for job in waiting if job.client == CLIENT.get()]
            if sum(job.size for job in mine) > self.limits.client_queue:
                raise BusyError("too many of your requests are waiting; ask again later")
            for job in jobs:
                self._waiting.setdefault(job.client, deque()).append(job)
            self._changed.notify()
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name=MODEL, daemon=True)
                self._thread.start()

    # -------------------------------------------------------------- the model's thread

    def _work(self) -> None:
        while batch := self._next():
            wanted = [job for job in batch if job.future.set_running_or_notify_cancel()]
            self._began = time.monotonic()
            if len(wanted) < 2 or not _shared(wanted, self._together):
                for job in wanted:  # one bad text must not spoil the others
                    self._answer(job)
            self._began = None
        with self._changed:
            if self._mine():
                self._thread = None
            self._changed.notify_all()

    def _answer(self, job: _Job) -> None:
        try:
            with while_wanted(job.dropped.is_set):
                job.future.set_result(job.work())
        except Exception as error:  # it belongs to whoever asked
            job.future.set_exception(error)
        except BaseException as error:  # a panic in Rust is no Exception, and would end the thread
            self._broken = True
            job.future.set_exception(EngineError(f"{type(error).__name__}: {error}"))
            self._recover()

    def _recover(self) -> None:
        """Take no work before the engines are whole again."""
        while not self._closing:
            try:
                self._set_up()
            except BaseException as error:
                log_error("setting up the model's engine again", error)
                with self._changed:
                    self._changed.wait_for(lambda: self._closing, timeout=1.0)
            else:
                self._broken = False
                return

    def _mine(self) -> bool:
        """Whether this thread is still the one: a thread that was left alone takes no new work."""
        return self._thread is threading.current_thread()

    def _next(self) -> list[_Job]:
        """The jobs to do next: one, or translations. Nothing when the worker ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            if not self._waiting or not self._mine():
                return []
            first = self._take(self._in_turn()[0])
            if not self.batching or not first.texts:
                return [first]
            left = first.arrived + self.limits.window - time.monotonic()
            room = self.limits.batch - len(first.texts)

            def enough() -> bool:
                return self._closing or sum(len(job.texts) for job in self._in_turn()) >= room

            self._changed.wait_for(enough, timeout=max(0.0, left))
            return [first, *self._company(first)]

    def _in_turn(self) -> list[_Job]:
        """All that waits: the first of each client, then the second of each, and so on."""
        rounds = zip_longest(*self._waiting.values())
        return [job for some in rounds for job in some if job is not None]

    def _take(self, job: _Job) -> _Job:
        """Out of the queue; its client's next turn comes after that of all others."""
        queue = self._waiting.pop(job.client)
        queue.remove(job)
        if queue:
            self._waiting[job.client] = queue
        return job

    def _company(self, first: _Job) -> list[_Job]:
        """Other translations that fit into the batch. The rest keeps its order."""
        texts = self.limits.batch - len(first.texts)
        characters = self.limits.batch_characters - first.n_characters
        company: list[_Job] = []
        for job in self._in_turn():
            if 0 < len(job.texts) <= texts and job.n_characters <= characters:
                company.append(self._take(job))
                texts, characters = texts - len(job.texts), characters - job.n_characters
        return company

    def _together(self, texts: list[str]) -> list[str]:
        self._on_batch(len(texts))
        return self._translate(texts)


def pieces(texts: Sequence[str], limits: Limits, each: int = 1) -> Iterator[slice]:
    """Where to cut the texts into parts that are translated without a pause, ``each`` so often.

    >>> list(pieces(["a" * 9, "b", "c"], Limits(batch_characters=20), each=2))
    [slice(0, 2, None), slice(2, 3, None)]
    """
    start, n_characters = 0, 0
    for i, text in enumerate(texts):
        size = each * len(text)
        full = n_characters + size > limits.batch_characters or i - start == limits.batch
        if full and i > start:
            yield slice(start, i)
            start, n_characters = i, 0
        n_characters += size
    if start < len(texts):
        yield slice(start, len(texts))


def _shared(jobs: Sequence[_Job], translate: Callable[[list[str]], list[str]]) -> bool:
    """Translate the texts of all jobs at once; False where that fails."""
    try:
        with while_wanted(lambda: all(job.dropped.is_set() for job in jobs)):
            found = iter(translate([text for job in jobs for text in job.texts]))
        results = [[next(found) for _ in job.texts] for job in jobs]
    except BaseException:  # whose fault it was shows when each is alone
        return False
    for job, result in zip(jobs, results, strict=True):
        job.future.set_result(result)
    return True
