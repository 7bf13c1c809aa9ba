"""What commands share: their options, lines as they arrive, notes, and where an answer goes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import StrEnum
from io import BufferedReader
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar, cast

import typer

from regard.cli.completion import recipe_names
from regard.core.errors import ConfigError, DataError
from regard.core.files import write_whole

if TYPE_CHECKING:
    from rich.console import Console

    from regard.visual.tables import Table

# ------------------------------------------------------------------ options


def check_recipe(name: str | None) -> str | None:
    """Refuse a file that is not there at once, before torch is imported."""
    from regard.recipes.recipe_files import check_there

    return None if name is None else check_there(name)


def check_recipes(names: list[str]) -> list[str]:
    """The same of several."""
    from regard.recipes.recipe_files import check_there

    return [*map(check_there, names)]


RecipeName = typer.Argument(
    help="A YAML file, or the name of a built-in recipe.",
    callback=check_recipe,
    autocompletion=recipe_names,
)
Device = Annotated[
    str | None,
    typer.Option(help="Where to compute: cpu, cuda, … By default a GPU if there is one."),
]
Beam = Annotated[int | None, typer.Option(min=1, help="Hypotheses kept open; 1 is greedy.")]
TrustData = Annotated[
    bool,
    typer.Option(
        "--trust-data",
        help="Read the data that a run names which was not trained here; from now on.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Jobs = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Trainings side by side, in processes that share the cores, or GPUs."
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Work on a Ray cluster, HOST:PORT; local starts one here. All its machines must see "
        "the same disk.",
    ),
]


def run_folders(words: Iterable[str | Path]) -> list[Path]:
    """The run folders that stand first among some words; several are an ensemble."""
    from regard.checkpoints.run_folder import RunFolder

    def is_run(path: Path) -> bool:
        try:
            return RunFolder(path).exists()
        except OSError:  # a text that is too long for a name
            return False

    return [*takewhile(is_run, map(Path, words))]


# ------------------------------------------------------------------ --format and --out

F = TypeVar("F", bound=StrEnum)
_FORMATS = (".html", ".svg", ".png", ".pdf", ".json", ".csv", ".tex")  # they promise what is inside


def chosen_format(kind: type[F], asked: F | None, out: Path | None) -> F:
    """The format asked for, or that the file's name ends in, or ``text``; bad names are refused."""
    if out is None:
        return asked or kind("text")
    if not out.name or out.is_dir():
        raise ConfigError(f"--out is the name of a file to write, not a folder such as {out}")
    endings = {f".{one}": one for one in kind} | dict.fromkeys(("", ".txt"), kind("text"))
    ending = out.suffix.lower()
    named = endings.get(ending)
    special = out.exists() and not out.is_file()  # a pipe or a device: its name promises nothing
    if asked is None and named is None and not special:
        known = ", ".join(f".{one}" for one in kind)
        raise ConfigError(f"--out {out}: no format is called {ending}; take {known}")
    if asked is not None and f".{asked}" != ending and ending in _FORMATS:
        raise ConfigError(f"--format {asked} and --out {out} are two formats: give one")
    return asked or named or kind("text")


def write(text: str | bytes, out: Path | None) -> None:
    """To a file, whole or not at all; else to standard output."""
    if out is None and isinstance(text, bytes):
        sys.stdout.buffer.write(text)
    elif out is None:
        print(text, end="")
    else:
        write_whole(out, text)


# ------------------------------------------------------------------ notes


def note(text: str) -> None:
    """Print a line on standard error."""
    print(f"regard: {text}", file=sys.stderr)


def note_written(out: Path | None) -> None:
    """Name the file that was written, if one was."""
    if out is not None:
        note(f"wrote {out}")


# ------------------------------------------------------------------ texts and files


def refuse_pictures(texts: Iterable[str]) -> None:
    """Refuse files of pictures where a run reads texts: their names would be taken for texts."""
    from regard.data.picture_files import is_picture

    for text in filter(is_picture, texts):
        with suppress(OSError):  # too long for a name
            if Path(text).is_file():
                raise DataError(f"{text} is a picture's file, and this run reads texts")


def refuse_files(texts: Iterable[str], remedy: str) -> None:
    """Refuse names of files where texts are read; ``{0}`` in the remedy stands for the name.

    A word is a text, whatever lies in the folder: a name is known by its suffix or its slash.
    """
    for text in texts:
        with suppress(OSError):  # too long for a name
            path = Path(text)
            if path.is_file() and (path.suffix or len(path.parts) > 1):
                raise DataError(f"{text} is a file; {remedy.format(text)}")


# ------------------------------------------------------------------ lines as they arrive

_ONCE = 1 << 20  # bytes that are asked for at once; a pipe or a keyboard gives what it has


def arriving_lines(size: int) -> Iterator[list[str]]:
    """Lines of standard input, at most ``size`` at once, so that memory stays bounded.

    A list ends where the next line would have to be waited for, so that whoever writes a line and
    waits for the answer gets it. Only a newline ends a line. A byte-order mark is not text.
    """
    begun: list[bytes] = []  # pieces of a line whose end has not arrived
    n_lines = 0
    while True:
        block = cast("BufferedReader", sys.stdin.buffer).read1(_ONCE)
        if not block and not begun:
            return
        first, *others = (block or b"\n").split(b"\n")  # the last line may lack its end
        begun.append(first)
        if not others:
            continue
        *whole, rest = [b"".join(begun), *others]
        begun = [rest] if rest else []
        for start in range(0, len(whole), size):
            some = whole[start : start + size]
            yield [_decoded(line, n_lines + i) for i, line in enumerate(some, start=1)]
            n_lines += len(some)


def _decoded(line: bytes, number: int) -> str:
    try:
        text = line.decode("utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        where = f"standard input, line {number}"
        raise DataError(f"{where}: not UTF-8 ({error.reason})") from None
    return text.removeprefix("\ufeff") if number == 1 else text


# ------------------------------------------------------------------ tables


def table_console() -> Console:
    """As wide as the terminal; in a file, lines may be long."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else 1000
    return Console(markup=False, highlight=False, soft_wrap=True, width=width)


def show_tables(tables: Iterable[Table]) -> None:
    """Print tables, each below its caption."""
    from regard.visual.tables import show_table

    console = table_console()
    for table in tables:
        print(f"\n{table.caption}")
        show_table(table, console, ruled=True)
