"""The verbs of the program. Nothing heavy is imported before one of them runs."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from regard import __version__
from regard.cli import (
    answer,
    bench,
    catalogue,
    chat,
    classify,
    compare,
    embed,
    evaluate,
    explain,
    fill,
    generate,
    lab,
    serve,
    train,
    translate,
)
from regard.core.errors import ConfigError

app = typer.Typer(
    name="regard",
    help="Attention and Transformers: trainable, fast, and open to look at.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(train.demo)
app.command("train")(train.train)
app.command("translate")(translate.translate)
app.command("generate")(generate.generate)
app.command("chat")(chat.chat)
app.command("classify")(classify.classify)
app.command("answer")(answer.answer)
app.command("embed")(embed.embed)
app.command("fill")(fill.fill)
app.command("evaluate")(evaluate.evaluate)
app.command("score")(evaluate.score)
app.command("explain")(explain.explain)
app.command("heads")(explain.heads)
app.command("serve")(serve.serve)
app.command("compare")(compare.compare)
app.command("lab")(lab.lab)
app.add_typer(bench.app, name="bench")
app.command("export")(catalogue.export)
app.command("import")(catalogue.import_)
app.command("info")(catalogue.info)
app.command("models")(catalogue.models)
app.command("recipes")(catalogue.recipes)

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


def run(words: Sequence[str]) -> int:
    """Do what the words say; -> the exit code. A wrong word is a ConfigError."""
    try:
        code = app(list(words) or ["--help"], standalone_mode=False)
    except _UsageError as error:
        raise ConfigError(_usage(error)) from None
    return code if isinstance(code, int) else 0


def _usage(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    asked = f" (see {context.command_path} --help)" if context is not None else ""
    return f"{error.format_message()}{asked}"  # type: ignore[attr-defined]
