"""Screenshots of the page, the drawing of the model and the report, at three sizes, light and dark.

``make pictures`` trains the demo run (two minutes) and writes them into docs/pictures; or, with a
run that is there already, ``python docs/pictures.py --run RUN``. All are made by this script: what
is in the folder is what ``PICTURES`` lists.
"""

from __future__ import annotations

import argparse
import io
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "pictures"
SIZES = {"desktop": (1440, 900), "tablet": (1024, 768), "phone": (390, 844)}
SCHEMES = ("light", "dark")
READY = "#view:not([aria-busy]) svg"
COLOURS = 96
"""Of a picture: enough for tints and for the edges of letters."""
SECONDS = 60
"""That a server may take to come up."""


def show_page(page: Any, address: str, run: Path) -> None:
    """The page as a reader meets it."""
    page.goto(address)
    page.wait_for_selector(READY)


def show_matrix(page: Any, address: str, run: Path) -> None:
    """One attention as a matrix, from its tabs on."""
    page.goto(f"{address}/#view=matrix")
    page.wait_for_selector(READY)
    page.locator("#tabs").evaluate("one => one.scrollIntoView()")


def show_drawing(page: Any, address: str, run: Path) -> None:
    """The model, drawn."""
    show_page(page, address, run)
    page.locator("#drawing summary").click()
    page.locator("#drawing svg").wait_for()
    page.locator("#drawing").evaluate("one => one.scrollIntoView()")


def show_report(page: Any, address: str, run: Path) -> None:
    """The report of the run."""
    page.goto((run / "report.html").resolve().as_uri())


SCENES: dict[str, Callable[[Any, str, Path], None]] = {
    "page": show_page,
    "matrix": show_matrix,
    "drawing": show_drawing,
    "report": show_report,
}
PICTURES = [
    f"{scene}-{size}-{scheme}.png" for scene in SCENES for size in SIZES for scheme in SCHEMES
]


@contextmanager
def trained(given: Path | None) -> Iterator[Path]:
    """The run that is given, or else the demo, trained for this."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "demo"
        words = [sys.executable, "-m", "regard", "demo", "--no-serve", "--out", str(run)]
        subprocess.run(words, check=True)
        yield run


@contextmanager
def served(run: Path) -> Iterator[str]:
    """A server on the run -> its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [sys.executable, "-m", "regard", "serve", str(run), "--port", str(port)]
    )
    try:
        _wait_for(f"{address}/healthz")
        yield address
    finally:
        server.terminate()
        server.wait()


def _wait_for(address: str) -> None:
    end = time.monotonic() + SECONDS
    while True:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def optimised(png: bytes) -> bytes:
    """The same picture with a palette, which is a third of the size."""
    from PIL import Image

    small = io.BytesIO()
    with Image.open(io.BytesIO(png)) as picture:
        method = Image.Quantize.MEDIANCUT
        few = picture.convert("RGB").quantize(COLOURS, method=method, dither=Image.Dither.NONE)
        few.save(small, "PNG", optimize=True)
    return small.getvalue()


def make_pictures(run: Path, folder: Path = FOLDER) -> None:
    """Write all ``PICTURES`` of a run, and remove whatever else is in the folder."""
    from playwright.sync_api import sync_playwright

    folder.mkdir(exist_ok=True)
    with served(run) as address, sync_playwright() as driver:
        path = shutil.which("chromium") or driver.chromium.executable_path
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for size, (width, height) in SIZES.items():
            for scheme in SCHEMES:
                context = browser.new_context(
                    viewport={"width": width, "height": height},
                    color_scheme=scheme,
                    reduced_motion="reduce",
                )
                for scene, show in SCENES.items():
                    page = context.new_page()
                    show(page, address, run)
                    png = optimised(page.screenshot())
                    (folder / f"{scene}-{size}-{scheme}.png").write_bytes(png)
                    page.close()
                context.close()
        browser.close()
    for other in {*folder.iterdir()} - {folder / name for name in PICTURES}:
        other.unlink()


def main() -> None:
    """Read the words of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--run", type=Path, help="a run folder; else the demo is trained")
    with trained(parser.parse_args().run) as run:
        make_pictures(run)


if __name__ == "__main__":
    main()
