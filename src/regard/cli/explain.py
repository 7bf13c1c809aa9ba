"""``regard explain``: look inside while a text is read, translated or written on."""

from __future__ import annotations

import io
import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.notes import note, note_unknown
from regard.cli.options import Device, RunPath
from regard.cli.writing import chosen_format, write
from regard.core.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from regard.inspection.steps import Steps
    from regard.runs.looking.look import Look
    from regard.visual.payload import Selected


class Format(StrEnum):
    """How a look is shown."""

    text = "text"
    html = "html"
    svg = "svg"
    json = "json"
    csv = "csv"
    tex = "tex"


def explain(
    path: RunPath,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A sentence, a text, a prompt.")],
    other: Annotated[
        str | None,
        typer.Argument(metavar="[TEXT]", help="The second text, where a run reads pairs."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="Its translation, or what follows a prompt; else the model's own."),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(min=0, help="A language model writes up to so many; by default 20."),
    ] = None,
    attention: Annotated[
        str | None, typer.Option(help="Which; else decoder.cross, or the first.")
    ] = None,
    layer: Annotated[int | None, typer.Option(help="From 0; else the last.")] = None,
    head: Annotated[int | None, typer.Option(help="From 0; else their mean.")] = None,
    token: Annotated[
        str | None, typer.Option(help="The six steps of this word, or of the row of this number.")
    ] = None,
    asked: Annotated[
        Format | None,
        typer.Option(
            "--format", help="html and json hold everything; else as --out ends, or text."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A file; else standard output.")] = None,
    device: Device = None,
) -> None:
    """Show where the model's attention looks, or with --token how it comes to look there."""
    from regard.runs.loading import load
    from regard.visual.payload import Selected, selected_view

    shown = chosen_format(Format, asked, out)
    run = load(path, device=device)
    look = _looked(run, _readable(text), other, target, max_tokens)
    if attention is not None:
        look.weights(attention)  # or it is told what there is
    selected = Selected(attention, layer, head)
    if token is None and selected != Selected():
        selected_view(look.payload(), selected).head(head)  # html and json show all, and ask not
    steps = None
    if token is not None:
        steps = _steps(look, _readable(token), selected)
        selected = Selected(steps.name, steps.layer, steps.head, steps.token)
    if shown is Format.text:
        _print(look, selected, steps, out)
    else:
        write(_file(look, selected, steps, shown), out)
    note_unknown(run.unknown_words(look.source))
    for line in look.doubts:
        note(line)


def _looked(
    run: Any, text: str, other: str | None, target: str | None, max_tokens: int | None
) -> Look:
    """By the run's task; what another task's look would need is refused."""
    writes = run.task in ("translation", "language")
    if other is not None and writes:
        raise ConfigError(f"a run of the task {run.task} reads one text: give one, not two")
    if target is not None and not writes:
        raise ConfigError(f"a run of the task {run.task} writes nothing: leave out --target")
    if max_tokens is not None and run.task != "language":
        raise ConfigError("--max-tokens is for language models: leave it out")
    second = target if writes else other
    how = {} if max_tokens is None else {"max_tokens": max_tokens}
    look: Look = run.explain(text, None if second is None else _readable(second), **how)
    return look


def _readable(text: str) -> str:
    """Bytes that are no UTF-8 come as half a character each, which nobody can print or save."""
    return re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)


def _steps(look: Look, token: str, selected: Selected) -> Steps:
    """The first head's where none is chosen: a mean has no query and no keys."""
    words = {*look.source_tokens, *look.target_tokens}
    row = int(token) if token.isdecimal() and token not in words else token
    name = selected.name or look.steps(row).name
    last = len(look.attentions.get(name, ())) - 1
    layer = max(0, last) if selected.layer is None else selected.layer
    return look.steps(row, name=name, layer=layer, head=selected.head or 0)


def _file(look: Look, selected: Selected, steps: Steps | None, shown: Format) -> str:
    from regard.visual.look_files import steps_file

    if steps is None or shown is Format.html:
        return look.as_file(shown.value, selected)
    return steps_file(look.as_json(), steps.as_json(), shown.value)


def _print(look: Look, selected: Selected, steps: Steps | None, out: Path | None) -> None:
    """The terminal view; a file gets it without colours."""
    from rich.console import Console

    if out is None:
        _show(Console(markup=False, highlight=False), look, selected, steps)
        return
    text = io.StringIO()
    _show(Console(file=text, width=100, markup=False, highlight=False), look, selected, steps)
    write(text.getvalue(), out)


def _show(console: Console, look: Look, selected: Selected, steps: Steps | None) -> None:
    from regard.visual.steps_table import steps_text
    from regard.visual.terminal import look_text

    if steps is not None:
        console.print(steps_text(steps.as_json(), width=console.width))
    else:
        console.print(look_text(look.as_json(), selected, width=console.width), end="")
