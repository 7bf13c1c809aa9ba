"""The drawing of the model on the page, and pictures that are saved."""

import re
from xml.etree import ElementTree

import pytest

pytestmark = pytest.mark.browser
SVG = "{http://www.w3.org/2000/svg}"


def test_the_drawing_comes_when_it_is_opened_and_is_saved_as_it_is(visit, run):
    page = visit()
    assert not [url for url in page.asked if url.endswith("/api/drawing")]
    page.get_by_text("The model, drawn").click()
    drawn = page.locator("#drawing svg")
    drawn.wait_for()
    n = sum(one.numel() for one in run.model.parameters())
    assert f"{n:,} parameters" in drawn.get_attribute("aria-label")
    assert drawn.locator("style").count() == 0  # it would colour all pictures of the page
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save SVG").click()
    assert saved.value.suggested_filename == "model.svg"
    assert ElementTree.parse(saved.value.path()).getroot().find(f"{SVG}style") is not None


def test_the_drawing_is_in_the_ink_of_the_page(visit):
    inks = []
    for scheme in ("light", "dark"):
        page = visit(color_scheme=scheme)
        page.get_by_text("The model, drawn").click()
        text = page.locator("#drawing svg text").first
        inks.append(text.evaluate("one => getComputedStyle(one).fill"))
    assert inks == ["rgb(31, 33, 38)", "rgb(230, 228, 222)"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_saved_picture_is_for_paper_and_has_a_title(visit, scheme):
    page = visit("#view=matrix", color_scheme=scheme)
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save SVG").click()
    text = saved.value.path().read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    assert root.find(f"{SVG}title").text
    assert root.get("color") == "#1f2126"
    assert root.find(f"{SVG}rect").get("fill") == "#ffffff"
    assert not re.search("#56B4E9|#16181c|rgb\\(22, 24, 28\\)", text)


def test_the_page_and_a_single_file_begin_with_the_same_view_and_words(visit, browser, run):
    page = visit()
    alone = browser.new_page()
    alone.set_content(run.explain("a b c").as_file("html"))
    alone.locator(".view svg").wait_for()
    assert alone.locator("h1").inner_text() == "a b c"
    view = page.get_by_role("tab", selected=True).inner_text()
    assert alone.locator("button[aria-pressed=true]").inner_text() == view
    for one in (page.locator("#controls"), alone.locator(".controls")):
        assert "Hide below 0.10" in one.inner_text()
    for label in ("Attention", "Layer", "Head"):
        assert alone.get_by_label(label, exact=True).is_visible()
    alone.close()
