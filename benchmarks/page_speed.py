"""How quick the page is in a browser: the first picture, and a long sentence drawn whole.

    python benchmarks/page_speed.py RUN [--words 60] [--times 5]

Serves the run to a headless Chromium on this machine (Playwright; `make browser` gets one) and
prints one JSON object of milliseconds, the median of several times:

- ``first_picture``: from asking for the page, nothing kept, to its first picture; ``again``: the
  same with the script and the style kept by the browser;
- ``redraw``: all lines of a sentence of so many words at threshold 0, every head, from the call
  until the browser has painted it; ``matrix`` the same as a matrix;
- ``hover``: from pointing at a word until only its lines are painted;
- ``elements`` of the picture, ``lines`` in it, and ``bytes`` that the first visit transfers.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Browser, Page, sync_playwright

READY = "#view:not([aria-busy]) svg"
DRAW = """async ([words, how]) => {
  const { drawLines, drawMatrix } = await import("/static/draw.js");
  const tokens = Array.from({ length: words }, (_, i) => `word${i}`);
  const row = () => {
    const raw = tokens.map(() => Math.random() ** 8);
    const sum = raw.reduce((a, b) => a + b, 0);
    return raw.map((one) => one / sum);
  };
  const heads = Array.from({ length: 4 }, () => tokens.map(row));
  const attentions = { "encoder.self": [heads] };
  const look = { source_tokens: tokens, target_tokens: tokens, attentions };
  const canvas = document.querySelector("#view .canvas");
  const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  await painted();
  const started = performance.now();
  if (how === "matrix") drawMatrix(canvas, look, { name: "encoder.self", layer: 0 });
  else drawLines(canvas, look, { name: "encoder.self", layer: 0, threshold: 0 });
  await painted();
  return performance.now() - started;
}"""
HOVER = """async (row) => {
  const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  const chip = document.querySelector(`#view [data-row="${row}"] rect`);
  await painted();
  const started = performance.now();
  chip.dispatchEvent(new PointerEvent("pointerover", { bubbles: true, clientX: 9, clientY: 9 }));
  await painted();
  return performance.now() - started;
}"""


def main() -> None:
    """Serve, measure, print."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("run")
    asked.add_argument("--words", type=int, default=60)
    asked.add_argument("--times", type=int, default=5)
    given = asked.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "regard", "serve", given.run, "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        base = f"http://127.0.0.1:{port}"
        wait_for(base)
        with sync_playwright() as driver:
            path = shutil.which("chromium") or driver.chromium.executable_path
            browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
            print(json.dumps(measured(browser, base, given.words, given.times), indent=2))
            browser.close()
    finally:
        server.terminate()
        server.wait()


def wait_for(base: str) -> None:
    """Until the server answers, two minutes at most."""
    for _ in range(240):
        try:
            urllib.request.urlopen(f"{base}/healthz").close()
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.5)
        else:
            return
    raise SystemExit(f"nothing answers at {base}")


def measured(browser: Browser, base: str, words: int, times: int) -> dict[str, Any]:
    """All numbers, by name."""
    first, again, transferred = [], [], 0
    for _ in range(times + 1):  # the server's own first time is not the page's
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page = context.new_page()
        first.append(opened(page, base))
        transferred = page.evaluate(
            "performance.getEntriesByType('resource').reduce((sum, e) => sum + e.transferSize, 0)"
        )
        page.goto("about:blank")
        again.append(opened(page, base))
        context.close()
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    opened(page, base)
    drawn = {
        how: [page.evaluate(DRAW, [words, how]) for _ in range(times)]
        for how in ("matrix", "lines")
    }
    hovered = [page.evaluate(HOVER, 3 + i) for i in range(times)]
    return {
        "first_picture": round(1000 * statistics.median(first[1:])),
        "again": round(1000 * statistics.median(again[1:])),
        "redraw": round(statistics.median(drawn["lines"]), 1),
        "matrix": round(statistics.median(drawn["matrix"]), 1),
        "hover": round(statistics.median(hovered), 1),
        "elements": page.locator("#view *").count(),
        "lines": int(page.locator("#view svg").get_attribute("data-lines") or 0),
        "bytes": transferred,
    }


def opened(page: Page, base: str) -> float:
    """Seconds from asking for the page to its first picture."""
    started = time.perf_counter()
    page.goto(f"{base}/#source={quote('the animal did not cross the street')}")
    page.wait_for_selector(READY)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
