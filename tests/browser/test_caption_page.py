"""The page of a captioner: words and where each looked, patches that change the caption."""

import base64
import io
import json
from urllib.request import urlopen

import numpy as np
import pytest
from page_parts import READY, control, link, same, served
from picture_runs import captioning_run
from PIL import Image
from playwright.sync_api import expect

import regard
from regard.server.app import make_app

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return captioning_run(tmp_path_factory.mktemp("captions"))


@pytest.fixture(scope="module")
def run(folder):
    """The run to compare with: not the server's, which works in another thread meanwhile."""
    return regard.load(folder, device="cpu")


@pytest.fixture(scope="module")
def at(folder):
    with served(make_app(regard.load(folder, device="cpu"))) as address:
        yield address


@pytest.fixture(scope="module")
def examples(at):
    """Pixels of the examples."""
    with urlopen(f"{at}/api/info") as response:
        told = json.load(response)["examples"]
    files = (io.BytesIO(base64.b64decode(one["text"].partition(",")[2])) for one in told)
    return [np.asarray(Image.open(file).convert("RGB")) for file in files]


@pytest.fixture
def example(examples):
    return examples[0]


def large(page, grid):
    page.wait_for_selector(READY)
    found = page.eval_on_selector_all(
        "#view rect[data-weight][data-s]", "all => all.map(({dataset: d}) => +d.weight)"
    )
    return np.array(found).reshape(grid)


def test_a_word_shows_where_it_looked_and_a_patch_which_words_looked_there(visit, at, run, example):
    page = visit(at=at)
    look, grid = run.explain(example), run.config.grid
    weights = look.weights("decoder.cross")[0]
    expect(page.locator("#said")).to_have_text(look.answer)
    words = page.locator("#view [data-row]")
    expect(words).to_have_count(len(look.target_tokens))
    same(large(page, grid), weights[0].reshape(grid))
    words.nth(2).click()
    page.wait_for_selector('#view [data-row="2"][data-chosen]')
    same(large(page, grid), weights[2].reshape(grid))
    expect(words.nth(2)).to_contain_text(f"β {look.gates[2]:.3f}")
    page.locator('#view rect[data-s="5"]').click()
    page.wait_for_selector('#view [data-patch="5"]')
    shown = page.eval_on_selector_all(
        "#view [data-on-patch]", "all => all.map(one => +one.dataset.onPatch)"
    )
    same(shown, weights[:, 5])


def test_what_is_painted_over_is_not_told_any_more(visit, at, run, examples):
    """Without its blue square, a picture of two squares has one."""
    pixels, (rows, columns) = examples[1], run.config.grid
    side = len(pixels) // rows
    blue = (pixels[..., 2] > 200).reshape(rows, side, columns, side).any(axis=(1, 3))
    places = np.argwhere(blue).tolist()
    page = visit(link(source="example 1"), at=at)
    plain = run.caption(pixels)
    expect(page.locator("#said")).to_have_text(plain)
    for row, column in places:
        page.locator(f'#view rect[data-s="{row * columns + column}"]').click()
        control(page, f"Occlude row {row}, column {column}").check()
    expect(page.locator(".active li")).to_have_count(len(places))
    edits = [{"kind": "occlude", "row": row, "column": column} for row, column in places]
    changed = run.explain(pixels, edit=edits).answer
    assert changed != plain
    expect(page.locator("#said")).to_have_text(changed)
    expect(page.locator("#plain")).to_have_text(plain)
    page.get_by_role("button", name="Undo all").click()
    expect(page.locator("#said")).to_have_text(plain)


def test_the_search_for_a_caption_is_a_tree(visit, at, run, example):
    page = visit(link(view="beam"), at=at)
    page.wait_for_selector("#view [data-node]")
    nodes = run.beam(example, n_beams=4).as_json()["nodes"]
    expect(page.locator("#view [data-node]")).to_have_count(len(nodes))
