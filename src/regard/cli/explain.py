"""``regard explain``: look inside while a sentence is translated."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Device, RunPath
from regard.core.errors import ConfigError

if TYPE_CHECKING:
    from regard.runs.look import Look


class Format(StrEnum):
    """How a look is shown."""

    json = "json"
    svg = "svg"


def explain(
    path: RunPath,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A sentence.")],
    target: Annotated[str | None, typer.Option(help="Its translation; else the model's.")] = None,
    attention: Annotated[str, typer.Option(help="For svg: which one.")] = "decoder.cross",
    layer: Annotated[int | None, typer.Option(help="For svg: from 0; else the last.")] = None,
    head: Annotated[int | None, typer.Option(help="For svg: from 0; else their mean.")] = None,
    shown: Annotated[Format, typer.Option("--format", help="json: everything.")] = Format.json,
    out: Annotated[Path | None, typer.Option(help="A file; else standard output.")] = None,
    device: Device = None,
) -> None:
    """Show where the model's attention looks."""
    from regard.core.files import write_whole
    from regard.runs.run import load

    look = load(path, device=device).explain(text, target)
    if shown is Format.json:
        result = json.dumps(look.as_json(), ensure_ascii=False)
    else:
        result = _svg(look, attention, layer, head)
    if out is None:
        print(result)
    else:
        write_whole(out, result + "\n")


def _svg(look: Look, name: str, layer: int | None, head: int | None) -> str:
    from regard.visual.matrix import matrix

    if layer is None:
        layer = max(0, len(look.attentions.get(name, ())) - 1)
    weights = look.weights(name, layer)  # (H, T, S)
    if head is not None and not 0 <= head < len(weights):
        raise ConfigError(f"{name} has heads 0 to {len(weights) - 1}, not {head}")
    one = weights.mean(axis=0) if head is None else weights[head]
    which = f"mean of {len(weights)} heads" if head is None else f"head {head}"
    rows, columns = look.tokens_of(name)
    return matrix(one.tolist(), rows, columns, title=f"{name}, layer {layer}, {which}")
