"""Files of lines answered by many processes: ``regard translate RUN --in FILES --out DIR``.

Processes claim parts of the files (``regard.runs.parts``) and write their answers whole or not at
all; when all are there they are joined, one file of answers a file of lines. Whatever is killed,
the same command goes on with the parts that are left, and ends with the same bytes: a part is
decoded alone, by so many threads, with a seed of its own. The same command on another machine that
sees the same disk takes its share.

    DIR/manifest.json   what is answered by which run and how; all else is refused
    DIR/parts/          answers, claims and notes of parts, until all are joined
    DIR/NAME            the answers to NAME (NAME.jsonl with ``--json``)
    DIR/notes.txt       what is to be told of the lines, where there is something
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from regard import __version__
from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import CheckpointError, ConfigError, DataError, WorkerError
from regard.core.files import read_json, telling, whole_file, write_whole
from regard.core.lock import claimed
from regard.core.numbers import counted
from regard.runs.answering import PAUSE, Answering, answer_all
from regard.runs.cluster import RayCluster
from regard.runs.jobs import Job, LostError, Processes, Say, n_cores, run_jobs
from regard.runs.parts import LineFile, Part, file_digest, looked_through, matching
from regard.tasks.base import TASKS
from regard.tasks.recipe import recipe_in

MANIFEST, PARTS, NOTES = "manifest.json", "parts", "notes.txt"
PART_LINES = 1000
"""Lines of a part."""
NEWS = 10.0
"""Seconds between two lines of progress, at least."""
SEEDS = 2**31


@dataclass(frozen=True, slots=True)
class Bulk:
    """Files to answer, and the folder of their answers."""

    how: Answering
    files: tuple[LineFile, ...]
    part_lines: int
    out: Path
    """Absolute."""

    def answers_to(self, file: LineFile) -> Path:
        """Where the answers to a file go."""
        return self.out / f"{file.path.name}{'.jsonl' if self.how.as_json else ''}"

    def parts(self) -> Iterator[Part]:
        """All parts, in the order of the input."""
        n = 0
        for k in range(len(self.files)):
            for part in self.parts_of(k):
                yield replace(part, n=n)
                n += 1

    def parts_of(self, k: int) -> Iterator[Part]:
        """Those of one file, numbered from 0."""
        file = self.files[k]
        whole = self.answers_to(file)
        for n, start in enumerate(file.starts):
            before = n * self.part_lines
            size = min(self.part_lines, file.n_lines - before)
            answers = self.out / PARTS / f"{k:04d}-{n:07d}.answers"
            yield Part(file.path, start, before, size, n, answers, whole)

    def complete(self) -> bool:
        """Whether the answers to all files are there."""
        return all(self.answers_to(one).exists() for one in self.files)


# ------------------------------------------------------------------ what is to be done


def planned(
    how: Answering, options: Any, *, patterns: Sequence[str], out: Path, part_lines: int
) -> Bulk:
    """Look through the files, and take the folder; another command's is refused.

    Where no seed is told, one is drawn, and kept for whoever goes on.
    """
    if getattr(options, "stream", False):
        raise ConfigError("--stream prints texts as they come, and --in writes files: give one")
    files = tuple(looked_through(path, part_lines) for path in matching(patterns))
    names = [MANIFEST, PARTS, NOTES]
    for name in (file.path.name for file in files):
        if name in names:
            raise ConfigError(f"--in: two files in {out} would be called {name}; rename one")
        names.append(name)
    bulk = Bulk(how, files, part_lines, out.absolute())
    old = _begun(out)
    told = getattr(options, "seed", None)
    drawn = random.SystemRandom().randrange(SEEDS)
    seed = int(old.get("seed", drawn) if told is None else told)
    settings = {**_settings(bulk, options), "seed": seed}
    if changes := list(_changes(old, settings) if old else ()):
        raise CheckpointError(
            f"{out} was begun with another command: {'; '.join(changes)}; choose another --out"
        )
    if not old:
        write_whole(out / MANIFEST, json.dumps(settings, indent=2, ensure_ascii=False) + "\n")
    return replace(bulk, how=replace(how, seed=seed))


def _begun(out: Path) -> dict[str, Any]:
    """The settings in a folder; none where it is empty, or not there."""
    if out.exists() and not out.is_dir():
        raise CheckpointError(f"--out {out} is a file; name a folder")
    if (out / MANIFEST).exists():
        return dict(read_json(out / MANIFEST))
    with telling(out):
        strange = sorted(one.name for one in out.iterdir()) if out.exists() else []
    if strange:
        raise CheckpointError(
            f"--out {out} holds something else, such as {strange[0]}; name a new folder"
        )
    return {}


def _settings(bulk: Bulk, options: Any) -> dict[str, Any]:
    """All that decides the answers."""
    how = bulk.how
    named = {} if options is None else dict(options)
    files = {str(path): file_digest(path) for path in named.values() if isinstance(path, Path)}
    return {
        "regard": __version__,
        "verb": how.verb,
        "runs": [run_digest(run) for run in how.runs],
        "options": {k: v for k, v in json.loads(how.options).items() if k != "seed"},
        "files": files,
        "json": how.as_json,
        "device": how.device.partition(":")[0],
        "threads": how.threads,
        "part_lines": bulk.part_lines,
        "inputs": {
            file.path.name: {"sha256": file.digest, "lines": file.n_lines} for file in bulk.files
        },
        "order": [file.path.name for file in bulk.files],  # parts are named by it
    }


def run_digest(path: Path) -> str:
    """SHA-256 over the digests of all files of a run that decide what it answers."""
    folder = RunFolder(path)
    beside = TASKS[recipe_in(folder).task].files
    wanted = (folder.settings, folder.model_config, folder.weights, *(path / x for x in beside))
    digests = [f"{one.name} {file_digest(one)}" for one in wanted if one.exists()]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """What is not as it was, in words."""
    for key, value in new.items():
        was = old.get(key)
        if was == value:
            continue
        if key == "runs":
            yield "it was another run, or its weights have changed"
        elif isinstance(value, dict) and isinstance(was, dict):
            names = [name for name in {**was, **value} if was.get(name) != value.get(name)]
            yield f"{key}: {', '.join(names)} {'is' if len(names) == 1 else 'are'} not the same"
        else:
            yield f"{key} was {was!r} and is now {value!r}"


# ------------------------------------------------------------------ doing it


def answer_files(
    bulk: Bulk, *, workers: int | None = None, cluster: str | None = None, say: Say
) -> None:
    """Answer all lines, by processes of this machine or jobs of a cluster; goes on where it was.

    Without ``workers`` there are as many as there is room for. An error of one ends all. One that
    is killed is told of, and others take its part over.
    """
    left = [part for part in bulk.parts() if not part.done()]
    if bulk.complete():
        say(f"all is answered in {bulk.out} already")
        shutil.rmtree(bulk.out / PARTS, ignore_errors=True)
        return
    if left:
        with telling(bulk.out):
            (bulk.out / PARTS).mkdir(exist_ok=True)
        n_parts = sum(len(file.starts) for file in bulk.files)
        progress = _Progress(n_parts, n_parts - len(left), say)
        if cluster is None:
            n = min(len(left), workers or n_workers(bulk.how))
            _by_processes(bulk, left, n, progress)
        else:
            _on_cluster(bulk, left, cluster, workers, progress)
    _join(bulk, say)


def n_workers(how: Answering) -> int:
    """Processes that this machine has room for: one a GPU, or a share of the cores each."""
    if how.device == "cuda":
        return torch.cuda.device_count()
    return max(1, n_cores() // how.threads) if how.device == "cpu" else 1


class _Progress:
    """Counts parts, and tells of them now and then."""

    def __init__(self, n: int, n_done: int, say: Say) -> None:
        self._n, self._done, self._say = n, n_done, say
        self._next = time.monotonic() + NEWS
        if n_done:
            say(f"{n_done:,} of {counted(n, 'part')} are there already")

    def one_more(self, _text: str = "") -> None:
        self._done += 1
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + NEWS
            self._say(f"{self._done:,} of {counted(self._n, 'part')} done")

    def say(self, text: str) -> None:
        self._say(text)


def _by_processes(bulk: Bulk, left: list[Part], workers: int, progress: _Progress) -> None:
    place = Processes(workers, bulk.how.threads, progress.one_more)
    do = partial(answer_all, bulk.how, left)
    jobs = [Job(f"worker {n + 1}", do) for n in range(workers)]
    n_lost, last = 0, ""
    for ended in run_jobs(jobs, place):
        if isinstance(ended.error, LostError):
            n_lost, last = n_lost + 1, str(ended.error)
            if n_lost < workers:
                progress.say(f"{last}; the others take over")
        elif ended.error is not None:
            raise ended.error
    if any(not part.done() for part in left):
        raise WorkerError(f"no worker is left ({last}); the same command goes on where they were")


def _on_cluster(
    bulk: Bulk, left: list[Part], address: str, workers: int | None, progress: _Progress
) -> None:
    """A task a part: the cluster starts again what dies."""
    how = bulk.how
    gpu = how.device.startswith("cuda")
    place = RayCluster(address, threads=how.threads, at_once=workers, gpu=gpu)
    jobs = (Job(part.lines, partial(answer_all, how, [part])) for part in left)
    for ended in run_jobs(jobs, place):
        if ended.error is not None:
            raise ended.error
        progress.one_more()


def _join(bulk: Bulk, say: Say) -> None:
    """Put the parts of each file together, then delete them."""
    folder = bulk.out / PARTS
    while not bulk.complete():
        with telling(bulk.out):
            folder.mkdir(exist_ok=True)
        with claimed(folder / "joined.claim") as ours:
            if ours:
                _write_files(bulk)
                continue
        time.sleep(PAUSE)  # the same command on another machine does it
    shutil.rmtree(folder, ignore_errors=True)
    n_lines = sum(file.n_lines for file in bulk.files)
    say(f"{counted(n_lines, 'line')} of {counted(len(bulk.files), 'file')} answered in {bulk.out}")
    if (bulk.out / NOTES).exists():
        say(f"what is to be told of them is in {bulk.out / NOTES}")


def _write_files(bulk: Bulk) -> None:
    """Notes first: when all files of answers are there nobody comes back."""
    for file in bulk.files:
        if file.changed():
            raise DataError(f"{file.path} was changed while it was answered; begin a new --out")
    if not any(bulk.answers_to(file).exists() for file in bulk.files):
        _write_together(bulk.out / NOTES, (one.notes for one in bulk.parts()), only_if_any=True)
    for k, file in enumerate(bulk.files):
        if not bulk.answers_to(file).exists():
            _write_together(bulk.answers_to(file), (one.answers for one in bulk.parts_of(k)))


def _write_together(path: Path, pieces: Iterable[Path], *, only_if_any: bool = False) -> None:
    """One file of many; with ``only_if_any``, of those that are there."""
    if only_if_any:
        pieces = [one for one in pieces if one.exists()]
        if not pieces:
            return
    with whole_file(path) as joined:
        for piece in pieces:
            with piece.open("rb") as file:
                shutil.copyfileobj(file, joined)
