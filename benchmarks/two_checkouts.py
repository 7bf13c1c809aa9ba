"""Two source trees on the same work, in turn: is the new one as fast as the old one?

    python benchmarks/two_checkouts.py OLD/src src --rounds 3
    python benchmarks/two_checkouts.py OLD/src src --device cuda --only train decode

Both are asked by ``regard bench … --only regard``; ``--help`` and ``import regard`` are timed
from outside. Every round runs each tree once, the other one first than in the round before. Ratios
are new over old of the medians: of speeds, and for times inverted, so that more is better.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence

BENCHES = {
    "train": ["bench", "train", "--rounds", "2"],
    "decode": ["bench", "decode", "--rounds", "2"],
    "generate": ["bench", "generate", "--rounds", "2", "--new", "64"],
}
TIMES = {"--help": ["-m", "regard", "--help"], "import regard": ["-c", "import regard"]}


def run(tree: str, *words: str) -> str:
    """What a call prints, with one of the trees as the package."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([tree, os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, *words]
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout


def speeds(tree: str, words: Sequence[str], device: str | None) -> dict[str, float]:
    """Rows of a bench -> by name, how many a second."""
    more = [] if device is None else ["--device", device]
    found = json.loads(run(tree, "-m", "regard", *words, "--only", "regard", "--json", *more))
    return {f"{row['what']} {row['precision']}": row["value"] for row in found["rows"]}


def calls_a_second(tree: str, words: Sequence[str], n: int = 5) -> float:
    """The inverse of a call's time."""
    begin = time.perf_counter()
    for _ in range(n):
        run(tree, *words)
    return n / (time.perf_counter() - begin)


def main() -> None:
    """Print a table of medians and ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device")
    parser.add_argument(
        "--only", nargs="*", choices=[*BENCHES, "start"], default=[*BENCHES, "start"]
    )
    asked = parser.parse_args()
    found = defaultdict[str, tuple[list[float], list[float]]](lambda: ([], []))
    for number in range(asked.rounds):
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            tree = (asked.old, asked.new)[side]
            for name in asked.only:
                if name == "start":
                    rows = {what: calls_a_second(tree, words) for what, words in TIMES.items()}
                else:
                    rows = speeds(tree, BENCHES[name], asked.device)
                for what, value in rows.items():
                    found[what][side].append(value)
    for what, (old, new) in found.items():
        if old and new:
            a, b = statistics.median(old), statistics.median(new)
            print(f"{what:60s} {a:12,.1f} {b:12,.1f}  × {b / a:.3f}")


if __name__ == "__main__":
    main()
