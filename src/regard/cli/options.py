"""Options that several commands share; where an answer goes, and in which form."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from regard.core.errors import ConfigError
from regard.core.files import write_whole

RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Device = Annotated[
    str | None,
    typer.Option(help="Where to compute: cpu, cuda, … By default a GPU if there is one."),
]
Beam = Annotated[int | None, typer.Option(min=1, help="Hypotheses kept open; 1 is greedy.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

# How a language model writes: `generate` and `chat`.
Temperature = Annotated[
    float, typer.Option(help="Below 1 surer, above 1 bolder; 0 is the most probable each time.")
]
TopK = Annotated[int | None, typer.Option(help="Only so many most probable tokens.")]
TopP = Annotated[
    float | None, typer.Option(help="Only the most probable tokens that reach this share.")
]
Seed = Annotated[int | None, typer.Option(help="Decides what is drawn.")]
Stops = Annotated[
    list[str] | None, typer.Option("--stop", help="End before these words; may be given again.")
]


class Side(StrEnum):
    """Which end of a text may be cut off."""

    left = "left"


# ------------------------------------------------------------------ --format and --out

F = TypeVar("F", bound=StrEnum)
_FORMATS = (".html", ".svg", ".json", ".csv", ".tex")
"""Endings that promise what is inside."""


def chosen_format(kind: type[F], asked: F | None, out: Path | None) -> F:
    """The one that is asked for, or that the file's name ends in; ``text`` where nothing is said.

    A file that cannot be meant is refused here, before any work is done.
    """
    if out is None:
        return asked or kind("text")
    if not out.name or out.is_dir():
        raise ConfigError(f"--out is the name of a file to write, not a folder such as {out}")
    endings = {f".{one}": one for one in kind} | dict.fromkeys(("", ".txt"), kind("text"))
    ending = out.suffix.lower()
    named = endings.get(ending)
    if asked is None and named is None and not _is_special(out):
        known = ", ".join(f".{one}" for one in kind)
        raise ConfigError(f"--out {out}: no format is called {ending}; take {known}")
    if asked is not None and f".{asked}" != ending and ending in _FORMATS:
        raise ConfigError(f"--format {asked} and --out {out} are two formats: give one")
    return asked or named or kind("text")


def write(text: str, out: Path | None) -> None:
    """To a file, whole or not at all; else to standard output."""
    if out is None:
        print(text, end="")
    else:
        write_whole(out, text)


def _is_special(out: Path) -> bool:
    """A pipe or a device, whose name promises nothing."""
    return out.exists() and not out.is_file()
