"""The page without a server beside the server: size, time to the first picture, differences.

python benchmarks/web_export.py RUN [--texts 50]
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright
from starlette.testclient import TestClient

import regard
from regard.runs.export import export
from regard.server.app import make_app
from regard.server.bundle import bundled_script
from regard.server.static_page import engine_file
from regard.tasks.base import TASKS
from regard.text.words import spans

READY = "#view:not([aria-busy]) svg"
ASK = """async ([path, body]) => {
    const answer = await askEngine(path, body ? { body: JSON.stringify(body) } : {});
    return answer.text();
}"""


def what_ifs(attention: str) -> dict[str, list[dict[str, Any]]]:
    """Changes by name; those of heads are of this attention."""
    head = {"name": attention, "layer": 0, "head": 1}
    return {
        "plain": [],
        "muted": [{"kind": "ablate", **head}],
        "forced": [{"kind": "force", **head, "key": 0}],
        "temperature": [{"kind": "temperature", "value": 2.0, "name": None}],
        "no positions": [{"kind": "no_positions"}],
        "swapped": [{"kind": "swap", "first": 0, "second": 1}],
    }


def main() -> None:
    """Measure, and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--texts", type=int, default=50)
    asked = parser.parse_args()
    run = regard.load(asked.run, device="cpu")
    texts = [*islice(looks(run), asked.texts)]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        begun = time.perf_counter()
        written = export(run, "web", Path(folder) / "page")
        print(f"{written}, written in {time.perf_counter() - begun:.1f} s")
        path = shutil.which("chromium") or driver.chromium.executable_path
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        address = f"{written.folder.as_uri()}/index.html"
        times = [_first_picture(browser.new_page(), address) for _ in range(5)]
        print(f"first picture after {min(times):.2f} to {max(times):.2f} s")
        page = browser.new_page()
        _first_picture(page, address)
        with TestClient(make_app(run), base_url="http://127.0.0.1") as server:
            _compare(page, server, texts)
        browser.close()


def looks(run: Any) -> Iterator[dict[str, Any]]:
    """What ``/api/explain`` is asked of held-out texts, in which two words can be swapped."""
    task = TASKS[run.task]
    for record in task.records_of(run, "valid"):
        for asked in task.explained_with(run, [record]):
            if len(spans(asked["source"])) > 1:
                yield dict(asked)


def _first_picture(page: Page, address: str) -> float:
    """Seconds from asking for the page to its first picture, as the page counts them."""
    page.goto(address)
    page.wait_for_selector(READY)
    return float(page.evaluate("performance.now()")) / 1000


def _compare(page: Page, server: TestClient, texts: list[dict[str, Any]]) -> None:
    door = bundled_script("send", engine_file)
    page.add_script_tag(
        content=f"globalThis.askEngine = (() => {{ {door} return $send.send; }})();"
    )
    attention = server.get("/api/info").json()["attentions"][-1]["name"]
    for kind, edits in what_ifs(attention).items():
        alike, worst = 0, 0.0
        for one in texts:
            body = {**one, "edits": edits}
            ours = json.loads(page.evaluate(ASK, ["/api/explain", body]))
            theirs = server.post("/api/explain", json=body).json()
            alike += ours["answer"] == theirs["answer"]
            worst = max(worst, difference(ours, theirs))
        print(f"{kind}: {alike} of {len(texts)} answers alike, numbers differ by {worst:.1e}")


def difference(ours: Any, theirs: Any) -> float:
    """The largest between two numbers; endless where anything else differs."""
    if isinstance(theirs, dict) and isinstance(ours, dict) and ours.keys() == theirs.keys():
        return max((difference(ours[key], theirs[key]) for key in theirs), default=0.0)
    if isinstance(theirs, list) and isinstance(ours, list) and len(ours) == len(theirs):
        return max(map(difference, ours, theirs), default=0.0)
    if isinstance(theirs, int | float) and isinstance(ours, int | float):
        return abs(ours - theirs)
    return 0.0 if ours == theirs else float("inf")


if __name__ == "__main__":
    main()
