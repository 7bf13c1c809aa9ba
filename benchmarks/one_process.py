"""What starting by torchrun, sharding and checkpoints cost where one process would do.

    python benchmarks/one_process.py DIR
    python benchmarks/one_process.py DIR --set d_model=64 --set n_layers=2 --set batch_tokens=512
    python benchmarks/one_process.py DIR --only plain --only torchrun --set exact=true

Three trainings of one recipe in turn, as many rounds as asked for: plain, by torchrun with one
process, and sharded (FSDP2) by torchrun with one process. The first two must end with the same
weights, on a GPU with ``exact``. None is compiled, as a sharded model never is. A checkpoint falls
into the middle of each: what it takes longer than the steps around it is its stall, told as a share
of an interval.
"""

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

RECIPE = """
task: language
data: {world: sentences, direction: en-fr}
text: {kind: word}
model: {preset: gpt, size: base, max_len: 512, dropout: 0.0}
train: {max_steps: %d, batch_tokens: 16384, lr: 1.0e-4, warmup_steps: 20, compile: false,
        log_every: %d, save_every: %d, eval_every: %d, average: 0}
"""
ALONE = [sys.executable, "-m", "regard"]
BY_TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone",
               "--nproc-per-node", "1", "-m", "regard"]  # fmt: skip
WAYS = {
    "plain": (ALONE, []),
    "torchrun": (BY_TORCHRUN, []),
    "sharded": (BY_TORCHRUN, ["--set", "parallel=shard"]),
}


class Training(NamedTuple):
    """What a training took, and what it ended with."""

    speed: float
    """Tokens a second."""
    stall: float
    """Seconds that a checkpoint took."""
    step: float
    """Seconds a step."""
    digest: str
    """Of the weights."""


def trained(
    recipe: Path, out: Path, start: Sequence[str], flags: Sequence[str], steps: int
) -> Training:
    """Train once."""
    log, saved = steps // 20, steps // 2
    command = [*start, "train", str(recipe), "--out", str(out), "--overwrite", *flags]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if line["kind"] == "train"]
    seconds = {line["step"]: line["seconds"] for line in lines}
    lasted = {step: seconds[step] - seconds[step - log] for step in list(seconds)[1:]}
    around, warm = (saved, saved + log), steps // 4  # a checkpoint is written behind its line
    usual = statistics.median(t for step, t in lasted.items() if step > warm and step not in around)
    speeds = [one["tokens_per_second"] for one in lines if one["step"] > warm]
    digest = hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest()
    stall = sum(lasted[step] - usual for step in around)
    return Training(statistics.median(speeds), stall, usual / log, digest)


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=200, help="a multiple of 20")
    parser.add_argument("--only", action="append", choices=[*WAYS])
    parser.add_argument("--set", dest="settings", action="append", default=[])
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    recipe = asked.folder / "recipe.yaml"
    n = asked.steps
    recipe.write_text(RECIPE % (n, n // 20, n // 2, n))
    flags = [part for one in asked.settings for part in ("--set", one)]
    ways = {way: WAYS[way] for way in asked.only or WAYS}
    found: dict[str, list[Training]] = {way: [] for way in ways}
    for round_ in range(asked.rounds):
        for way, (start, more) in ways.items():
            one = trained(recipe, asked.folder / way, start, [*flags, *more], n)
            found[way].append(one)
            print(f"round {round_ + 1}, {way}: {one.speed:,.0f} tokens/s", flush=True)
    plain = statistics.median(one.speed for one in next(iter(found.values())))
    for way, rounds in found.items():
        speed = statistics.median(one.speed for one in rounds)
        stall = statistics.median(one.stall for one in rounds)
        step = statistics.median(one.step for one in rounds)
        digests = sorted({one.digest[:12] for one in rounds})
        print(f"{way}: {speed:,.0f} tokens/s, {speed / plain:.3f} of the first; a checkpoint "
              f"stalls {stall:.2f} s, {stall / (1000 * step):.1%} of 1,000 steps of "
              f"{1000 * step:.0f} ms; weights {', '.join(digests)}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
