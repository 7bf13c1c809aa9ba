"""A load test: many clients at once against one server, with batching on and off.

python benchmarks/serving.py runs/demo [--clients 64] [--seconds 30]

Each client keeps a connection open and sends the next sentence as soon as the last is translated.
Only 503 is an error a server may give under load; any other ends the program with code 1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from regard.server.limits import listen

Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]

RATIO_CLIENTS = 32
"""The bar, three times the requests/s of one at a time, is set for so many clients."""


@dataclass
class Load:
    """What came of a load."""

    seconds: float = 0.0
    times: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        """Translations a second."""
        return self.statuses[200] / self.seconds

    def report(self, what: str) -> str:
        """One line."""
        cuts = statistics.quantiles(self.times, n=100)
        errors = {status: n for status, n in self.statuses.items() if status != 200}
        return (
            f"{what:<28} {self.rate:8.1f} requests/s   p50 {1e3 * cuts[49]:7.1f} ms   "
            f"p99 {1e3 * cuts[98]:7.1f} ms   errors {errors or 'none'}"
        )


def serve(path: str, port: int, batching: bool) -> None:
    """The server, in a process of its own."""
    import uvicorn

    import regard
    from regard.server.app import make_app

    app = make_app(regard.load(path), batching=batching)
    uvicorn.run(app, port=port, log_level="warning", access_log=False, ws="none")


async def ask(port: int, body: bytes, connection: Line | None) -> tuple[int, Line]:
    """One request over a connection, which is opened where there is none."""
    reader, writer = connection or await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"POST /translate HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in answer.strip().split(b"\r\n")[1:])
    await reader.readexactly(int(fields[b"content-length"]))
    return int(answer.split(b" ", 2)[1]), (reader, writer)


async def client(port: int, bodies: list[bytes], first: int, until: float, load: Load) -> None:
    """Ask, wait, ask again."""
    connection = None
    number = first
    while time.perf_counter() < until:
        began = time.perf_counter()
        status, connection = await ask(port, bodies[number % len(bodies)], connection)
        load.times.append(time.perf_counter() - began)
        load.statuses[status] += 1
        number += 1
    if connection:
        connection[1].close()


async def loaded(port: int, bodies: list[bytes], n_clients: int, seconds: float) -> Load:
    """All clients at once, for some seconds."""
    load = Load()
    began = time.perf_counter()
    starts = range(0, n_clients * 17, 17)  # each has sentences of its own
    await asyncio.gather(*(client(port, bodies, i, began + seconds, load) for i in starts))
    load.seconds = time.perf_counter() - began
    return load


async def awake(port: int, body: bytes) -> None:
    """Wait until the server answers, and its first slow requests are over."""
    for _ in range(600):
        try:
            _, (_, writer) = await ask(port, body, None)
        except OSError:
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return
    raise SystemExit("the server did not start")


def requests(path: str) -> list[bytes]:
    """What clients send: held-out sentences of the run."""
    import regard
    from regard.data.splits import load_records

    run = regard.load(path)
    target = run.recipe.data.direction.split("-")[1]
    return [
        json.dumps({"q": pair.source, "source": "auto", "target": target}).encode()
        for pair in load_records(run.recipe.data, "pair").splits["test"]
    ]


def measured(
    path: str, bodies: list[bytes], batching: bool, clients: list[int], seconds: float
) -> dict[int, Load]:
    """One server, loaded by each number of clients in turn; -> clients -> load."""
    with listen("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    spawn = multiprocessing.get_context("spawn")
    server = spawn.Process(target=serve, args=(path, port, batching))
    server.start()
    try:
        asyncio.run(awake(port, bodies[0]))
        loads = {}
        for n in clients:
            asyncio.run(loaded(port, bodies, n, min(2.0, seconds)))  # warm
            loads[n] = asyncio.run(loaded(port, bodies, n, seconds))
            print(loads[n].report(f"{n} clients, batching {'on' if batching else 'off'}"))
        return loads
    finally:
        server.terminate()
        server.join()


def main() -> None:
    """Load the server with batching on, then off."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30)
    asked = parser.parse_args()
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    bodies = requests(asked.run)
    clients = sorted({asked.clients, RATIO_CLIENTS})
    on, off = (measured(asked.run, bodies, b, clients, asked.seconds) for b in (True, False))
    ratio = on[RATIO_CLIENTS].rate / off[RATIO_CLIENTS].rate
    print(f"batching gives x{ratio:.1f} the requests/s at {RATIO_CLIENTS} clients")
    wrong = [load.statuses.keys() - {200, 503} for load in (*on.values(), *off.values())]
    sys.exit(1 if any(wrong) else 0)


if __name__ == "__main__":
    main()
