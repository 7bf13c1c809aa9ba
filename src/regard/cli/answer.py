"""``regard answer``: a question and a text in, the words of the text that answer it out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Device, Json, RunPath
from regard.cli.terminal import chunks, note, stdin_lines
from regard.core.counting import counted
from regard.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.runs.finding import Answer

CHUNK = 256
"""Questions that are read together."""
Pairs = list[tuple[str, str]]


def answer(
    path: RunPath,
    question: Annotated[
        str | None, typer.Option(help="What to ask; else each line of standard input is asked.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="The text that has the answer in it.")] = None,
    file: Annotated[Path | None, typer.Option(help="A file that holds the text.")] = None,
    top: Annotated[
        int | None, typer.Option(min=1, help="Print so many answers, and an empty line after them.")
    ] = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Answer questions with words of a text: `answer TAB probability`.

    Without --text and --file, a line of standard input is a question and its text, with a tab
    between them. Texts may be long: they are read in windows that overlap.
    """
    from regard.runs.kinds.answerer import load_answerer

    run = load_answerer(path, device=device)  # a bad run fails on empty input too
    context = _context(text, file)
    if question is not None and context is None:
        raise ConfigError("--question needs a text to look into: give --text or --file")
    n_before = n_cut = 0
    for pairs in _asked(question, context):
        _check(pairs, n_before if question is None else None)
        n_cut += run.n_cut(pairs)
        for (asked, _), found in zip(pairs, run.answers(pairs, top or 1), strict=True):
            print(_shown(asked, found, top, as_json))
        sys.stdout.flush()
        n_before += len(pairs)
    if n_cut:
        note(f"{counted(n_cut, 'question')} cut to half of {run.model.config.max_len} tokens")


def _context(text: str | None, file: Path | None) -> str | None:
    if file is None:
        return text
    if text is not None:
        raise ConfigError("--text and --file are two texts: give one")
    from regard.data.lines import read_lines

    return "\n".join(read_lines(file))


def _asked(question: str | None, context: str | None) -> Iterator[Pairs]:
    """Questions with their texts, some at a time."""
    if question is not None:
        yield [(question, context or "")]
        return
    for lines in chunks(stdin_lines(), CHUNK):
        yield [(line, context) if context is not None else _parted(line) for line in lines]


def _parted(line: str) -> tuple[str, str]:
    asked, _, text = line.partition("\t")
    return asked, text


def _check(pairs: Pairs, n_before: int | None) -> None:
    """Refuse what has nothing in it, with the line where there are lines."""
    for number, (question, text) in enumerate(pairs, start=1):
        where = "" if n_before is None else f"standard input, line {n_before + number}: "
        if not question.strip():
            raise DataError(f"{where}the question is empty; ask something")
        if not text.strip():
            remedy = "" if n_before is None else " after a tab, or with --text or --file"
            raise DataError(f"{where}there is no text to find the answer in; give it{remedy}")


def _shown(question: str, found: list[Answer], top: int | None, as_json: bool) -> str:
    if not as_json:
        lines = [f"{' '.join(one.text.split())}\t{one.probability:.4f}" for one in found]
        return "\n".join(lines) + ("" if top is None else "\n")
    several = [one.as_json() for one in found]
    more = {} if top is None else {"answers": several}
    return json.dumps({"question": question, **several[0], **more}, ensure_ascii=False)
