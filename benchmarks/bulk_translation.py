"""Twenty thousand lines by four processes that are killed, and by a Ray cluster that loses parts.

    python benchmarks/bulk_translation.py [--lines 20000] [--seed 1] [--no-ray]

Trains a tiny translator, lets one process translate the lines, and then

1. four workers, of which one is killed at a random moment, and at another one all, their parent
   included; the same command is given again;
2. a Ray cluster of two machines (of two cores each, both here), of which a worker and then a whole
   machine is killed at random moments.

Each must come to the very bytes of the one process. Prints what was done and how long it took.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from regard.runs.cluster import QUIET

Process = subprocess.Popen[str]
Words = Sequence[object]

PART = 200
RECIPE = (
    *("transformer", "--set", "model.size=tiny", "--set", "max_steps=60"),
    *("--set", "decode.max_len=16", "--set", "eval_every=1000"),
)


def regard(*words: object, stdout: int | None = None) -> Process:
    """The command as a process."""
    command = [sys.executable, "-m", "regard", *map(str, words)]
    return subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, text=True)


def finished(process: Process) -> str:
    """Wait for its end -> what it told."""
    _, told = process.communicate()
    if process.returncode:
        sys.exit(told)
    return told


def answered(out: Path) -> int:
    """Parts that are answered."""
    return len(list((out / "parts").glob("*.answers")))


def wait_for(out: Path, n: int, process: Process) -> None:
    """Until so many parts are answered."""
    while answered(out) < n:
        if process.poll() is not None:
            sys.exit(f"it ended too soon: {process.communicate()[1]}")
        time.sleep(0.01)


def at_work(text: str) -> list[int]:
    """Processes whose command line begins so."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cmdline").read_bytes().startswith(text.encode()):
                found.append(int(process.name))
    return found


def owners(out: Path) -> list[int]:
    """Processes that hold claims, or held them last."""
    told = [claim.read_text() for claim in (out / "parts").glob("*.claim")]
    alive = {int(one.rpartition(" ")[2]) for one in told if one}
    return sorted(pid for pid in alive if Path(f"/proc/{pid}").exists())


def by_processes(words: Words, out: Path, n_parts: int, rng: random.Random) -> str:
    """One worker is killed, then all; -> what was done."""
    began = time.perf_counter()
    first = regard(*words, "--out", out, "--workers", 4)
    moments = sorted(rng.sample(range(2, n_parts - 8), 2))
    wait_for(out, moments[0], first)
    os.kill(rng.choice(owners(out)), signal.SIGKILL)
    wait_for(out, moments[1], first)
    for pid in (*owners(out), first.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    first.communicate()
    left = n_parts - answered(out)
    finished(regard(*words, "--out", out, "--workers", 4))
    took = time.perf_counter() - began
    when = f"one killed after {moments[0]} parts of {n_parts}, all after {moments[1]}"
    return f"four workers: {when}, {left} were left, {took:.0f} s"


def by_ray(words: Words, out: Path, n_parts: int, rng: random.Random, path: Path) -> str:
    """A worker of the cluster is killed, then a machine; -> what was done."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    second = cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    try:
        began = time.perf_counter()
        driver = regard(*words, "--out", out, "--cluster", cluster.address)
        moments = sorted(rng.sample(range(2, n_parts - 8), 2))
        wait_for(out, moments[0], driver)
        os.kill(rng.choice(at_work(f"ray::{path}")), signal.SIGKILL)
        wait_for(out, moments[1], driver)
        cluster.remove_node(second, allow_graceful=False)
        finished(driver)
        took = time.perf_counter() - began
    finally:
        ray.shutdown()
        cluster.shutdown()
    when = f"a worker killed after {moments[0]} parts of {n_parts}, a machine after {moments[1]}"
    return f"Ray: {when}, {took:.0f} s"


def main() -> None:
    """Kill, go on, and compare bytes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1, help="decides when something is killed")
    parser.add_argument("--no-ray", action="store_true")
    told = parser.parse_args()
    rng = random.Random(told.seed)
    os.environ.update(QUIET)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        finished(regard("train", *RECIPE, "--out", folder / "run", stdout=subprocess.DEVNULL))
        path = folder / "lines.txt"
        write_lines(path, told.lines)
        words: list[object] = ["translate", folder / "run", "--in", path, "--part-lines", PART]
        words += ["--device", "cpu"]
        began = time.perf_counter()
        finished(regard(*words, "--out", folder / "one", "--workers", 1))
        print(
            f"one process: {told.lines:,} lines in {time.perf_counter() - began:.0f} s", flush=True
        )
        wanted = (folder / "one" / path.name).read_bytes()
        n_parts = -(-told.lines // PART)
        ways: dict[str, Callable[[Path], str]] = {
            "four": lambda out: by_processes(words, out, n_parts, rng)
        }
        if not told.no_ray:
            ways["ray"] = lambda out: by_ray(words, out, n_parts, rng, path)
        for way, do in ways.items():
            done = do(folder / way)
            same = (folder / way / path.name).read_bytes() == wanted
            print(f"{done}: {'byte-identical' if same else 'NOT THE SAME'}", flush=True)
            if not same:
                sys.exit(1)


def write_lines(path: Path, n: int) -> None:
    """Sources of the built-in sentences."""
    from regard.data.settings import DataSettings
    from regard.data.splits import load_records

    pairs = load_records(DataSettings(world="sentences"), "pair").splits["train"]
    path.write_text("".join(f"{pairs[i % len(pairs)].source}\n" for i in range(n)))


if __name__ == "__main__":
    main()
