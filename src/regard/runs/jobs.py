"""Jobs side by side: each in a process of its own, with its share of the cores.

A job is a name and a function whose results lie on disk, so that a job which is run again goes on
where it was. Who starts and ends processes is a ``Place``: this machine (``Processes``), or a
cluster (``regard.runs.cluster``). Nothing here imports torch: a job's process must first be told
how many threads it has.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, Protocol

from typing_extensions import override

from regard.core.errors import ConfigError, WorkerError
from regard.core.plugins import load_plugins, loaded_plugins
from regard.core.signals import Stop, raise_stop, signals_to

THREADS = "OMP_NUM_THREADS"
GRACE = 30.0
"""Seconds that a job has to end: to save what it can, or to leave once all is told."""

Say = Callable[[str], None]
_LOG = logging.getLogger("regard")


class Post(NamedTuple):
    """Where a job finds itself."""

    slot: int
    """Its place among those that run side by side, from 0: on several GPUs, which one is its."""
    say: Say
    """Tells whoever started it something in words."""
    found: Mapping[str, Any]
    """What the jobs came to that it stands after, by their names."""


@dataclass(frozen=True, slots=True)
class Job:
    """Something to do, that a process can be handed: ``do`` is a module's function, or partial."""

    name: str
    do: Callable[[Post], Any]
    after: tuple[str, ...] = ()
    """Names of jobs that must have succeeded before; they stand before it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of a job: a value, or an error."""

    name: str
    value: Any = None
    error: Exception | None = None


class LostError(WorkerError):
    """A job's process is gone, and nothing is known of an error: somebody killed it."""


class Place(Protocol):
    """Where jobs run."""

    @property
    def at_once(self) -> int:
        """Jobs that may run side by side."""

    def start(self, job: Job, found: Mapping[str, Any]) -> None:
        """Begin a job, given what those before it came to; fewer than ``at_once`` are running."""

    def wait(self) -> list[Ended]:
        """Some jobs that have ended, one at least."""

    def stop(self) -> None:
        """End all that still run; what they can save they save."""


def run_jobs(jobs: Iterable[Job], place: Place) -> Iterator[Ended]:
    """What came of each job, as they end. Whoever stops listening ends them all.

    A job waits for those that it stands ``after``; where one of them failed, so has it. Jobs are
    taken from ``jobs`` as there is room for them.
    """
    coming, held = iter(jobs), list[Job]()
    values, failed, n_running = dict[str, Any](), set[str](), 0
    try:
        while True:
            while n_running < place.at_once:
                job = _ready(held, coming, values.keys(), failed)
                if job is None:
                    break
                if lost := next((name for name in job.after if name in failed), None):
                    failed.add(job.name)
                    reason = WorkerError(f"{job.name} needs {lost}, which has failed")
                    yield Ended(job.name, error=reason)
                else:
                    place.start(job, {name: values[name] for name in job.after})
                    n_running += 1
            if not n_running:
                break
            for ended in place.wait():
                n_running -= 1
                if ended.error is None:
                    values[ended.name] = ended.value
                else:
                    failed.add(ended.name)
                yield ended
    finally:
        place.stop()
    assert not held, f"waiting for jobs that there are not: {held[0].after}"


def _ready(
    held: list[Job], coming: Iterator[Job], succeeded: Set[str], failed: Set[str]
) -> Job | None:
    """The next job whose predecessors have all succeeded, or one of them failed."""

    def ready(job: Job) -> bool:
        return any(name in failed for name in job.after) or all(
            name in succeeded for name in job.after
        )

    for n, job in enumerate(held):
        if ready(job):
            return held.pop(n)
    for job in coming:
        if ready(job):
            return job
        held.append(job)
    return None


def check_count(option: str, n: int) -> None:
    """Refuse fewer than one."""
    if n < 1:
        raise ConfigError(f"{option} {n}: at least one must work; give 1 or more")


def n_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_each(n: int) -> int:
    """Threads of each of ``n`` jobs: what OMP_NUM_THREADS says, else a share of the cores."""
    told = os.environ.get(THREADS, "")
    return int(told) if told.isdecimal() and int(told) else max(1, n_cores() // n)


class _Running(NamedTuple):
    """A job that was started."""

    job: Job
    slot: int
    process: Any
    news: Connection


class Processes:
    """Jobs as processes of this machine. Ctrl-C and the parent's end are theirs, too."""

    def __init__(self, at_once: int, threads: int | None = None, say: Say = print) -> None:
        self.at_once = at_once
        self._threads = threads_each(at_once) if threads is None else threads
        self._say = say
        self._running: list[_Running] = []

    def start(self, job: Job, found: Mapping[str, Any]) -> None:
        """Start a process, in which nothing of this one is left: torch dislikes being forked."""
        context = get_context("spawn")
        slot = min(set(range(self.at_once)) - {one.slot for one in self._running})
        reader, writer = context.Pipe(duplex=False)
        packed = pack(job, found, self._threads)
        process = context.Process(target=_serve, args=(packed, slot, writer), name=job.name)
        # Until it has left our group, Ctrl-C would end it without a chance to save.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            process.start()
            self._running.append(_Running(job, slot, process, reader))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        writer.close()  # so that its end is the end of the pipe

    def wait(self) -> list[Ended]:
        """Hear the processes until one has ended."""
        ended: list[Ended] = []
        while not ended:
            ready = wait([one.news for one in self._running])
            for one in [one for one in self._running if one.news in ready]:
                if (outcome := self._heard(one)) is not None:
                    self._running.remove(one)
                    ended.append(outcome)
        return ended

    def _heard(self, one: _Running) -> Ended | None:
        """What a process has to say; None where there is more to come."""
        try:
            kind, value = one.news.recv()
        except (EOFError, OSError):
            kind, value = "lost", None
        if kind == "say":
            self._say(value)
            return None
        if kind == "log":
            _LOG.warning("%s: %s", one.job.name, value)
            return None
        one.process.join(GRACE)
        one.process.kill()  # what it came to is told; whatever it still waits for, nobody needs
        one.process.join()
        code = one.process.exitcode
        one.process.close()
        one.news.close()
        if kind == "done":
            return Ended(one.job.name, value)
        if kind == "error":
            return Ended(one.job.name, error=with_cause(*value))
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return Ended(one.job.name, error=LostError(f"{one.job.name}: its process ended {how}"))

    def stop(self) -> None:
        """Ask all to end, and make those end that do not."""
        try:
            for one in self._running:
                one.process.terminate()
            last = time.monotonic() + GRACE
            for one in self._running:
                one.process.join(max(0.0, last - time.monotonic()))
        finally:
            for one in self._running:
                one.process.kill()
                one.process.join()
                one.process.close()
                one.news.close()
            self._running.clear()


# ------------------------------------------------------------------ in the job's process


class Packed(NamedTuple):
    """A job as another process takes it: the work is unpacked when all else is as it needs it."""

    work: bytes
    threads: int
    plugins: list[str]


def pack(job: Job, found: Mapping[str, Any], threads: int) -> Packed:
    """Pack a job, to be done with so many threads."""
    return Packed(pickle.dumps((job.do, dict(found))), threads, loaded_plugins())


def _serve(packed: Packed, slot: int, out: Connection) -> None:
    """Do a job, and send what came of it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # forgets one that came before
    os.setpgid(0, 0)  # Ctrl-C is for who started us: we are told in order, and once
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _LOG.addHandler(_Sent(out))
    _LOG.propagate = False  # what is told there is told once
    try:
        with signals_to(raise_stop):
            out.send(outcome_of(packed, slot, lambda text: out.send(("say", text))))
    except Stop as stop:
        signal.signal(stop.signal, signal.SIG_DFL)
        os.kill(os.getpid(), stop.signal)
    except BrokenPipeError:  # nobody listens any more
        sys.exit(1)


class _Sent(logging.Handler):
    """Hands warnings to the process that started this one: who listens to them is known there."""

    def __init__(self, out: Connection) -> None:
        super().__init__(logging.WARNING)
        self._out = out

    @override
    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # who started it may be gone, which the job is told of elsewhere
            self._out.send(("log", record.getMessage()))


def outcome_of(packed: Packed, slot: int, say: Say) -> tuple[str, Any]:
    """Do a job: ``done`` and its value, or ``error`` with the error and its traceback."""
    use_threads(packed.threads)
    try:
        load_plugins(packed.plugins)
        do, found = pickle.loads(packed.work)
        return "done", do(Post(slot, say, found))
    except Exception as error:
        return "error", (sendable(error), traceback.format_exc())


def use_threads(n: int) -> None:
    """Compute with ``n`` threads, whether or not torch was imported."""
    os.environ[THREADS] = str(n)
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(n)


def sendable(error: Exception) -> Exception:
    """The error, or the nearest kind of it that comes through a pipe with its message."""
    for kind in type(error).__mro__:
        try:
            one = error if kind is type(error) else kind(str(error))
            back = pickle.loads(pickle.dumps(one))
        except Exception:  # whatever its own __init__ asks for
            continue
        if str(back) == str(error):
            return one
    return RuntimeError(f"{type(error).__name__}: {error}")


class _RemoteTraceback(Exception):  # noqa: N818
    """Where an error of another process was raised, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def with_cause(error: Exception, where: str) -> Exception:
    """An error of another process, with where it was raised."""
    error.__cause__ = _RemoteTraceback(where)
    return error


def _end_with_parent() -> None:
    """When the process that started us is gone, end as if it had asked us to."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)
