"""What each of several processes does in the tests of training together; see ``together``."""

import json
import os
import sys
from pathlib import Path

import programs

from regard.core.errors import RegardError
from regard.runs.train import train
from regard.tasks.recipe import recipe_from
from regard.training.distributed import Ranks, divided, dividing

HERE = Path(__file__)
LONGEST = 240
"""Seconds in which all jobs must be done."""


def together(n, jobs, folder):
    """Hand a list of jobs to n processes that know of each other -> what each found, by rank."""
    shared = {"WORLD_SIZE": str(n), "OMP_NUM_THREADS": "1", "MEET": f"{folder}/meet-{n}"}
    running = [
        programs.start(HERE, json.dumps(jobs), env={**shared, "RANK": str(rank)})
        for rank in range(n)
    ]
    try:
        ends = [programs.said(process, LONGEST) for process in running]
    finally:
        for process in running:
            programs.end(process)
    assert [process.returncode for process in running] == [0] * n, [err for _, err in ends]
    return [json.loads(out.splitlines()[-1]) for out, _ in ends]


def do_train(settings, out, resume=False):
    said = []
    trained = train(recipe_from(settings), Path(out), resume=resume, say=said.append, test_sets=())
    return {"step": trained.outcome.progress.step, "said": said}


def do_refuse(settings, out):
    try:
        train(recipe_from(settings), Path(out), test_sets=())
    except RegardError as error:
        return str(error)
    return None


def do_differ(settings, out):
    """The second process is told another rate."""
    lr = 1e-3 * (1 + Ranks.current().rank)
    return do_refuse({**settings, "train": {**settings["train"], "lr": lr}}, out)


def do_divide(n):
    """Squares of n numbers, and which of them this process computed."""
    mine = []

    def square(x):
        mine.append(x)
        return x * x

    with dividing():
        found = divided(range(n), square)
    return {"found": found, "mine": mine, "alone": divided(range(n), lambda x: -x)}


def do_writer_fails():
    def fail():
        raise RegardError("no room")

    try:
        Ranks.current().by_writer(fail)
    except RegardError as error:
        return str(error)
    return None


if __name__ == "__main__":
    import torch.distributed as dist

    jobs = json.loads(sys.argv[1])
    rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group(
        "gloo", init_method=f"file://{os.environ['MEET']}", rank=rank, world_size=n
    )
    found = [globals()[f"do_{name}"](**options) for name, options in jobs]
    dist.destroy_process_group()
    print(json.dumps(found))
