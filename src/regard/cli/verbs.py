"""The verbs of tasks as commands: lines of standard input in, a line out for each.

A command is made from its verb (``regard.tasks``): name, help and options are the verb's, so that
the verbs of a plug-in's tasks are commands like any other.
"""

from __future__ import annotations

import inspect
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import StrEnum
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer

from regard.cli.files import FILE_OPTIONS, Files, answer_files
from regard.cli.run_paths import RunPath, check_no_path
from regard.cli.terminal import (
    Device,
    Json,
    arriving_lines,
    note,
    refuse_files,
    refuse_pictures,
    run_folders,
)
from regard.core.errors import ConfigError, DataError
from regard.tasks.base import verbs
from regard.tasks.verb import Chunks, Verb

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

    from regard.tasks.chat import Conversation
    from regard.tasks.requests import ChatOptions

# What a command does with a run folder, inputs, its options, a device, whether to print JSON, and
# what it is told of files.
Body = Callable[[Path, list[str], Any, str | None, bool, Files], None]


_MANY = 100
"""Lines that are answered together and take a while."""
_APART = 10.0
"""Seconds between two notes on how far it is, at least."""


def add_verbs(app: typer.Typer, asked: str | None) -> None:
    """Add the commands. Only the one that is asked for gets its options.

    Options are found in pydantic's models, which take longer to import than ``--help`` may last.
    """
    for name, verb in verbs().items():
        if verb.command:
            told = "\n\n".join(part for part in (verb.summary, verb.help) if part)
            body = partial(answer_lines, verb)
            app.command(name, help=told)(
                _command(verb.options, body, _inputs(verb)) if name == asked else _unasked
            )
    chats: Callable[..., None] = _unasked
    if asked == "chat":
        from regard.tasks.requests import ChatOptions

        chats = _command(ChatOptions, chat)
    app.command("chat", help=chat.__doc__)(chats)


def _unasked() -> None:
    """Stands in the list of commands and is never called."""


def _inputs(verb: Verb) -> Any:
    """Typer's type of what a verb takes after RUN."""
    named = "FILE" if verb.reads_files else "TEXT"
    told = f"{verb.takes}; else the lines of standard input."
    return Annotated[list[str] | None, typer.Argument(metavar=named, help=told)]


def _command(model: type[BaseModel] | None, body: Body, taken: Any = None) -> Callable[..., None]:
    """A command with the fields of a model as options; ``taken`` is the type of its inputs."""

    fields = {} if model is None else model.model_fields
    of_files = {} if taken is None else FILE_OPTIONS

    def command(
        path: Path, device: str | None, as_json: bool, inputs: list[str] | None = None, **given: Any
    ) -> None:
        plain = {name: value for name, value in given.items() if value is not None}
        files = Files(**{name: plain.get(name) for name in of_files})
        told = {name: value for name, value in plain.items() if name in fields}
        if files.patterns:  # then the folder that is named is theirs
            told.pop("out", None)
        options = None if model is None else _checked(model, told)
        body(path, inputs or [], options, device, as_json, files)

    own = {name: _option(name, field) for name, field in fields.items()}
    shared = {name: (kind, None) for name, kind in of_files.items() if name not in own}
    parameters = [
        _parameter("path", RunPath),
        *([] if taken is None else [_parameter("inputs", taken, None)]),
        *(_parameter(name, *told) for name, told in (own | shared).items()),
        _parameter("device", Device, None),
        _parameter("as_json", Json, False),
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def _parameter(name: str, kind: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, annotation=kind, default=default)


def _option(name: str, field: FieldInfo) -> tuple[Any, Any]:
    """A field as typer takes it: its type with the words of the option, and its default."""
    bounds = {
        word: getattr(one, bound)
        for one in field.metadata
        for bound, word in (("ge", "min"), ("le", "max"))
        if hasattr(one, bound)
    }
    words = typer.Option(f"--{name.replace('_', '-')}", help=field.description, **bounds)
    default = field.get_default(call_default_factory=True)
    kind = _plain(name, field.annotation)
    if get_origin(kind) is list and not default:
        kind, default = kind | None, None
    return Annotated[kind, words], default


def _plain(name: str, kind: Any) -> Any:
    """A type without Literal, which not every typer knows."""
    if get_origin(kind) is Literal:
        return StrEnum(name, {value: value for value in get_args(kind)})
    if type(None) in get_args(kind):
        (inner,) = (one for one in get_args(kind) if one is not type(None))
        return Union[_plain(name, inner), None]  # noqa: UP007
    return kind


def _checked(model: type[BaseModel], given: dict[str, Any]) -> Any:
    """The options. Typer has seen to types and bounds; the model may ask for more."""
    from pydantic import ValidationError

    try:
        return model(**given)
    except ValidationError as error:
        first = error.errors()[0]
        message = first["msg"].removeprefix("Value error, ")
        option = "".join(f"--{name}: " for name in first["loc"][:1]).replace("_", "-")
        raise ConfigError(f"{option}{message}") from None


def answer_lines(
    verb: Verb,
    path: Path,
    inputs: list[str],
    options: Any,
    device: str | None,
    as_json: bool,
    files: Files,
) -> None:
    """Answer the inputs, or every line of standard input; a bad run fails on empty input too."""
    from regard.runs.answering import opened, printed

    others = run_folders(inputs)
    inputs = inputs[len(others) :]
    if files.asked(verb):
        if inputs:
            raise ConfigError(f"--in names what is read: leave out {inputs[0]!r}")
        answer_files(verb, [path, *others], options, device, as_json, files)
        return
    run, verb = opened(verb, [path, *others], options, device)
    if not verb.reads_files:
        _check_texts(inputs)
        if len(inputs) > 1 and not any(" " in one for one in inputs):
            note(f"{len(inputs)} texts; quote a sentence to {verb.name} it as one")
    chunks = _chunks(verb, inputs)
    if getattr(options, "stream", False):
        if as_json:
            raise ConfigError("--stream prints one text as it comes: leave out --json and --n")
        for piece in verb.pieces(run, chunks, options, note=note):
            print(piece, end="", flush=True)
        return
    for answered in verb.lines(run, chunks, options, note=note):
        for request, answer in answered:
            print(printed(verb, request, answer, options, as_json=as_json))
        sys.stdout.flush()


def _check_texts(inputs: list[str]) -> None:
    """Refuse names where texts stand: of pictures, of files, and of a run that is not there."""
    refuse_pictures(inputs)
    refuse_files(inputs, "its lines are read by < {0}, or --in {0} --out DIR")
    if len(inputs) > 1:
        check_no_path(inputs[0])


def _chunks(verb: Verb, inputs: list[str]) -> Chunks:
    if inputs:
        return Chunks(
            lambda size: (inputs[i : i + size] for i in range(0, len(inputs), size)),
            "input",
            given=True,
        )
    if verb.unasked and sys.stdin.isatty():
        return Chunks(lambda _size: iter([list(verb.unasked)]))
    return Chunks(_told_lines)


def _told_lines(size: int) -> Iterator[list[str]]:
    """Lines of standard input; where they are many, who waits is told how far it is."""
    n, last = 0, time.monotonic()
    for lines in arriving_lines(size):
        if not n and len(lines) == size >= _MANY:
            note(f"many lines: answers come {size:,} at a time")
        elif n and time.monotonic() - last >= _APART:
            note(f"{n:,} lines are answered")
            last = time.monotonic()
        yield lines
        n += len(lines)


# ------------------------------------------------------------------ chat


def chat(
    path: Path,
    _inputs: list[str],
    options: ChatOptions,
    device: str | None,
    as_json: bool,
    _files: Files,
) -> None:
    """Talk with a model in the words of its own template; each line is a turn, Ctrl-D ends it.

    Answers are printed while they are written. With --json one object a turn: message, answer,
    finished.
    """
    from regard.tasks.writer import load_writer

    run = load_writer(path, device=device)  # a bad run fails on empty input too
    how = options.model_dump(exclude={"message", "system"})
    before = [] if options.system is None else [{"role": "system", "content": options.system}]
    talk = run.conversation(before, **how)
    if options.message is not None:
        _answer(talk, options.message, as_json)
        return
    typed = sys.stdin.isatty()
    arriving = (words for (words,) in arriving_lines(1))
    for number, words in enumerate(_typed() if typed else arriving, start=1):
        if not words.strip():
            continue
        try:
            _answer(talk, words, as_json)
        except DataError as error:
            if not typed:
                raise DataError(f"standard input, line {number}: {error}") from None
            print(f"regard: {error}", file=sys.stderr)  # who sits there can say something else


def _typed() -> Iterator[str]:
    """Lines from the keyboard, until it is closed."""
    with suppress(ImportError):  # where there is one, `input` lets a line be edited
        import_module("readline")
    while True:
        try:
            yield input("> ")
        except EOFError:
            print()
            return


def _answer(talk: Conversation, words: str, as_json: bool) -> None:
    if as_json:
        told = {"message": words, "answer": talk.say(words), "finished": talk.finished}
        print(json.dumps(told, ensure_ascii=False), flush=True)
        return
    for piece in talk.stream(words):
        print(piece, end="", flush=True)
    print(flush=True)
