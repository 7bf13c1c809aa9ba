"""Trainings of many systems side by side, as jobs: a search of the rate first, then every seed.

What jobs leave are run folders. Whoever asked reads them back as if they had been trained one after
the other, so its numbers are the same; only what a search came to is handed over, since a rate that
was too high leaves no finished run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from regard.checkpoints.run_folder import RunFolder
from regard.runs.cluster import RayCluster
from regard.runs.jobs import Job, Place, Post, Processes, Say, check_count, run_jobs
from regard.runs.rates import RateSearch
from regard.runs.trainings import SystemTrainings, Until
from regard.tasks.opening import device_at

Rate = Callable[[float], float]
"""The rate that a system is trained with, given the one that a search chose."""


@dataclass(frozen=True, slots=True)
class Crew:
    """How many trainings run side by side, and where."""

    jobs: int | None = None
    """None: on a cluster one a machine, here one after the other."""
    cluster: str | None = None

    def __post_init__(self) -> None:
        if self.jobs is not None:
            check_count("--jobs", self.jobs)

    def __bool__(self) -> bool:
        return self.jobs is not None or self.cluster is not None

    def place(self, device: str | None, say: Say) -> Place:
        """Where they run: processes here, or a cluster."""
        if self.cluster is None:
            return Processes(self.jobs or 1, say=say)
        gpu = device is not None and device.startswith("cuda")
        return RayCluster(self.cluster, at_once=self.jobs, gpu=gpu)


ALONE = Crew()
"""Nobody: trainings are done one after the other, by who asks for them."""


def as_chosen(rate: float) -> float:
    """The rate of the search itself."""
    return rate


@dataclass(frozen=True)
class Line:
    """A system whose trainings are to be done, and the one whose runs they start from."""

    system: SystemTrainings
    endings: tuple[Until, ...] = ("budget",)
    follows: Line | None = None
    rate: Rate = as_chosen

    @property
    def search(self) -> str:
        """The job that chooses its rate."""
        first = self if self.follows is None else self.follows
        return f"{first.system.name}, learning rate"

    def training(self, seed: int, until: Until) -> str:
        """The job that trains a seed."""
        return f"{self.system.name}, {self.system.run_path(seed, until).name}"

    def left(self) -> list[tuple[int, Until]]:
        """Trainings that have not come to their end."""
        return [
            (seed, until)
            for until in self.endings
            for seed in self.system.seeds
            if not RunFolder(self.system.run_path(seed, until)).finished()
        ]


@dataclass
class SideBySide:
    """What came of trainings that ran side by side."""

    searches: dict[str, RateSearch] = field(default_factory=dict)
    """By the name of the job."""
    errors: dict[str, Exception] = field(default_factory=dict)
    """Of jobs that failed."""

    def check(self, line: Line, until: Until = "budget") -> None:
        """Raise what kept a system from being trained: the first of all that did."""
        jobs = (line.search, *(line.training(seed, until) for seed in line.system.seeds))
        for name in jobs:
            if name in self.errors:
                raise self.errors[name]


def train_side_by_side(
    lines: Sequence[Line],
    crew: Crew,
    *,
    device: str | None,
    say: Say,
    scorings: Mapping[Until, Sequence[Job]] | None = None,
    reached: Callable[[Until, SideBySide], None] = lambda _until, _came: None,
) -> SideBySide:
    """Do all trainings that are left, where there is a crew for it.

    A system that fails leaves the others alone. A signal raises ``Stop``, once all have saved what
    they can. Trainings with a budget come before those that go on to convergence; behind those of a
    kind come its ``scorings``. ``reached`` is told when the last of a kind has ended, while others
    may still run.
    """
    came, after = SideBySide(), scorings or {}
    jobs = _jobs(lines, after) if crew else []
    if not jobs:
        return came
    kinds = {line.training(seed, until): until for line in lines for seed, until in line.left()}
    kinds |= {job.name: until for until, some in after.items() for job in some}
    searches = {line.search for line in lines}
    kinds |= {job.name: "budget" for job in jobs if job.name in searches}  # needed to read it back
    for n_ended, ended in enumerate(run_jobs(jobs, crew.place(device, say)), start=1):
        how = "done" if ended.error is None else f"failed: {ended.error}"
        say(f"{ended.name}: {how} ({n_ended} of {len(jobs)})")
        if ended.error is not None:
            came.errors[ended.name] = ended.error
        elif isinstance(ended.value, RateSearch):
            came.searches[ended.name] = ended.value
        until = kinds.pop(ended.name, None)
        if until is not None and until not in kinds.values():
            reached(until, came)
    return came


def _jobs(lines: Sequence[Line], scorings: Mapping[Until, Sequence[Job]]) -> list[Job]:
    """Jobs in an order in which they can be done one by one: searches, then by kind."""
    left = {id(line): line.left() for line in lines}
    searching = {line.search for line in lines if left[id(line)]}
    searches: list[Job] = []
    trainings: dict[Until, list[Job]] = {"budget": [], "converged": []}
    for line in lines:
        if line.follows is None and line.search in searching:
            searches.append(Job(line.search, partial(_search, line.system)))
        for seed, until in left[id(line)]:
            do = partial(_train, line.system, seed, until, line.search, line.rate)
            before = [line.search]
            if line.follows is not None:
                first = line.follows
                # The run of its seed to start from, and one to take the tokenizer from.
                needed = {(seed, until), (line.system.seeds[0], "budget")}
                before += [first.training(*one) for one in left[id(first)] if one in needed]
            trainings[until].append(Job(line.training(seed, until), do, tuple(before)))
    for until, some in scorings.items():
        trainings[until] += some
    return [*searches, *trainings["budget"], *trainings["converged"]]


def _here(system: SystemTrainings, post: Post) -> SystemTrainings:
    return replace(system, say=post.say, device=device_at(system.device, post.slot))


def _search(system: SystemTrainings, post: Post) -> RateSearch:
    """A job: try learning rates."""
    return _here(system, post).search


def _train(
    system: SystemTrainings, seed: int, until: Until, search: str, rate: Rate, post: Post
) -> None:
    """A job: train a seed with the rate that was found."""
    _here(system, post).trained(rate(post.found[search].lr), seed, until)
