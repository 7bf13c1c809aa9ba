"""Kill trainings at random moments and compare what they end with.

    python benchmarks/killed_trainings.py DIR --single 100 --together 10

``--single``: one training is killed (SIGKILL) so many times, resumed each time, and must end with
the very weights of one that was left alone. ``--together``: as many trainings by two processes, one
of which is killed once in each; torch starts both again by themselves. Then one training that goes
on with 2, 1 and 2 processes. About 15 minutes on two cores.
"""

import argparse
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

RECIPE = """
data: {world: copy, n_train: 2000}
model: {preset: transformer, size: tiny, d_model: 32, n_layers: 1, n_heads: 2, d_ff: 64}
train: {max_steps: STEPS, accumulate: 2, batch_tokens: 256, eval_every: 100, save_every: 10,
        warmup_steps: 50, exact: true, average: 0.9}
decode: {max_len: 12}
"""


def started(folder: Path, out: Path, *flags: str) -> subprocess.Popen[str]:
    """A training by the program, in a process of its own."""
    command = [sys.executable, "-m", "regard", "train", str(folder / "recipe.yaml"), "--out"]
    return subprocess.Popen(
        [*command, str(out), *flags], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def ended_well(process: subprocess.Popen[str]) -> None:
    """Wait for its end, which must not be an error."""
    _, told = process.communicate()
    assert process.returncode == 0, told


def digest(out: Path) -> str:
    """Of the best weights."""
    return hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest()


def newest(out: Path) -> str | None:
    """The newest checkpoint of a training, or None."""
    names = [one.name for one in (out / "checkpoints").glob("step-*.safetensors")]
    return max(names, default=None)


def wait_for_news(process: subprocess.Popen[str], out: Path, before: str | None) -> None:
    """Until a checkpoint is written that was not there before."""
    while newest(out) in (None, before) and process.poll() is None:
        time.sleep(0.01)


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """The processes that a launch has started."""
    found = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(process.pid)],
                           capture_output=True, text=True).stdout.splitlines()  # fmt: skip
    return [int(line.split()[0]) for line in found if "-m regard" in line]


def killed_alone(folder: Path, n: int, rng: random.Random) -> tuple[int, str]:
    """Kill and resume one training n times -> kills, and what it ends with."""
    out, kills = folder / "single", 0
    while kills < n:
        before = newest(out)
        process = started(folder, out, "--resume")
        wait_for_news(process, out, before)
        time.sleep(rng.uniform(0, 0.3))
        if process.poll() is not None:
            print(f"it came to its end after {kills} kills: raise --steps", file=sys.stderr)
            break
        process.kill()
        process.wait()
        kills += 1
    last = started(folder, out, "--resume")
    ended_well(last)
    return kills, digest(out)


def killed_together(folder: Path, out: Path, rng: random.Random) -> tuple[float, int, str]:
    """Kill one of two processes -> seconds until the next checkpoint, restarts, and the end."""
    process = started(folder, out, "--workers", "2")
    wait_for_news(process, out, None)
    time.sleep(rng.uniform(0, 3))
    workers = workers_of(process)
    assert len(workers) == 2, (workers, process.poll(), process.communicate()[1])
    os.kill(rng.choice(workers), signal.SIGKILL)
    gone, before = time.perf_counter(), newest(out)
    wait_for_news(process, out, before)
    back = time.perf_counter() - gone
    error = process.communicate()[1]
    assert process.returncode == 0, error
    return back, error.count("was killed by"), digest(out)


def changing_number(folder: Path, out: Path) -> str:
    """Stop a training of two processes, go on with one, then with two -> what it ends with."""
    for workers in ("2", "1"):
        process = started(folder, out, "--resume", "--workers", workers)
        before = newest(out)
        wait_for_news(process, out, before)
        process.send_signal(signal.SIGTERM)
        process.wait()
    last = started(folder, out, "--resume", "--workers", "2")
    ended_well(last)
    return digest(out)


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--single", type=int, default=100)
    parser.add_argument("--together", type=int, default=10)
    parser.add_argument("--steps", type=int, default=2000)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True)
    (asked.folder / "recipe.yaml").write_text(RECIPE.replace("STEPS", str(asked.steps)))
    rng = random.Random(0)
    whole = started(asked.folder, asked.folder / "whole")
    ended_well(whole)
    wanted = digest(asked.folder / "whole")
    if asked.together:
        results = [
            killed_together(asked.folder, asked.folder / f"together-{n}", rng)
            for n in range(asked.together)
        ]
        same = sum(found == wanted for _, _, found in results)
        print(f"two processes, one killed: {same} of {len(results)} end with the same weights")
        print(f"restarts {[n for _, n, _ in results]}, back after")
        print(", ".join(f"{back:.1f}" for back, _, _ in results), "s")
        found = changing_number(asked.folder, asked.folder / "changing")
        print(
            f"2, 1 and 2 processes: the weights are {'the same' if found == wanted else 'others'}"
        )
    if asked.single:
        kills, found = killed_alone(asked.folder, asked.single, rng)
        told = "the same" if found == wanted else "others"
        print(f"one process, killed {kills} times: the weights are {told}")


if __name__ == "__main__":
    main()
