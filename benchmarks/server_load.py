"""A soak test: 64 clients for ten minutes against one server; its errors, times and memory.

python benchmarks/server_load.py [--minutes 10] [--clients 64] [--idle 0] [--steps 150]

Trains a small translator, serves it with `regard serve` on this machine alone and sends it what its
page and other clients send: translations, alternatives, looks, beams and streams, each client the
next as soon as the last is answered. `--idle` connections that send nothing are opened beside them
all the time. Ends with code 1 where a status other than 200 and 503 was seen, a connection was lost
by a client that was not idle, or memory grew by 5 % after the first minute.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

SENTENCES = (
    "john loves mary",
    "i am a student",
    "jane visits africa in september",
    "the animal did not cross the street because it was too tired",
)
ALLOWED = {200, 503}
GROWTH = 0.05  # of memory after the first minute
Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Load:
    """What came of a load."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By path."""
    lost: int = 0

    def report(self, took: float) -> str:
        """Rate and answers by status; a line a path, and one for all, with times of requests."""
        total = [one for some in self.seconds.values() for one in some]
        lines = [f"{len(total) / took:.1f} requests/s, {dict(self.statuses)}, lost {self.lost}"]
        for path, times in (*self.seconds.items(), ("all", total)):
            cuts = statistics.quantiles([*times, *times], n=100)
            told = f"p50 {1e3 * cuts[49]:6.0f} ms   p99 {1e3 * cuts[98]:6.0f} ms"
            lines.append(f"{path:14} {told}   {len(times)} requests")
        return "\n".join(lines)


def asked(choose: random.Random) -> tuple[str, str, dict[str, object] | None]:
    """Method, path and body of the next request."""
    text = choose.choice(SENTENCES)
    plain: dict[str, object] = {"q": text, "source": "en", "target": "fr"}
    kinds: tuple[tuple[str, str, dict[str, object] | None], ...] = (
        ("POST", "/translate", plain),
        ("POST", "/translate", {**plain, "q": list(SENTENCES), "alternatives": 2}),
        ("POST", "/api/explain", {"source": text}),
        ("POST", "/api/beam", {"source": text, "n_beams": 2}),
        ("GET", f"/api/stream?source={text.replace(' ', '+')}", None),
        ("GET", "/api/words?begins=a", None),
    )
    return choose.choices(kinds, weights=(20, 2, 2, 1, 4, 2))[0]


async def answer(line: Line, port: int, method: str, path: str, body: object) -> int:
    """Send a request and read all of its answer; -> the status."""
    raw = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(raw)}\r\n"
    reader, writer = line
    writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + raw)
    told = (await reader.readuntil(b"\r\n\r\n")).lower()
    if found := re.search(rb"content-length: (\d+)", told):
        await reader.readexactly(int(found[1]))
    else:  # in chunks, the last of which is empty
        while size := int(await reader.readuntil(b"\r\n"), 16):
            await reader.readexactly(size + 2)
        await reader.readexactly(2)
    return int(told.split(b" ", 2)[1])


async def client(port: int, number: int, until: float, load: Load) -> None:
    """Ask, wait, ask again; over a new connection where the last was lost."""
    choose, line = random.Random(number), None
    while time.monotonic() < until:
        began = time.monotonic()
        try:
            line = line or await asyncio.open_connection("127.0.0.1", port)
            method, path, body = asked(choose)
            load.statuses[await answer(line, port, method, path, body)] += 1
            load.seconds[path.partition("?")[0]].append(time.monotonic() - began)
        except (OSError, asyncio.IncompleteReadError):
            load.lost += 1
            line = None
            await asyncio.sleep(0.1)
    if line is not None:
        line[1].close()


async def idle(port: int, n: int, until: float) -> None:
    """Keep connections open that send nothing; those that the server ends are opened again."""
    lines: list[Line] = []
    while time.monotonic() < until:
        lines = [line for line in lines if not line[0].at_eof() and not line[1].is_closing()]
        with contextlib.suppress(OSError):
            while len(lines) < n:
                lines.append(await asyncio.open_connection("127.0.0.1", port))
        await asyncio.sleep(0.2)
    for _, writer in lines:
        writer.transport.abort()


def memory(process: int) -> float:
    """Resident MiB of a process."""
    told = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", told)[1]) / 1024  # type: ignore[index]


async def loaded(port: int, process: int, given: argparse.Namespace) -> tuple[Load, list[float]]:
    """All clients for the whole time; -> what came of it, and the memory of each half minute."""
    load, sizes = Load(), list[float]()
    until = time.monotonic() + 60 * given.minutes

    async def watch() -> None:
        while time.monotonic() < until:
            await asyncio.sleep(min(30.0, max(0.0, until - time.monotonic())))
            sizes.append(memory(process))
            print(f"{30 * len(sizes):5d} s   {sizes[-1]:7.1f} MiB   {dict(load.statuses)}")

    clients = (client(port, number, until, load) for number in range(given.clients))
    await asyncio.gather(watch(), idle(port, given.idle, until), *clients)
    return load, sizes


@contextlib.asynccontextmanager
async def served(run: Path, errors: Path) -> AsyncIterator[tuple[int, int]]:
    """`regard serve` in a process of its own; -> its port and its process."""
    words = [sys.executable, "-m", "regard", "serve", str(run), "--port", "0", "--device", "cpu"]
    with errors.open("wb") as log:
        program = await asyncio.create_subprocess_exec(
            *words, stdout=asyncio.subprocess.PIPE, stderr=log
        )
        try:
            assert program.stdout is not None
            line = (await program.stdout.readline()).decode()
            yield int(line.split(" at ")[1].split()[0].rpartition(":")[2]), program.pid
        finally:
            program.terminate()
            await program.wait()


async def main() -> int:
    """Train, serve, load, tell."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--idle", type=int, default=0)
    parser.add_argument("--steps", type=int, default=150)
    given = parser.parse_args()
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    with tempfile.TemporaryDirectory() as folder:
        run, errors = Path(folder) / "run", Path(folder) / "errors"
        steps = f"max_steps={given.steps}"
        words = ["train", "transformer", "--set", steps, "--out", str(run), "--device", "cpu"]
        subprocess.run([sys.executable, "-m", "regard", *words], check=True, capture_output=True)
        async with served(run, errors) as (port, process):
            before = memory(process)
            load, sizes = await loaded(port, process, given)
        n_bytes = errors.stat().st_size
    after_one, last = sizes[min(1, len(sizes) - 1)], sizes[-1]
    print(load.report(60 * given.minutes))
    print(
        f"memory: {before:.1f} MiB at the start, {after_one:.1f} after a minute, {last:.1f} at the "
        f"end ({last / after_one - 1:+.1%}); {n_bytes} bytes in the log"
    )
    wrong = load.statuses.keys() - ALLOWED or load.lost or last > (1 + GROWTH) * after_one
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
