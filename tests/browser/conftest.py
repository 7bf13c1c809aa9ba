"""A browser, a server on the short run, and a page that tells when it misbehaved."""

import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from page_parts import served
from playwright.sync_api import sync_playwright
from starlette.testclient import TestClient
from web_engine import Both, Engine

import regard
from regard.runs.train import train
from regard.tasks.recipe import recipe_from


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
    """The address of a server on the short run."""
    from regard.server.app import make_app

    with served(make_app(regard.load(run_path, device="cpu"))) as address:
        yield address


@pytest.fixture(scope="session")
def filmed(settings, tmp_path_factory):
    """A run of thirty steps with a film."""
    out = tmp_path_factory.mktemp("filmed") / "run"
    train(
        recipe_from({**settings, "train": {**settings["train"], "film": True, "eval_every": 5}}),
        out,
    )
    return out


@pytest.fixture
def visit(browser, request):
    """Open the page with a link's state. No page may fail in silence or ask another host.

    It is the short run's page, or that ``at`` another address, which may be a file.
    """
    contexts, errors, asked, bases = [], [], [], set()

    def go(hash_="", *, at=None, wait="#view:not([aria-busy]) svg", **options):
        address = at or request.getfixturevalue("base")
        bases.add(urlsplit(address).netloc)
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.extend(_violations(said.text)))
        page.on("request", lambda request: asked.append(request.url))
        page.asked = asked
        page.goto(f"{address}{hash_}" if address.endswith(".html") else f"{address}/{hash_}")
        page.wait_for_selector(wait)
        return page

    yield go
    for context in contexts:
        context.close()
    assert errors == []
    strangers = [
        url for url in asked if url.startswith("http") and urlsplit(url).netloc not in bases
    ]
    assert strangers == []


@pytest.fixture
def both(visit):
    """Ask the engine of a folder and the server of its run."""
    from regard.server.app import make_app

    clients = []

    def opened(folder, run_path):
        client = TestClient(
            make_app(regard.load(run_path, device="cpu")), base_url="http://127.0.0.1"
        )
        clients.append(client.__enter__())
        return Both(Engine(visit(at=f"{folder.as_uri()}/index.html")), client)

    yield opened
    for client in clients:
        client.__exit__(None, None, None)


def _violations(text):
    return [text] if "Content Security Policy" in text else []
