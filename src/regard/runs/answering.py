"""A run that is asked by a verb: how it is opened, and what it answers to the lines of a part."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from regard.core.errors import ConfigError, DataError, WorkerError
from regard.core.files import whole_file, write_whole
from regard.core.lock import claimed
from regard.recipes.recipe import recipe_for
from regard.runs.jobs import Post
from regard.runs.parts import Part
from regard.tasks.base import TASKS, verbs
from regard.tasks.opening import OtherTaskError, device_at, load
from regard.tasks.verb import Answer, Chunks, Verb

PAUSE = 0.2
"""Seconds between two looks at parts that somebody else answers."""


def opened(verb: Verb, paths: Sequence[Path], options: Any, device: str | None) -> tuple[Any, Verb]:
    """A run, or an ensemble of several, and the verb as its task has it."""
    try:
        run = load(paths, device=device, verb=verb)
    except OtherTaskError as error:
        name = recipe_for(verb)
        remedy = "" if name is None else f"; `regard train {name}` trains one that can"
        raise ConfigError(f"{error}{remedy}") from None
    if hasattr(options, "engine"):  # of another project
        from regard.interop.ctranslate2_engine import engine_for

        run = replace(
            run, engine=engine_for(run, options.engine, compute_type=options.compute_type)
        )
    return run, next(one for one in TASKS[run.task].verbs if one.name == verb.name)


def printed(verb: Verb, request: Any, answer: Answer, options: Any, *, as_json: bool) -> str:
    """An answer as a line, or several; as JSON always one."""
    if as_json:
        return json.dumps(verb.as_record(request, answer, options), ensure_ascii=False)
    return verb.as_line(request, answer, options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """How lines are answered: all that a process must know besides the lines."""

    verb: str
    runs: tuple[Path, ...]
    """Absolute; several are an ensemble."""
    options: str
    """Of the verb, as JSON."""
    as_json: bool
    device: str
    """``cuda`` is any GPU."""
    threads: int
    """Of each process: sums come out a little different with another number."""
    seed: int
    """Of what is sampled; each part has its own, made from it."""
    folder: Path
    """In which files are looked for that lines or options name."""


@dataclass(frozen=True, slots=True)
class Answerer:
    """A run that answers parts."""

    how: Answering
    run: Any
    verb: Verb
    options: Any

    def answer(self, part: Part) -> None:
        """Write the answers to a part: all of them, or none."""
        options, notes = self.options, list[str]()
        if hasattr(options, "seed"):
            options = options.model_copy(update={"seed": part_seed(self.how.seed, part.n)})
        with whole_file(part.answers) as file:
            try:
                lines = self._together(part, options, notes)
            except DataError:  # a line that the run cannot read must not keep the others back
                notes.clear()
                lines = self._one_by_one(part, options, notes)
            file.write("".join(f"{line}\n" for line in lines).encode())
            if notes:  # before the answers are there, for then nobody comes back
                write_whole(part.notes, "".join(f"{one}\n" for one in notes))

    def _together(self, part: Part, options: Any, notes: list[str]) -> list[str]:
        """What is written for the lines of a part."""
        told: list[str] = []
        chunks = Chunks(part.read, f"{part.path}, line", before=part.before)
        found = self._printed(chunks, options, told)
        notes += [f"{part.lines}: {one}" for one in told]
        return found

    def _one_by_one(self, part: Part, options: Any, notes: list[str]) -> list[str]:
        """The same; a line that cannot be answered has an empty one, and a note that says why."""
        found: list[str] = []
        lines = (line for some in part.read(self.verb.chunk) for line in some)
        for number, line in enumerate(lines, start=part.before + 1):
            name, told = f"{part.path}, line", list[str]()
            chunks = Chunks(partial(_alone, line), name, before=number - 1)
            try:
                found += self._printed(chunks, options, told)
            except DataError as error:
                found.append(json.dumps({"error": str(error)}) if self.how.as_json else "")
                told = [str(error).removeprefix(f"{name} {number}: ")]
            notes += [f"{name} {number}: {one}" for one in told]
        return found

    def _printed(self, chunks: Chunks, options: Any, notes: list[str]) -> list[str]:
        answered = self.verb.lines(self.run, chunks, options, note=notes.append)
        return [
            printed(self.verb, request, answer, options, as_json=self.how.as_json)
            for some in answered
            for request, answer in some
        ]


def _alone(line: str, _size: int) -> Iterator[list[str]]:
    return iter([[line]])


def part_seed(seed: int, n: int) -> int:
    """The seed of a part: another for each, and the same whoever answers it."""
    drawn = hashlib.sha256(f"{seed} {n}".encode()).digest()
    return int.from_bytes(drawn[:6], "big")


@lru_cache(maxsize=1)
def answerer(how: Answering, device: str | None) -> Answerer:
    """The run, opened once a process."""
    for path in (how.folder, *how.runs):
        if not path.is_dir():
            raise WorkerError(
                f"there is no {path} on {os.uname().nodename}: all machines must see the same disk"
            )
    os.chdir(how.folder)
    verb = verbs()[how.verb]
    kind = verb.options
    options = None if kind is None else kind.model_validate_json(how.options)
    return Answerer(how, *opened(verb, how.runs, options, device), options)


def answer_all(how: Answering, parts: Sequence[Part], post: Post) -> None:
    """A job: answer what nobody else does, until all is answered; says ``.`` after each part.

    A part that others have claimed is left to them and looked at again: they may be killed.
    """
    mine = answerer(how, device_at(how.device, post.slot))
    left = list(parts)
    while left := [part for part in left if not _settled(mine, part, post)]:
        time.sleep(PAUSE)


def _settled(mine: Answerer, part: Part, post: Post) -> bool:
    """Whether a part is answered now."""
    if part.done():
        return True
    with claimed(part.claim) as ours:
        # Between the look and the claim somebody may have answered it, or joined all.
        if ours and not part.done():
            mine.answer(part)
            post.say(".")
    return part.done()
