"""The page of a run that reads pictures: how one is given, and where it was looked at."""

import base64
import io
import json
import re

import numpy as np
import pytest
from page_parts import READY, control, link, same, served
from picture_runs import counting_run, png, scene
from PIL import Image
from playwright.sync_api import expect

import regard
from regard.server.app import make_app

pytestmark = pytest.mark.browser

N = 4  # patches of a side
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' width='8' height='8'/>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return counting_run(tmp_path_factory.mktemp("counting"))


@pytest.fixture(scope="module")
def run(folder):
    """The run to compare with: not the server's, which works in another thread meanwhile."""
    return regard.load(folder, device="cpu")


@pytest.fixture(scope="module")
def at(folder):
    with served(make_app(regard.load(folder, device="cpu"))) as address:
        yield address


@pytest.fixture
def example(page_info):
    """Pixels of the first example."""
    return pixels_of(page_info["examples"][0]["text"])


@pytest.fixture
def page_info(at):
    from urllib.request import urlopen

    with urlopen(f"{at}/api/info") as response:
        return json.load(response)


def pixels_of(url):
    data = base64.b64decode(url.partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def large(page):
    """(R, C): the weights in the large picture."""
    page.wait_for_selector(READY)
    found = page.eval_on_selector_all(
        "#view rect[data-weight][data-s]", "all => all.map(({dataset: d}) => +d.weight)"
    )
    return np.array(found).reshape(N, N)


def class_row(look, layer, head=None):
    weights = look.weights("encoder.self", layer)
    return (weights.mean(axis=0) if head is None else weights[head])[0, 1:].reshape(N, N)


def shares(page):
    page.wait_for_selector("#against [data-choice]")
    return dict(
        page.locator("#against [data-choice]").evaluate_all(
            "all => all.map(({dataset: d}) => [d.choice, +d.share])"
        )
    )


def test_the_first_example_is_shown_under_the_weights_of_its_class_token(visit, at, run, example):
    page = visit(at=at)
    expect(page.locator("#said")).to_have_text(run.classify(example))
    look = run.explain(example)
    same(large(page), class_row(look, 1))
    control(page, "Layer").select_option("0")
    control(page, "Head").select_option("1")
    expect(page.locator("#view svg")).to_have_attribute(
        "aria-label", "encoder.self, layer 0, head 1: Where <cls> looks"
    )
    same(large(page), class_row(look, 0, 1))
    expect(page.locator("#examples img")).to_have_count(6)
    expect(page.get_by_role("button", name="Example 3")).to_be_visible()
    expect(page.get_by_label("A picture", exact=True)).to_have_attribute("type", "file")


def test_a_patch_tells_who_looks_there_and_where_it_looks_itself(visit, at, run, example):
    page = visit(link(layer=1, head=0), at=at)
    weights = run.explain(example).weights("encoder.self", 1)[0]
    page.locator('#view rect[data-s="6"]').click()
    expect(page.locator('#view [data-patch="6"]')).to_have_count(1)
    on = page.eval_on_selector_all(
        "#view [data-row] [data-on-patch]",
        "all => all.map(one => [one.closest('[data-row]').dataset.row, +one.dataset.onPatch])",
    )
    assert {row for row, _ in on} == {"0", "6"}
    for row, weight in on:
        assert weight == pytest.approx(weights[int(row), 6], abs=1e-6)
    most = int(weights[:, 6].argmax())
    named = run.explain(example).source_tokens[most]
    expect(page.locator("#view svg")).to_contain_text(f"Most looked at by {named} (")
    page.locator('#view [data-row="6"]').click()
    page.wait_for_selector('#view [data-row="6"][data-chosen]')
    same(large(page), weights[6, 1:].reshape(N, N))
    page.keyboard.press("Escape")
    page.wait_for_selector('#view [data-row="0"][data-chosen]')
    expect(page.locator("#view [data-patch]")).to_have_count(0)


def test_a_patch_is_occluded_and_the_answer_follows(visit, at, run, example):
    page = visit(link(layer=1, head=0, patch=6), at=at)
    edit = {"kind": "occlude", "row": 1, "column": 1}
    control(page, "Occlude row 1, column 1").check()
    expect(page.locator(".active li")).to_contain_text("row 1, column 1 of the picture")
    look = run.explain(example, edit=edit)
    same(large(page), class_row(look, 1, 0))
    wanted = {
        one.text: pytest.approx(one.probability, abs=1e-5) for one in look.outcome.places[0].choices
    }
    assert shares(page) == wanted
    shown = page.locator("#view image").first.get_attribute("href")
    assert np.array_equal(pixels_of(shown), look.picture)
    control(page, "Mute it").check()
    expect(page.locator(".active li")).to_have_count(2)
    both = run.explain(
        example, edit=[edit, {"kind": "ablate", "name": "encoder.self", "layer": 1, "head": 0}]
    )
    page.wait_for_function(
        "wanted => document.getElementById('said').textContent === wanted", arg=both.answer
    )
    control(page, "Head").select_option("1")
    expect(page.locator("#view svg")).to_have_attribute(
        "aria-label", "encoder.self, layer 1, head 1: Where <cls> looks"
    )
    same(large(page), class_row(both, 1, 1))
    page.get_by_role("button", name="Example 2").click()  # its patches show something else
    expect(page.locator(".active li")).to_have_count(1)
    expect(page.locator(".active li")).to_contain_text("muted")


def test_all_heads_and_the_rollout_are_maps_too(visit, at, run, example):
    page = visit(link(view="grid"), at=at)
    expect(page.locator("#view [data-layer][data-head]")).to_have_count(4)
    page.locator('#view [data-layer="0"][data-head="1"]').click()
    expect(page.get_by_role("tab", name="Picture")).to_have_attribute("aria-selected", "true")
    same(large(page), class_row(run.explain(example), 0, 1))
    page.get_by_role("tab", name="Rollout").click()
    page.wait_for_selector('#view svg[aria-label^="encoder.self, rollout"]')
    same(large(page), run.explain(example).rollout()[0, 1:].reshape(N, N))
    page.get_by_role("tab", name="Matrix").click()
    expect(page.locator("#view [data-row]")).to_have_count(17)


@pytest.mark.parametrize("how", ["choose", "drop", "paste"])
def test_a_picture_is_chosen_dropped_or_pasted(visit, at, run, how):
    page = visit(at=at)
    given = scene(77, 1)
    file = {"name": "mine.png", "mimeType": "image/png", "buffer": png(given)}
    if how == "choose":
        page.get_by_label("A picture", exact=True).set_input_files(file)
    else:
        page.evaluate(
            """([data, how]) => {
              const bytes = Uint8Array.from(atob(data), (one) => one.charCodeAt(0));
              const transfer = new DataTransfer();
              transfer.items.add(new File([bytes], "mine.png", { type: "image/png" }));
              const where = how === "drop" ? document.getElementById("drop") : document;
              const more = { [how === "drop" ? "dataTransfer" : "clipboardData"]: transfer };
              const kind = how === "drop" ? DragEvent : ClipboardEvent;
              where.dispatchEvent(new kind(how, { bubbles: true, cancelable: true, ...more }));
            }""",
            [base64.b64encode(png(given)).decode(), how],
        )
    expect(page).to_have_url(re.compile("own"))
    look = run.explain(given)
    expect(page.locator("#said")).to_have_text(look.answer)
    page.wait_for_function(
        "is => Math.abs(document.querySelector('#view [data-s]').dataset.weight - is) < 1e-6",
        arg=float(class_row(look, 1)[0, 0]),
    )
    same(large(page), class_row(look, 1))
    page.go_back()
    expect(page.locator("#given")).to_have_attribute(
        "src", page.locator("#examples img").first.get_attribute("src")
    )


def test_a_large_picture_is_made_smaller_before_it_is_sent(visit, at):
    page = visit(at=at)
    big = np.tile(scene(3), (20, 80, 1))  # 640 × 2560
    with page.expect_request(lambda one: one.url.endswith("/api/classify")) as asked:
        page.get_by_label("A picture", exact=True).set_input_files(
            {"name": "big.png", "mimeType": "image/png", "buffer": png(big)}
        )
    assert pixels_of(asked.value.post_data_json["image"]).shape == (256, 1024, 3)


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("a.svg", SVG, "SVG is not read, as it may run scripts"),
        ("a.png", b"no picture", "That is no picture that can be read here"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(visit, at, name, data, told):
    page = visit(at=at)
    before = len(page.asked)
    kind = "image/svg+xml" if name.endswith("svg") else "image/png"
    page.get_by_label("A picture", exact=True).set_input_files(
        {"name": name, "mimeType": kind, "buffer": data}
    )
    expect(page.locator("#trouble")).to_contain_text(told)
    assert not [url for url in page.asked[before:] if "/api/" in url]


def test_a_link_names_an_example_and_never_holds_a_picture(visit, at, run, page_info):
    page = visit(link(source="example 2", patches=True), at=at)
    pixels = pixels_of(page_info["examples"][2]["text"])
    expect(page.locator("#said")).to_have_text(run.classify(pixels))
    same(large(page), class_row(run.explain(pixels), 1))
    expect(control(page, "As patches")).to_be_checked()
    veils = page.locator("#view image").nth(1)
    assert "pixelated" in veils.get_attribute("style")
    assert "base64" not in page.url
    other = visit(link(source="own 5"), at=at)  # of another tab
    expect(other.locator("#given")).to_be_visible()
    same(large(other), class_row(run.explain(pixels_of(page_info["examples"][0]["text"])), 1))


def test_the_keyboard_moves_over_patches_and_chooses(visit, at):
    page = visit(link(layer=1, head=0), at=at)
    page.locator('#view rect[data-s="1"]').focus()
    for key in ("ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    page.wait_for_selector('#view [data-patch="6"]')
    held = "document.activeElement.dataset"
    assert page.evaluate(f"{held}.s") == "6"  # still there after it was drawn anew
    page.keyboard.press("Tab")
    assert page.evaluate(f"{held}.row") == "0"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector('#view [data-row="-1"][data-chosen]')
    assert page.evaluate(f"{held}.row") == "-1"


def test_every_control_has_a_name(visit, at):
    page = visit(link(patch=3), at=at)
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, textarea, img")]
          .filter((one) => one.checkVisibility())
          .filter((one) => !(one.labels?.length || one.getAttribute("aria-label") || one.alt
            || one.textContent.trim() || one.querySelector("img[alt]")))
          .map((one) => one.outerHTML)"""
    )
    assert nameless == []


@pytest.mark.parametrize("view", ["picture", "grid", "rollout"])
def test_a_narrow_page_does_not_scroll_sideways(visit, at, view):
    page = visit(link(view=view, patch=6), at=at)
    page.set_viewport_size({"width": 360, "height": 800})
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("#view svg").bounding_box()["width"] >= 200


def test_the_head_map_shows_how_far_heads_look_and_which_positions_are_alike(visit, at):
    page = visit(link(view="heads"), at=at)
    page.wait_for_selector("#view .figures img")
    figures = page.locator("#view .figures img")
    expect(figures).to_have_count(2)
    assert "Mean attention distance" in figures.nth(0).get_attribute("alt")
    assert "Similarity of learned positions" in figures.nth(1).get_attribute("alt")
    assert figures.evaluate_all("all => all.every(one => one.complete && one.naturalWidth > 0)")
    expect(page.locator("#view thead")).to_contain_text("px")


def test_a_map_is_saved_with_its_picture(visit, at, example):
    page = visit(link(patches=True, head=0, layer=1), at=at)
    page.wait_for_selector(READY)
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save PNG").click()
    found = np.asarray(Image.open(saved.value.path()).convert("RGB"))
    weights = page.eval_on_selector_all(
        "#view rect[data-s]", "all => all.map(({dataset: d}) => +d.weight)"
    )
    where = page.locator("#view rect[data-s]").nth(int(np.argmax(weights)))
    x, y, side = (float(where.get_attribute(key)) for key in ("x", "y", "width"))
    cell = found[int(2 * y) + 4 : int(2 * (y + side)) - 4, int(2 * x) + 4 : int(2 * (x + side)) - 4]
    row, column = divmod(int(np.argmax(weights)), N)
    patch = example[8 * row : 8 * row + 8, 8 * column : 8 * column + 8]
    np.testing.assert_allclose(cell.mean(axis=(0, 1)), patch.mean(axis=(0, 1)), atol=6)
