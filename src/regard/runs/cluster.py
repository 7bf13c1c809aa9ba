"""Jobs on a Ray cluster: a ``Place`` like this machine's processes (``regard.runs.jobs``).

Jobs are Ray's tasks. What they work on and leave lies on a disk that all machines see, so that a
task which Ray starts again, because its worker or its machine died, goes on where the first was,
and so does the whole command when the driver itself was killed: Ray Data, which keeps what is done
in its own memory, would begin anew.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.core.errors import ConfigError, WorkerError
from regard.core.signals import Stop, raise_stop, signals_to
from regard.runs.jobs import (
    GRACE,
    Ended,
    Job,
    LostError,
    Packed,
    n_cores,
    outcome_of,
    pack,
    threads_each,
    with_cause,
)

LOCAL = "local"
"""The address that starts a cluster here, and ends it."""
REACHED = 5.0
"""Seconds in which a machine must take a connection."""
ANSWERED = 30.0
"""Seconds in which a cluster must answer."""
RETRIES = 5
"""Times that a task is started again whose worker or machine died."""
_OBJECTS = 100 * 2**20  # bytes for what tasks hand over, which is next to nothing
QUIET = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # a cluster of this machine alone stays on loopback
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
"""What Ray must find in the environment when it is imported."""
_PROBE = "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False)"


class RayCluster:
    """Jobs as tasks of a cluster, each with ``threads`` cores and perhaps a GPU.

    Without ``threads``, ``at_once`` jobs share the cores, or there is one job a machine.
    """

    def __init__(
        self,
        address: str,
        *,
        threads: int | None = None,
        at_once: int | None = None,
        gpu: bool = False,
    ) -> None:
        """Connect, or start a ``local`` one that has room for ``at_once`` jobs."""
        self._ray = _imported()
        self._running: dict[Any, Job] = {}
        self._owned = not self._ray.is_initialized()
        self._quiet = contextlib.ExitStack()
        if self._owned:
            # Ray prints what dies on standard output, where nothing but answers may stand.
            self._quiet.enter_context(contextlib.redirect_stdout(sys.stderr))
            cores = n_cores() if at_once is None else at_once * (threads or threads_each(at_once))
            _connect(self._ray, address, cores)
        if threads is None:
            at_once = at_once or len(self._nodes())
            threads = self._share(at_once)
        self._threads, self._limit, self._gpu = threads, at_once, gpu
        if not any(self._room(node["Resources"]) for node in self._nodes()):
            self.stop()
            wanted = f"{threads} cores{' and a GPU' if gpu else ''}"
            raise ConfigError(
                f"no machine of the cluster {address} has {wanted}: ask for fewer --threads"
            )

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]

    def _share(self, at_once: int) -> int:
        """Cores for each of so many jobs, spread evenly over the machines."""
        cores = [int(node["Resources"].get("CPU", 0)) for node in self._nodes()]
        return max(1, min(filter(None, cores), default=1) // math.ceil(at_once / len(cores)))

    def _room(self, resources: dict[str, float]) -> int:
        """Jobs that a machine takes side by side."""
        n = int(resources.get("CPU", 0) // self._threads)
        return min(n, int(resources.get("GPU", 0))) if self._gpu else n

    @property
    def at_once(self) -> int:
        """As told; else twice what fits, so that no worker waits. Machines come and go."""
        if self._limit is not None:
            return self._limit
        return 2 * max(1, sum(self._room(node["Resources"]) for node in self._nodes()))

    def start(self, job: Job, found: Mapping[str, Any]) -> None:
        """Hand a task to Ray, which starts it where there is room."""
        task = self._ray.remote(_task).options(
            num_cpus=self._threads,
            num_gpus=1 if self._gpu else 0,
            max_retries=RETRIES,
            name=job.name,
        )
        packed = pack(job, found, self._threads)
        self._running[task.remote(packed, str(Path.cwd()))] = job

    def wait(self) -> list[Ended]:
        """Wait for one; in short pieces, so that Ctrl-C is heard."""
        ready: list[Any] = []
        while not ready:
            ready, _ = self._ray.wait(list(self._running), timeout=1.0)
        return [self._ended(one) for one in ready]

    def _ended(self, reference: Any) -> Ended:
        job = self._running.pop(reference)
        try:
            kind, value = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            reason = str(error).strip().split("\n")[0]
            return Ended(job.name, error=LostError(f"{job.name}: {reason}"))
        if kind == "done":
            return Ended(job.name, value)
        return Ended(job.name, error=with_cause(*value))

    def stop(self) -> None:
        """Cancel what still runs, and leave the cluster."""
        try:
            for reference in self._running:
                self._ray.cancel(reference)
            if self._running:
                self._ray.wait(list(self._running), num_returns=len(self._running), timeout=GRACE)
        finally:
            self._running.clear()
            if self._owned:
                self._ray.shutdown()
            self._quiet.close()


def _task(packed: Packed, folder: str) -> tuple[str, Any]:
    """What a worker of the cluster does."""
    with contextlib.suppress(OSError):  # who needs the folder says so better
        os.chdir(folder)
    try:
        with signals_to(raise_stop):
            return outcome_of(packed, 0, lambda _text: None)
    except Stop as stop:
        return "error", (LostError(f"stopped by {stop.signal.name}"), "")


def _imported() -> Any:
    os.environ.update({name: os.environ.get(name, value) for name, value in QUIET.items()})
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise ConfigError(f"--cluster needs Ray: pip install 'regard[ray]' ({error})") from error
    return ray


def _connect(ray: Any, address: str, cpus: int) -> None:
    """Start a cluster, or connect to one that was seen to answer."""
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == LOCAL:
        mine = {"num_cpus": cpus, "include_dashboard": False, "object_store_memory": _OBJECTS}
        ray.init(address=LOCAL, **mine, **quiet)
        return
    check_answers(address)
    ray.init(address=address, **quiet)


def check_answers(address: str) -> None:
    """Refuse a cluster that does not answer in time.

    Ray itself tries for minutes, and hears no signal meanwhile: so another process asks first.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) >= 2**16:
        raise ConfigError(f"--cluster {address!r}: expected HOST:PORT, or {LOCAL}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACHED).close()
    except OSError as error:
        raise WorkerError(
            f"the cluster {address} cannot be reached: {error.strerror or error}; is it running?"
        ) from None
    asking = [sys.executable, "-P", "-c", _PROBE, address]
    try:
        asked = subprocess.run(asking, capture_output=True, timeout=ANSWERED, text=True)
    except subprocess.TimeoutExpired:
        raise WorkerError(
            f"the cluster {address} did not answer in {ANSWERED:g} s; is it Ray's?"
        ) from None
    if asked.returncode:
        said = asked.stderr.strip().split("\n")[-1]
        raise WorkerError(f"the cluster {address} does not let us in: {said}")
