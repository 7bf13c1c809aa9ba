"""Two heads and two runs side by side."""

import pytest
from page_parts import ABLATE, SOURCE, control, link, same, served
from playwright.sync_api import expect

import regard
from regard.runs.train import train
from regard.server.app import make_app
from regard.tasks.recipe import recipe_from

pytestmark = pytest.mark.browser

BOTH = ".beside-each > div:nth-child(2) svg"
CROSS = {"source": SOURCE, "name": "decoder.cross", "layer": 0, "head": 0, "view": "compare"}


def weights_of(page, i):
    """(T, S) of the matrix of one side."""
    cells = page.locator(f".beside-each > div:nth-child({i + 1})").locator("rect[data-weight]")
    found = cells.evaluate_all("all => all.map(({dataset: d}) => [+d.t, +d.s, +d.weight])")
    n_columns = 1 + int(max(one[1] for one in found))
    rows = [one[2] for one in sorted(found)]
    return [rows[i : i + n_columns] for i in range(0, len(rows), n_columns)]


def test_two_heads_of_a_sentence_are_lit_together(visit, run):
    page = visit(link(**CROSS, versus="head"), wait=BOTH)
    weights = run.explain(SOURCE).weights("decoder.cross")
    for i in (0, 1):  # the next head is proposed
        same(weights_of(page, i), weights[i])
    both = page.locator(".beside-each .canvas")
    both.nth(0).locator('[data-t="1"][data-s="2"]').hover()
    expect(both.nth(1).locator('[data-t="1"][data-s="2"]')).to_have_class("lit")
    expect(page.locator("#difference")).to_contain_text("Largest difference")
    control(page, "Head beside").select_option("")
    expect(page.locator(".beside-each h2").last).to_have_text("Layer 0, mean of all heads")
    same(weights_of(page, 1), weights.mean(axis=0))
    assert "rival" in page.url


def test_what_is_compared_is_chosen_and_a_link_keeps_it(visit):
    page = visit(link(**CROSS), wait=BOTH)
    expect(control(page, "Compare").locator("option")).to_have_text(["two sentences", "two heads"])
    control(page, "Compare").select_option("head")
    expect(page.locator(".beside-each h2").last).to_have_text("Layer 0, head 1")
    page.reload()
    expect(page.locator(".beside-each h2").last).to_have_text("Layer 0, head 1")


@pytest.fixture(scope="module")
def deeper(settings, tmp_path_factory):
    """Another run of the same task: of two layers, hardly trained."""
    out = tmp_path_factory.mktemp("beside") / "deeper"
    model, short = {**settings["model"], "n_layers": 2}, {**settings["train"], "max_steps": 5}
    train(recipe_from({**settings, "model": model, "train": short}), out)
    return regard.load(out, device="cpu")


def test_two_runs_show_both_answers_and_attentions(visit, run, run_path, deeper):
    app = make_app(regard.load(run_path, device="cpu"), beside=deeper)
    with served(app) as at:
        page = visit(link(**CROSS, versus="run", edits=[ABLATE]), at=at, wait=BOTH)
        expect(page.locator(".beside-each h2")).to_have_text(["short", "deeper"])
        looks = [run.explain(SOURCE, edit=ABLATE), deeper.explain(SOURCE)]
        for i, look in enumerate(looks):
            expect(page.locator(".beside-each .hint").nth(i)).to_have_text(f"→ {look.translation}")
            same(weights_of(page, i), look.weights("decoder.cross", 0)[0])
