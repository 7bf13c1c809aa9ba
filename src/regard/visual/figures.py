"""Our SVG pictures as PNG, for slides and chats, and as PDF, for papers.

``vl-convert-python`` draws both, with letters of its own where a machine has none; it is one wheel
that needs no library of the system (an extra: ``pip install 'regard[figures]'``).
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from regard.core.errors import ConfigError

Figure = Literal["svg", "png", "pdf"]
FIGURES: tuple[Figure, ...] = ("svg", "png", "pdf")
SCALE = 2.0
"""Pixels of a PNG for each of the SVG, so that letters are sharp on a screen of today."""
_PAPER = '<rect width="100%" height="100%" fill="white"/>'


def figure_form(path: Path) -> str:
    """As what a picture is written into a file: by the ending of its name, else as svg.

    What cannot be drawn here is refused, before hours are spent on what is to be drawn.
    """
    ending = path.suffix.removeprefix(".").lower()
    form = ending if ending in FIGURES else "svg"
    if form != "svg":
        _library(form)
    return form


def figure(svg: str, form: str) -> bytes:
    """The bytes of a file that shows the picture: svg as it is, png on white paper, or pdf."""
    if form == "svg":
        return svg.encode()
    vl_convert = _library(form)
    if form == "pdf":
        return bytes(vl_convert.svg_to_pdf(svg))
    begin, tag, rest = svg.partition(">")
    return bytes(vl_convert.svg_to_png(f"{begin}{tag}{_PAPER}{rest}", scale=SCALE))


def _library(form: str) -> Any:
    try:
        return import_module("vl_convert")
    except ImportError as error:
        raise ConfigError(
            f".{form} needs vl-convert-python, which is not installed: pip install "
            "'regard[figures]', or save it as .svg"
        ) from error
