"""``regard fill``: a line with masks in, the line with words out."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Device, Json, RunPath
from regard.cli.terminal import stdin_lines
from regard.core.errors import DataError

if TYPE_CHECKING:
    from regard.runs.kinds.filler import Filled


def fill(
    path: RunPath,
    n: Annotated[
        int | None,
        typer.Option(min=1, help="Print so many guesses for each mask: `word TAB probability`."),
    ] = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Guess the words at each <mask> in the lines of standard input."""
    from regard.runs.kinds.filler import load_filler

    run = load_filler(path, device=device)  # a bad run fails on empty input too
    for number, line in enumerate(stdin_lines(), start=1):
        try:
            filled = run.fill(line, n or 5)
        except DataError as error:
            raise DataError(f"standard input, line {number}: {error}") from None
        print(_shown(line, filled, n, as_json))
        sys.stdout.flush()


def _shown(line: str, filled: Filled, n: int | None, as_json: bool) -> str:
    if as_json:
        masks = [[guess._asdict() for guess in guesses] for guesses in filled.masks]
        found = {"text": line, "filled": filled.text, "masks": masks}
        return json.dumps(found, ensure_ascii=False)
    if n is None:
        return filled.text.replace("\n", " ")
    guesses = [guess for guesses in filled.masks for guess in guesses]
    return "\n".join(f"{guess.token}\t{guess.probability:.4f}" for guess in guesses)
