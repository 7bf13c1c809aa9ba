"""A browser, a server on the short run, and a page that tells when it misbehaved."""

import shutil
import socket
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import uvicorn
from playwright.sync_api import sync_playwright

import regard


@pytest.fixture(scope="session")
def run(run_path):
    """The run to compare with: not the server's, which works in another thread meanwhile."""
    return regard.load(run_path, device="cpu")


@pytest.fixture(scope="module")
def browser():
    """Closed with its module: while it is open, an event loop runs in this thread."""
    with sync_playwright() as driver:
        path = shutil.which("chromium") or driver.chromium.executable_path
        if not Path(path).exists():
            pytest.skip("no Chromium, so the page is not tested; `make browser` gets one")
        launched = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def base(run_path):
    """The address of a real server, in a thread of its own."""
    from regard.server.app import make_app

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    app = make_app(regard.load(run_path, device="cpu"))
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.02)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def visit(browser, base):
    """Open the page with a link's state. No page may fail in silence or ask another host."""
    contexts, errors, asked = [], [], []

    def go(hash_="", *, wait="#view:not([aria-busy]) svg", **options):
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.extend(_violations(said.text)))
        page.on("request", lambda request: asked.append(request.url))
        page.asked = asked
        page.goto(f"{base}/{hash_}")
        page.wait_for_selector(wait)
        return page

    yield go
    for context in contexts:
        context.close()
    assert errors == []
    strangers = [url for url in asked if url.startswith("http") and not _is_of(base, url)]
    assert strangers == []


def _violations(text):
    return [text] if "Content Security Policy" in text else []


def _is_of(base, url):
    return urlsplit(url).netloc == urlsplit(base).netloc
