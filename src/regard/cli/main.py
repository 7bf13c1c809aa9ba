"""The program ``regard``: words → calls, and errors → one line and exit code 2.

Nothing heavy is imported before a command runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from regard import __version__
from regard.cli import (
    compare,
    demo,
    evaluate,
    explain,
    heads,
    info,
    lab,
    lists,
    score,
    serve,
    train,
    translate,
)
from regard.cli.stopping import Stop, stoppable
from regard.core.errors import RegardError

app = typer.Typer(
    name="regard",
    help="Attention and Transformers: trainable, fast, and open to look at.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("train")(train.train)
app.command("translate")(translate.translate)
app.command("evaluate")(evaluate.evaluate)
app.command("score")(score.score)
app.command("explain")(explain.explain)
app.command("heads")(heads.heads)
app.command("serve")(serve.serve)
app.command("compare")(compare.compare)
app.command("lab")(lab.lab)
app.command("info")(info.info)
app.command("models")(lists.models)
app.command("recipes")(lists.recipes)

_UsageError: type[Exception] = next(
    base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException"
)
"""What typer raises for a wrong flag; it exports no name for it that all its versions have."""


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    pass


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    # Torch's threads wait for each other by spinning. Where another program takes a core, that
    # makes training fifty times slower; a short spin costs five per cent and avoids it.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        with stoppable():
            code = app(words or ["--help"], standalone_mode=False)
    except RegardError as error:
        return _failed(str(error))
    except _UsageError as error:
        return _failed(_usage(error))
    except Stop as stop:
        print(f"regard: stopped by {stop.signal.name}", file=sys.stderr)
        return 128 + stop.signal
    except BrokenPipeError:  # the reader went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code if isinstance(code, int) else 0


def _usage(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    asked = f" (see {context.command_path} --help)" if context is not None else ""
    return f"{error.format_message()}{asked}"  # type: ignore[attr-defined]


def _failed(message: str) -> int:
    one_line = " ".join(message.split("\n"))
    print(f"regard: {one_line}", file=sys.stderr)
    return 2
