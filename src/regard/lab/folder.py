"""Results on disk: pictures, numbers, and one page that shows them all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from regard.core.files import write_whole
from regard.lab.result import Result
from regard.visual.report import cards_page

PAGE = "index.html"


def write_result(result: Result, folder: Path) -> None:
    """NAME.json, and NAME.svg (NAME-2.svg, … where there are more pictures)."""
    facts = json.dumps(result.as_json(), indent=2, ensure_ascii=False)
    write_whole(folder / f"{result.name}.json", facts + "\n")
    for number, picture in enumerate(result.pictures, start=1):
        suffix = "" if number == 1 else f"-{number}"
        write_whole(folder / f"{result.name}{suffix}.svg", picture)


def write_page(
    results: Sequence[Result], folder: Path, *, failed: Sequence[tuple[str, str]] = ()
) -> Path:
    """A page of all results; ``failed`` are (name, why) of experiments that broke down."""
    cards = [result.card() for result in results]
    write_whole(folder / PAGE, cards_page("The lectures' claims", cards, missing=failed))
    return folder / PAGE
