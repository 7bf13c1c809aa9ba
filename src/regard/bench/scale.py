"""How training grows with the number of processes: measured here, and projected beyond.

Measured: one update of so many micro-batches, dealt out to 1, 2, 4, … processes of this machine.
Projected, and called so: with compute c (an update in one process), b bytes of gradients, and the
bandwidth β and latency λ of a message, W processes on devices of their own take

    c / W  +  2 (W - 1) / W · b / β  +  2 (W - 1) · λ

seconds for an update: shares of the compute, and the two passes of a ring around which gradients
are added up, nothing of it at the same time. Memory of a model in parts is that of one of W
processes under torch's ``fake`` backend, which talks to nobody.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist

from regard.bench.contest import BenchRequest
from regard.bench.results import OURS, Bench, BenchRow
from regard.bench.training import sentences
from regard.bench.updates import LR, default, shape
from regard.core.errors import ConfigError, TrainingError
from regard.models.presets import build, n_parameters
from regard.training.distributed import Ranks, joined
from regard.training.settings import TrainSettings
from regard.training.token_loss import TokenLoss
from regard.training.update import Update

WARM_UP = 2
"""Updates that are not timed."""
LARGE = 2**23
"""Numbers of the message by which bandwidth is measured: 32 MB."""
UNIT = "target tokens/s"


@dataclass(frozen=True, slots=True)
class Network:
    """What messages between processes cost."""

    bandwidth: float
    """Bytes a second."""
    latency: float
    """Seconds a message."""

    def seconds(self, n_processes: int, n_bytes: float) -> float:
        """To add up so many bytes of every process, around a ring.

        >>> Network(bandwidth=100.0, latency=0.5).seconds(1, 800)
        0.0
        >>> Network(bandwidth=100.0, latency=0.5).seconds(2, 800)
        9.0
        """
        steps = 2 * (n_processes - 1)
        return steps / n_processes * n_bytes / self.bandwidth + steps * self.latency


def projected_seconds(compute: float, n_processes: int, n_bytes: float, network: Network) -> float:
    """Of an update that takes ``compute`` in one process; see above."""
    return compute / n_processes + network.seconds(n_processes, n_bytes)


def scale_bench(
    asked: BenchRequest,
    *,
    workers: int,
    devices: int,
    size: str | None = None,
    vocab: int | None = None,
    batch_tokens: int | None = None,
    bandwidth: float | None = None,
) -> Bench:
    """Up to ``workers`` processes measured, up to ``devices`` projected, by powers of two.

    ``bandwidth`` (bytes a second) takes the place of what is measured between two processes here.
    """
    for name, n in (("--workers", workers), ("--devices", devices)):
        if n < 1 or n & (n - 1):
            raise ConfigError(f"{name}={n} must be a power of two")
    plan = asked.plan()
    if plan.device.type != "cpu":
        raise ConfigError("bench scale measures processes of a CPU: give --device cpu")
    job = {
        "size": size or default("size", plan.device),
        "vocab": vocab or default("vocab", plan.device),
        "batch_tokens": batch_tokens or default("batch_tokens", plan.device),
        "micro_batches": workers,
        "rounds": asked.rounds,
    }
    measured: dict[int, dict[str, float]] = {}
    for n in powers(workers):
        asked.tell(f"measuring {n} process{'es' * (n > 1)}")
        measured[n] = _added(_work(n, job))
    alone = measured[1]
    asked.tell("measuring what messages cost")
    network = measured_network(bandwidth)
    rows = [
        _row(n, one["tokens"] / one["seconds"], "measured", int(one["memory"]))
        for n, one in measured.items()
    ]
    for n in powers(devices):
        seconds = projected_seconds(alone["seconds"], n, alone["gradient_bytes"], network)
        asked.tell(f"memory of one of {n}")
        memory = _work(1, {**job, "fake": n})[0]["bytes"]
        rows.append(_row(n, alone["tokens"] / seconds, "projected", int(memory)))
    facts = {
        **job,
        "parameters": int(alone["parameters"]),
        "bandwidth_bytes_per_second": network.bandwidth,
        "latency_seconds": network.latency,
        "cpu_seconds_to_one": {n: one["cpu"] / alone["cpu"] for n, one in measured.items()},
    }
    return plan.bench(rows, facts)


def measured_network(bandwidth: float | None = None) -> Network:
    """What messages cost between two processes of this machine; the bandwidth may be given."""
    found = _work(2, {"network": True})[0]
    return Network(bandwidth or found["bandwidth"], found["latency"])


def powers(most: int) -> Iterator[int]:
    """1, 2, 4, … up to ``most``."""
    n = 1
    while n <= most:
        yield n
        n *= 2


def _row(n: int, value: float, how: str, memory: int | None = None) -> BenchRow:
    return BenchRow(
        what=f"training by processes, {n}", who=OURS, how=how, precision="fp32", value=value,
        unit=UNIT, memory_bytes=memory, by="processes", at=n,
    )  # fmt: skip


def _added(found: Sequence[dict[str, float]]) -> dict[str, float]:
    """The slowest process's seconds, and the CPU seconds of all."""
    return {
        **found[0],
        "seconds": max(one["seconds"] for one in found),
        "cpu": sum(one["cpu"] for one in found),
        "memory": max(one["memory"] for one in found),
    }


# ------------------------------------------------------------------ what a process does


def _work(n: int, job: dict[str, Any]) -> list[dict[str, float]]:
    """Start n processes of one thread each that do a job together -> what each found."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    with TemporaryDirectory(prefix="regard-") as folder:
        running = []
        for rank in range(n):
            out = Path(folder) / str(rank)
            own = {"RANK": str(rank), "WORLD_SIZE": str(n), "LOCAL_RANK": str(rank)}
            command = [sys.executable, "-P", "-m", __name__, json.dumps(job), str(out)]
            running.append(
                subprocess.Popen(
                    command, env={**os.environ, **shared, **own}, stderr=subprocess.PIPE, text=True
                )
            )
        errors = [one.communicate()[1] for one in running]
        for one, error in zip(running, errors, strict=True):
            if one.returncode:
                last = error.strip().rpartition("\n")[2]
                raise TrainingError(f"a process of the measurement failed: {last}")
        return [json.loads((Path(folder) / str(rank)).read_text()) for rank in range(n)]


def _done(job: dict[str, Any]) -> dict[str, float]:
    """One process's part of a job."""
    if "fake" in job:
        return {"bytes": _bytes_of_a_part(job, job["fake"])}
    with joined(torch.device("cpu")) as ranks:
        return _network() if "network" in job else _updates(job, ranks)


def _update(job: dict[str, Any], ranks: Ranks, parallel: str = "replicate") -> tuple[Update, Any]:
    settings = TrainSettings.model_validate(
        {"max_steps": 1, "precision": "fp32", "parallel": parallel}
    )
    torch.manual_seed(0)
    model = build(shape(job["size"], job["vocab"])).train()
    if parallel == "shard":
        from regard.training.sharding import Shards

        Shards(model, torch.device("cpu"), job["fake"])
    text = sentences(job["vocab"], batch_tokens=job["batch_tokens"], n_batches=job["micro_batches"])
    return Update(model, TokenLoss(settings), settings, torch.device("cpu"), ranks), text.batches


def _updates(job: dict[str, Any], ranks: Ranks) -> dict[str, float]:
    """Seconds and CPU seconds of an update, of which this process has its share."""
    from regard.tasks.opening import peak_memory

    update, batches = _update(job, ranks)
    share = ranks.share(len(batches))
    own = batches[share.first : share.first + share.n]
    seconds, cpu = [], []
    for _ in range(WARM_UP + job["rounds"]):
        began, burnt = time.perf_counter(), time.process_time()
        update(own, LR)
        seconds.append(time.perf_counter() - began)
        cpu.append(time.process_time() - burnt)
    n = n_parameters(update.model)
    return {
        "seconds": median(seconds[WARM_UP:]),
        "cpu": median(cpu[WARM_UP:]),
        "tokens": sum(batch.count for batch in batches),
        "parameters": n,
        "gradient_bytes": 4 * n,
        "memory": peak_memory(torch.device("cpu")),
    }


def _network() -> dict[str, float]:
    """What a small and a large message cost between processes: medians."""

    def timed(numbers: torch.Tensor) -> float:
        times = []
        for _ in range(12):
            began = time.perf_counter()
            dist.all_reduce(numbers)
            times.append(time.perf_counter() - began)
        return median(times[2:])

    latency = timed(torch.ones(1)) / 2  # there and back
    large = timed(torch.ones(LARGE))
    return {"latency": latency, "bandwidth": 4 * LARGE / max(large - 2 * latency, 1e-9)}


def _bytes_of_a_part(job: dict[str, Any], n: int) -> float:
    """Weights, gradients and averages that one of n processes holds of a model in parts."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=n)
    update, batches = _update({**job, "micro_batches": 1}, Ranks(0, 1), "shard")
    update.accumulate(batches, 1, [None])
    held: list[torch.Tensor] = [*update.model.parameters()]
    held += [p.grad for p in update.model.parameters() if p.grad is not None]
    update.step()
    held += [x for o in update.optimisers for state in o.state.values() for x in state.values()]
    parts = [getattr(x, "to_local", lambda x=x: x)() for x in held]
    dist.destroy_process_group()
    return float(sum(part.numel() * part.element_size() for part in parts))


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(_done(json.loads(sys.argv[1]))))
