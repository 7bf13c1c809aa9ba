"""A run written in a format of the ecosystem: ``regard export`` and ``run.export``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from regard.core.errors import ConfigError
from regard.core.files import write_whole
from regard.interop.exporting import export as write
from regard.interop.folders import read_config
from regard.interop.preprocessing import FILE as PREPARATION
from regard.runs.card import TheirClasses, model_card
from regard.visual.svg import element
from regard.visual.tables import Table, table_html

_PAGES = (".html", ".htm")
"""Endings of one page, which some expect to be written."""


@dataclass(frozen=True, slots=True)
class Export:
    """What was written."""

    to: str
    """The format."""
    folder: Path
    notes: tuple[str, ...]
    """What a user should know, a sentence each."""

    @property
    def files(self) -> dict[str, int]:
        """Name -> bytes."""
        return {
            str(path.relative_to(self.folder)): path.stat().st_size
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(self.files.values())

    def __str__(self) -> str:
        return f"{self.folder}: {self.to}, {self.size / 1e6:.1f} MB"

    def __repr__(self) -> str:
        return f"<Export {self}>"

    def _repr_html_(self) -> str:
        rows = [[name, f"{size / 1e6:.1f} MB"] for name, size in self.files.items()]
        notes = (element("p", line) for line in self.notes)
        return "".join([table_html(Table(str(self), ["File", "Size"], rows)), *notes])


def export(run: Any, to: str, out: str | Path) -> Export:
    """Write a run into a folder, new or empty; whole or not at all."""
    if Path(out).suffix.lower() in _PAGES:
        named = Path(out).with_suffix("")
        raise ConfigError(f"a folder is written, not a file: name it without an ending, as {named}")
    if run.device.type != "cpu":  # weights are written from there, and the run stays where it is
        model = copy.deepcopy(run.model).cpu()
        run = replace(run, model=model, device=torch.device("cpu"))
    add = ADDED.get(to, lambda _run, _folder: None)
    return Export(to, Path(out), tuple(write(run, to, Path(out), partial(add, run))))


def _add_card(run: Any, folder: Path) -> None:
    """README.md: the card of a folder that transformers reads."""
    (model,) = read_config(folder)["architectures"]
    reads_pictures = (folder / PREPARATION).exists()
    theirs = TheirClasses("AutoImageProcessor" if reads_pictures else "AutoTokenizer", model)
    write_whole(folder / "README.md", model_card(run, theirs=theirs))


ADDED: Mapping[str, Callable[[Any, Path], None]] = {"hf": _add_card}
"""By format: what is written beside the model."""
