"""``regard VERB RUN --in FILES --out DIR``: what every verb that takes lines is told of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.terminal import Cluster, note
from regard.core.errors import ConfigError
from regard.core.signals import Stop
from regard.tasks.verb import Verb

FILE_OPTIONS: Mapping[str, Any] = {
    "patterns": Annotated[
        list[str] | None,
        typer.Option(
            "--in",
            metavar="FILE_OR_GLOB",
            help="Answer the lines of files, by several processes; may be given again. When "
            "anything was killed, the same command goes on.",
        ),
    ],
    "out": Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="With --in: folder for a file of answers each."),
    ],
    "workers": Annotated[
        int | None,
        typer.Option(help="With --in: processes. By default one a core, or one a GPU."),
    ],
    "threads": Annotated[
        int | None,
        typer.Option(help="With --in: threads of each process.", show_default="1"),
    ],
    "part_lines": Annotated[
        int | None,
        typer.Option(
            "--part-lines",
            help="With --in: lines that a process claims and answers at once.",
            show_default="1000",
        ),
    ],
    "cluster": Cluster,
}
"""Typer's types of them, by name."""


@dataclass(frozen=True, slots=True)
class Files:
    """What a command was told of files; None: nothing."""

    patterns: Sequence[str] | None = None
    out: Path | None = None
    workers: int | None = None
    threads: int | None = None
    part_lines: int | None = None
    cluster: str | None = None

    def asked(self, verb: Verb) -> bool:
        """Whether files are to be answered; what makes sense with them alone is refused."""
        if self.patterns:
            if self.out is None:
                raise ConfigError("--in needs a folder for the answers: give --out DIR")
            return True
        own = {} if verb.options is None else verb.options.model_fields
        for field in fields(self):
            if field.name not in own and getattr(self, field.name) not in (None, []):
                option = field.name.replace("_", "-")
                raise ConfigError(f"--{option} is for the lines of files: give --in FILE_OR_GLOB")
        return False


def answer_files(
    verb: Verb,
    runs: Sequence[Path],
    options: Any,
    device: str | None,
    as_json: bool,
    told: Files,
) -> None:
    """Answer the lines of files."""
    from regard.runs import bulk
    from regard.runs.answering import Answering
    from regard.runs.jobs import check_count
    from regard.tasks.opening import pick_device, task_of

    assert told.patterns
    assert told.out is not None
    threads = 1 if told.threads is None else told.threads
    part_lines = bulk.PART_LINES if told.part_lines is None else told.part_lines
    check_count("--workers", 1 if told.workers is None else told.workers)
    check_count("--threads", threads)
    check_count("--part-lines", part_lines)
    for run in runs:
        task_of(run, verb)
    # A cluster's machines may have what this one lacks: there it is told, or the CPU.
    elsewhere = told.cluster not in (None, "local")
    how = Answering(
        verb=verb.name,
        runs=tuple(run.absolute() for run in runs),
        options="{}" if options is None else options.model_dump_json(),
        as_json=as_json,
        device=device or "cpu" if elsewhere else str(pick_device(device)),
        threads=threads,
        seed=0,
        folder=Path.cwd(),
    )
    asked = bulk.planned(how, options, patterns=told.patterns, out=told.out, part_lines=part_lines)
    try:
        bulk.answer_files(asked, workers=told.workers, cluster=told.cluster, say=note)
    except Stop as stop:
        note(f"stopped by {stop.signal.name}; the same command goes on from there")
        raise typer.Exit(128 + stop.signal) from None
