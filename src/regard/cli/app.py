"""The commands of the program. Nothing heavy is imported before one of them runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer
import typer.main

from regard import __version__
from regard.cli import (
    bench,
    catalogue,
    compare,
    demo,
    draw,
    evaluate,
    explain,
    lab,
    practice,
    prepare,
    serve,
    sweep,
    table,
    train,
)
from regard.cli.completion import asked_verb
from regard.cli.examples import epilog
from regard.cli.run_paths import runs_here
from regard.cli.verbs import add_verbs
from regard.core.errors import ConfigError
from regard.core.plugins import load_plugins

PLUGIN = "--plugin"

_UsageError: type[Exception] = next(
    base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException"
)
"""What typer raises for a wrong flag; it exports no name for it that all its versions have."""


def make_app(asked: str | None) -> typer.Typer:
    """The program, whose command ``asked`` will run."""
    app = typer.Typer(
        name="regard",
        help="Attention and Transformers: trainable, fast, and open to look at.",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    app.command("demo")(demo.demo)
    app.command("prepare")(prepare.prepare)
    app.command("train")(train.train)
    app.command("average")(train.average)
    add_verbs(app, asked)
    app.command("evaluate")(evaluate.evaluate)
    app.command("score")(evaluate.score)
    app.command("explain")(explain.explain)
    app.command("heads")(explain.heads)
    app.command("serve")(serve.serve)
    app.command("compare")(compare.compare)
    app.command("sweep")(sweep.sweep)
    app.command("table")(table.table)
    app.command("lab")(lab.lab)
    app.command("practice")(practice.practice)
    app.add_typer(bench.app, name="bench")
    app.command("export")(catalogue.export)
    app.command("import")(catalogue.import_)
    app.command("info")(catalogue.info)
    app.command("draw")(draw.draw)
    app.command("card")(catalogue.card)
    app.command("models")(catalogue.models)
    app.command("recipes")(catalogue.recipes)
    for one in app.registered_commands:
        one.epilog = epilog(one.name or "")
    for one in bench.app.registered_commands:
        one.epilog = epilog(f"bench {one.name}")
    return app


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


def _options(
    version: bool = typer.Option(
        False, "--version", "-V", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    pass


def run(words: Sequence[str]) -> int:
    """Do what the words say; -> the exit code. A wrong word is a ConfigError."""
    plugins, others = without_plugins(words)
    load_plugins(plugins)  # before the commands are known, for they may bring some
    asked = asked_verb() or next((word for word in others if not word.startswith("-")), None)
    try:
        program = typer.main.get_command(make_app(asked))
        _finish(program, _plugin_option())
        code = program(others or ["--help"], standalone_mode=False)
    except _UsageError as error:
        context = getattr(error, "ctx", None)
        see = f" (see {context.command_path} --help)" if context is not None else ""
        lacks_run = str(getattr(getattr(error, "param", None), "metavar", "")).startswith("RUN")
        runs = runs_here() if lacks_run else ""
        raise ConfigError(f"{error.format_message()}{see}{runs}") from None  # type: ignore[attr-defined]
    return code if isinstance(code, int) else 0


def without_plugins(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The plug-ins that are named anywhere before ``--``, and all other words.

    >>> without_plugins(["heads", "--plugin", "mine.py", "run", "--plugin=more", "--", "--plugin"])
    (['mine.py', 'more'], ['heads', 'run', '--', '--plugin'])
    """
    plugins: list[str] = []
    others: list[str] = []
    left: Iterator[str] = iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        if word == "--":
            others += [word, *left]
        elif name == PLUGIN:
            given = value if equals else next(left, "")
            if not given:
                raise ConfigError(f"{PLUGIN} needs a file or a module")
            plugins.append(given)
        else:
            others.append(word)
    return plugins, others


def _plugin_option() -> Any:
    """The option as typer's own versions make it: taken from a command that has it alone."""
    only = typer.Typer(add_completion=False)

    @only.command()
    def command(
        plugin: Annotated[
            list[str] | None,
            typer.Option(
                PLUGIN,
                metavar="FILE_OR_MODULE",
                help="Bring entries of your own; may be given again.",
            ),
        ] = None,
    ) -> None:
        pass

    option = typer.main.get_command(only).params[0]
    option.expose_value = False
    return option


def _finish(command: Any, option: Any) -> None:
    """Put an option that was read before into the help of a command and of those inside it.

    Flags take no value there, whatever typer's version says of them.
    """
    command.params.append(option)
    listed = command.get_params

    def params(context: Any) -> list[Any]:
        found: list[Any] = listed(context)
        for one in found:
            if getattr(one, "is_flag", False) and one.metavar is None:
                one.metavar = ""
        return found

    command.get_params = params
    for one in getattr(command, "commands", {}).values():
        _finish(one, option)
