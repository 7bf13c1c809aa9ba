"""The page of a detector: objects by name, their boxes, and where the query of each looked."""

import re

import pytest
from detectors import recipe, write_shapes
from page_parts import READY, link, served
from playwright.sync_api import expect

import regard
from regard.runs.train import train
from regard.server.app import make_app

pytestmark = pytest.mark.browser

ACROSS = [
    {"kind": "ablate", "name": "decoder.cross", "layer": i, "head": j}
    for i in (0, 1)
    for j in range(4)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    data = write_shapes(tmp_path_factory.mktemp("shapes"))
    out = tmp_path_factory.mktemp("runs") / "shapes"
    train(recipe(data), out, device="cpu")
    return out


@pytest.fixture(scope="module")
def at(folder):
    with served(make_app(regard.load(folder, device="cpu"))) as address:
        yield address


def names(page):
    page.wait_for_selector("#against [data-choice]")
    return page.locator("#against [data-choice]").evaluate_all(
        "all => all.map((one) => one.dataset.choice)"
    )


def test_objects_are_named_outlined_and_can_be_chosen(visit, at, folder):
    page = visit(at=at)
    run = regard.load(folder, device="cpu")
    program = {"User-Agent": "a program"}  # a browser would have to say whose page asks
    info = page.request.get(f"{at}/api/info", headers=program).json()
    first = info["examples"][0]["text"]
    found = run.detect(first)
    assert found
    expect(page.locator("#said")).to_have_text(", ".join(one.label for one in found))
    assert names(page) == [one.label for one in found]
    page.wait_for_selector(READY)
    page.locator("#against [data-choice] button").first.click()
    look = run.explain(first)
    row = look.boxes[0]["row"]
    told = re.compile(f"^decoder.cross, layer 1, .*: Where {look.target_tokens[row]} looks$")
    expect(page.locator("#view svg")).to_have_attribute("aria-label", told)


def test_what_an_edit_hides_is_not_told_as_found(visit, at):
    page = visit(link(edits=ACROSS), at=at)
    page.wait_for_selector(READY)
    expect(page.locator("#said")).to_have_text("nothing")
