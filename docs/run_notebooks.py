"""Run the notebooks and write each as a page with its outputs; see ``make notebooks``.

``docs/notebooks/*.py`` are notebooks as plain Python, in the percent format of jupytext. Each is
run from its beginning in a folder that is thrown away, and becomes two files beside it: NAME.ipynb,
to be opened and changed, and NAME.md, a page of the site. Where attention is shown, the page holds
a frame, whose file lies there too. A notebook that fails ends all.
"""

from __future__ import annotations

import base64
import html
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient

HOME = Path(__file__).parent / "notebooks"
CELL_SECONDS = 600
EXPECT = "**What to expect.**"
"""How the paragraph begins that the list of notebooks shows."""
STYLE = (
    "<style>.output { overflow-x: auto } .output figure { width: 100%; margin-inline: 0 } "
    ".output figure, .output > svg { max-width: 34rem }</style>"
)
"""Pictures have no width of their own, and the site would give them none."""
_FRAME = re.compile(r'srcdoc="([^"]*)"')

Beside = Callable[[bytes, str], str]
"""Content and the ending of a file -> its name, once it lies beside the page."""


def run(path: Path) -> Any:
    """The notebook of a file, with what its cells gave."""
    notebook = jupytext.read(path)
    with tempfile.TemporaryDirectory() as folder:
        where = {"metadata": {"path": folder}}
        NotebookClient(
            notebook,
            timeout=CELL_SECONDS,
            kernel_name="python3",
            resources=where,
            extra_arguments=["--log-level=ERROR"],
        ).execute()
    return notebook


def page(notebook: Any, name: str, beside: Beside) -> str:
    """A notebook as Markdown."""
    title, *rest = notebook.cells
    get = f"[Get this notebook]({name}.ipynb), change it and run it again."
    parts = [title.source, get, STYLE]
    for cell in rest:
        parts += [cell.source] if cell.cell_type == "markdown" else _code(cell, beside)
    return "\n\n".join(parts) + "\n"


def _code(cell: Any, beside: Beside) -> Iterator[str]:
    yield _fenced(cell.source, "python")
    for kind, outputs in groupby(cell.outputs, key=lambda one: one.output_type):
        if kind == "stream":  # a kernel cuts what is printed as it likes
            yield _fenced("".join(one.text for one in outputs))
        else:
            yield from (_shown(one.data, beside) for one in outputs)


def _shown(data: Any, beside: Beside) -> str:
    """The richest form in which something shows itself."""
    if "text/html" in data:
        inside = _FRAME.sub(
            lambda found: f'src="{beside(html.unescape(found[1]).encode(), "html")}"',
            data["text/html"],
        )
        return f'<div class="output">{inside}</div>'
    if "image/png" in data:
        return f"![picture]({beside(base64.b64decode(data['image/png']), 'png')})"
    return _fenced(data["text/plain"])


def _fenced(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.rstrip()}\n```"


def write(path: Path) -> str:
    """Run one notebook and write its files; -> its line in the list."""
    name, written, begun = path.stem, 0, time.monotonic()

    def beside(content: bytes, ending: str) -> str:
        nonlocal written
        written += 1
        file = HOME / f"{name}-{written}.{ending}"
        file.write_bytes(content)
        return file.name

    notebook = run(path)
    nbformat.write(notebook, HOME / f"{name}.ipynb")
    (HOME / f"{name}.md").write_text(page(notebook, name, beside), encoding="utf-8")
    print(f"{name}: {time.monotonic() - begun:.0f} s", flush=True)
    return listed(notebook.cells[0].source, name)


def listed(first: str, name: str) -> str:
    """A notebook's line in the list: its title, and what to expect of it."""
    heading, *paragraphs = (" ".join(part.split()) for part in first.split("\n\n"))
    (expect,) = (one.removeprefix(EXPECT).strip() for one in paragraphs if one.startswith(EXPECT))
    return f"- [{heading.removeprefix('# ')}]({name}.md). {expect}"


def main(names: Sequence[str]) -> None:
    """Run the notebooks of these names, or all, and write the list."""
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as the command line does
    paths = [path for path in sorted(HOME.glob("*.py")) if not names or path.stem in names]
    if len(paths) > 1:
        os.environ["OMP_NUM_THREADS"] = "1"  # of each, as many run side by side as there are cores
    with ProcessPoolExecutor() as pool:
        lines = [*pool.map(write, paths)]
    if not names:
        head = "# Notebooks\n\nEach runs from its beginning in less than two minutes on two cores."
        (HOME / "index.md").write_text("\n".join([head, "", *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
