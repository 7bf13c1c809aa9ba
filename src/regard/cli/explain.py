"""Looking inside: ``regard explain`` at one text, ``regard heads`` over many."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.run_paths import RunPath
from regard.cli.terminal import (
    Device,
    Json,
    TrustData,
    chosen_format,
    note,
    note_written,
    refuse_files,
    refuse_pictures,
    write,
)
from regard.core.errors import ConfigError

if TYPE_CHECKING:
    from regard.inspection.records import Steps
    from regard.tasks.look import Look
    from regard.visual.payload import Selected


LookFormat = StrEnum("LookFormat", ["text", "html", "svg", "png", "pdf", "json", "csv", "tex"])
HeadsFormat = StrEnum("HeadsFormat", ["text", "json", "svg", "png", "pdf", "csv", "tex"])
Out = Annotated[Path | None, typer.Option(help="A file; else standard output.")]
_FIGURES = (LookFormat.png, LookFormat.pdf)
_PICTURES = (LookFormat.svg, *_FIGURES)
_ALL = "all"
"""Instead of a head's number: each of them."""
_DRAWN = (LookFormat.text, LookFormat.html, *_PICTURES)  # not as numbers
WIDE = 100  # letters of a table in a file; in a terminal it fits the terminal


def explain(
    path: RunPath,
    text: Annotated[
        str,
        typer.Argument(metavar="TEXT", help="A sentence, a text, a prompt; or a picture's file."),
    ],
    other: Annotated[
        str | None,
        typer.Argument(metavar="[TEXT]", help="The second text, where a run reads pairs."),
    ] = None,
    question: Annotated[
        str | None, typer.Option(help="What is asked about a picture; or give it as second text.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="Its translation, or what follows a prompt; else the model's own."),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            min=0, help="Number of tokens a language model writes at most; by default 20."
        ),
    ] = None,
    attention: Annotated[
        str | None, typer.Option(help="Which; else decoder.cross, or the first.")
    ] = None,
    layer: Annotated[int | None, typer.Option(help="From 0; else the last.")] = None,
    head: Annotated[
        str | None,
        typer.Option(
            metavar="INTEGER|all",
            help="From 0, or all of them in a picture (.svg, .png, .pdf); else their mean.",
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            help="The six steps of this word, or of the row of this number; of a picture, where it "
            "looked."
        ),
    ] = None,
    rollout: Annotated[
        bool, typer.Option("--rollout", help="Where self-attention leads through all its layers.")
    ] = False,
    patches: Annotated[
        bool,
        typer.Option("--patches", help="Draw weights over a picture as patches, not smoothly."),
    ] = False,
    asked: Annotated[
        LookFormat | None,
        typer.Option(
            "--format", help="html and json hold everything; else as --out ends, or text."
        ),
    ] = None,
    out: Out = None,
    device: Device = None,
) -> None:
    """Show where the model's attention looks, or with --token how it comes to look there."""
    from regard.tasks.base import TASKS
    from regard.tasks.opening import load
    from regard.tasks.verbs import read_note
    from regard.visual.figures import figure
    from regard.visual.look_files import steps_file
    from regard.visual.payload import Selected

    shown = chosen_format(LookFormat, asked, out)
    _check_head(head, is_picture=shown in _PICTURES and token is None and not rollout)
    run = load(path, device=device)
    if not TASKS[run.task].verb.reads_files:
        refuse_pictures([text])
        refuse_files([text], "explain reads one text: give it in quotes")
    more = {"other": other, "question": question, "target": target}
    more = {name: _readable(said) for name, said in more.items() if said is not None}
    look: Look = TASKS[run.task].explain(run, _readable(text), max_tokens=max_tokens, **more)
    if attention is not None:
        look.weights(attention)  # or it is told what there is
    number = None if head in (None, _ALL) else int(str(head))
    selected = Selected(attention, layer, number, every_head=head == _ALL, patches=patches)
    if rollout:
        look, selected = _rolled_out(look, selected), Selected(patches=patches)
    selected, steps = _chosen(look, selected, None if token is None else _readable(token), shown)
    if shown is LookFormat.text:
        _print_look(look, selected, steps, out)
    elif shown in _FIGURES and steps is None:
        write(look.as_figure(shown.value, selected), out)
    elif shown in _FIGURES and steps is not None:
        write(figure(steps_file(look.as_json(), steps.as_json(), "svg"), shown.value), out)
    elif steps is None or shown is LookFormat.html:
        write(look.as_file(shown.value, selected), out)
    else:
        write(steps_file(look.as_json(), steps.as_json(), shown.value), out)
    note_written(out)
    for line in read_note(run, look.source):
        note(line)
    for line in look.warnings:
        note(line)


def _check_head(head: str | None, *, is_picture: bool) -> None:
    """Refuse what is neither a number nor all, and all where they are not drawn side by side."""
    if head == _ALL and not is_picture:
        raise ConfigError(
            "--head all draws the heads side by side: give --out with .svg, .png or .pdf, and "
            "neither --token nor --rollout"
        )
    if head not in (None, _ALL) and not re.fullmatch(r"-?\d+", str(head)):
        raise ConfigError(f"--head is a number from 0, or all, not {head!r}")


def _readable(text: str) -> str:
    """Bytes that are no UTF-8 come as half a character each, which nobody can print or save."""
    return re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)


def _rolled_out(look: Look, selected: Selected) -> Look:
    if selected.layer is not None or selected.head is not None:
        raise ConfigError("--rollout is of all layers and heads: leave out --layer and --head")
    return look.rolled_out(selected.name)


def _chosen(
    look: Look, selected: Selected, token: str | None, shown: LookFormat
) -> tuple[Selected, Steps | None]:
    """What is shown: of a token its map where that is drawn over a picture, else its steps."""
    from regard.visual.payload import Selected, selected_view
    from regard.visual.picture_maps import shows_picture

    if token is None:
        if selected.name or selected.layer is not None or selected.head is not None:
            selected_view(look.payload(), selected).head(selected.head)  # html and json ask not
        return selected, None
    if shown in _DRAWN and shows_picture(look.payload(), selected):
        one = selected_view(look.payload(), selected)
        at = look.row_of(one.name, _row(look, token))
        return replace(selected, name=one.name, layer=one.layer, token=at), None
    if look.attentions and not look.records:
        raise ConfigError("a rollout has no steps: leave out --token or --rollout")
    steps = _steps(look, token, selected)
    return Selected(steps.name, steps.layer, steps.head, steps.token), steps


def _row(look: Look, token: str) -> str | int:
    """A word, or a number where no word is called so."""
    words = {*look.source_tokens, *look.target_tokens}
    return int(token) if token.isdecimal() and token not in words else token


def _steps(look: Look, token: str, selected: Selected) -> Steps:
    """The first head's where none is chosen: a mean has no query and no keys."""
    row = _row(look, token)
    name = selected.name or look.steps(row).name
    last = len(look.attentions.get(name, ())) - 1
    layer = max(0, last) if selected.layer is None else selected.layer
    return look.steps(row, name=name, layer=layer, head=selected.head or 0)


def _print_look(look: Look, selected: Selected, steps: Steps | None, out: Path | None) -> None:
    """The terminal view; a file gets it without colours."""
    from rich.console import Console

    from regard.visual.matrix import look_text
    from regard.visual.steps_table import steps_text

    text, width = (None, None) if out is None else (io.StringIO(), WIDE)
    console = Console(file=text, width=width, markup=False, highlight=False)
    if steps is not None:
        console.print(steps_text(steps.as_json(), width=console.width))
    else:
        coloured = console.color_system is not None
        shown = look_text(look.payload(), selected, width=console.width, coloured=coloured)
        console.print(shown, end="")
    if text is not None:
        write(text.getvalue(), out)


# ------------------------------------------------------------------ heads


def heads(
    path: RunPath,
    split: Annotated[
        str | None, typer.Option(help="A split of the run's own data; by default valid.")
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option(help="Texts to measure on instead, one per line, but for translators."),
    ] = None,
    sentences: Annotated[int, typer.Option(min=1, help="Number of sentences to measure.")] = 200,
    as_json: Json = False,
    asked: Annotated[
        HeadsFormat | None,
        typer.Option(
            "--format", help="svg, png, pdf: a map of the heads; else as --out ends, or text."
        ),
    ] = None,
    out: Out = None,
    device: Device = None,
    trust_data: TrustData = False,
) -> None:
    """Measure what each head looks at, and what is lost without it.

    Each head is ablated once: scores are those of all the sentences, BLEU that of the first 100.
    Texts have no labels: where a run's scores need some, it is told how far their vectors turn.
    """
    from regard.runs.heads import heads as measure
    from regard.tasks.opening import load
    from regard.visual.heads import heads_text

    if as_json and asked not in (None, HeadsFormat.json):
        raise ConfigError(f"--json and --format {asked} are two formats: give one")
    wanted = chosen_format(HeadsFormat, HeadsFormat.json if as_json else asked, out)
    run = load(path, device=device, trust_data=trust_data)
    found = measure(run, split, texts=texts, n=sentences, say=note).as_json()
    if wanted is HeadsFormat.text:
        fits = out is None and sys.stdout.isatty()
        write(heads_text(found, get_terminal_size().columns if fits else WIDE), out)
    else:
        write(_heads_file(found, wanted), out)
    note_written(out)


def _heads_file(found: Mapping[str, Any], wanted: HeadsFormat) -> str | bytes:
    from regard.visual.figures import FIGURES, figure
    from regard.visual.heads import all_heads_table, plain_table
    from regard.visual.patch_figures import head_figures
    from regard.visual.svg import alone, stack
    from regard.visual.tables import csv_table, latex_table

    if wanted is HeadsFormat.json:
        return json.dumps(found, ensure_ascii=False) + "\n"
    if wanted.value in FIGURES:
        pictures = head_figures(found)
        one = pictures[0] if len(pictures) == 1 else stack(pictures, label="What heads do")
        return alone(one) + "\n" if wanted is HeadsFormat.svg else figure(one, wanted.value)
    if wanted is HeadsFormat.csv:
        return csv_table(plain_table(found))
    return latex_table(all_heads_table(found))
