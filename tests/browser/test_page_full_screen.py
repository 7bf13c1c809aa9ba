"""The picture on the whole screen, for a lecture room."""

import pytest
from page_parts import READY, SOURCE, control, link
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

CROSS = {"source": SOURCE, "name": "decoder.cross", "layer": 0, "head": 0}
LONG = "a b c d e f g h " * 7 + "a b c d"  # 60 words: more lines than elements


def fill_by_key(page):
    """Press F, and wait until the picture was drawn for the whole screen."""
    page.locator("#view svg").first.evaluate("svg => { svg.dataset.small = ''; }")
    page.keyboard.press("f")
    expect(page.locator("#view [data-small]")).to_have_count(0)
    fills(page)


def fills(page):
    page.wait_for_function("document.fullscreenElement?.id === 'stage'")
    expect(page.locator("#full-screen-said")).to_have_text(
        "The picture fills the screen; F or Escape leaves."
    )


def leaves(page):
    page.wait_for_function("document.fullscreenElement === null")
    expect(page.locator("#full-screen-said")).to_have_text("Full screen is left.")


def height(page, of):
    return page.locator(of).first.bounding_box()["height"]


def test_f_gives_the_picture_the_screen_and_escape_takes_it_back_with_nothing_lost(visit):
    page = visit(link(**CROSS, view="matrix", token=1))
    page.wait_for_selector("#steps svg")
    page.wait_for_selector("#minimap .thumb[data-lost]")
    address, small = page.url, height(page, "#view [data-row] text")
    thumb = control(page, "thumb decoder.cross 0 1")
    thumb.focus()
    fill_by_key(page)
    expect(page.get_by_role("button", name="Leave full screen")).to_be_focused()
    assert height(page, "#view [data-row] text") > 1.2 * small
    for hidden in ("#words", "#calls", ".actions"):
        expect(page.locator(hidden)).to_be_hidden()
    page.keyboard.press("Escape")  # it would also let go of the row
    leaves(page)
    expect(thumb).to_be_focused()
    expect(page.locator("#steps svg")).to_be_visible()
    assert height(page, "#view [data-row] text") == pytest.approx(small, abs=1)
    assert page.url == address


def test_the_button_does_the_same_and_says_what_it_will_do(visit):
    page = visit(link(**CROSS))
    page.get_by_role("button", name="Full screen", exact=True).click()
    fills(page)
    page.get_by_role("tab", name="Matrix").click()  # the page goes on working
    page.wait_for_selector("#view rect[data-weight]")
    page.get_by_role("button", name="Leave full screen").click()
    leaves(page)
    expect(page.get_by_role("tab", name="Matrix")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("button", name="Full screen", exact=True)).to_be_focused()


def test_the_story_stays_at_its_station(visit):
    page = visit(link(**CROSS, view="story", token=1), wait=".station", reduced_motion="reduce")
    control(page, "next").click()
    control(page, "next").click()
    expect(page.locator("#station-now")).to_contain_text("Station 3")
    fill_by_key(page)
    expect(page.locator(".station").nth(2)).to_be_in_viewport()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#station-now")).to_contain_text("Station 4")
    page.keyboard.press("f")
    leaves(page)
    expect(page.locator("#station-now")).to_contain_text("Station 4")


@pytest.mark.parametrize("view", ["lines", "matrix"])
def test_what_is_pointed_at_is_found_and_told_beside_the_pointer(visit, view):
    """Many lines and many cells are pixels: which one is meant is computed from the place."""
    state = {"source": LONG, "name": "encoder.self", "head": 0, "threshold": 0}
    page = visit(link(**{**state, "view": view, "head": "all" if view == "lines" else 0}))
    fill_by_key(page)
    names = page.locator('#view [data-row="3"]').bounding_box()
    drawn = page.locator("#view svg, #view [data-surface]").last.bounding_box()
    y = names["y"] + names["height"] / 2
    x = drawn["x"] + drawn["width"] * (20.5 / 61)
    page.mouse.move(x - 5, y)
    page.mouse.move(x, y)
    tip = page.locator("#view [data-tip]")
    expect(tip).to_contain_text("→")
    box = tip.bounding_box()
    assert abs(box["x"] - x) < 40
    assert abs(box["y"] - y) < 60
    if view == "matrix":
        expect(page.locator("#view [data-surface]")).to_have_attribute("data-cell", "3 20")


def test_f_is_typed_where_one_types(visit):
    page = visit(link(**CROSS))
    page.locator("#source").press("End")
    page.keyboard.type(" f")
    expect(page.locator("#source")).to_have_value(f"{SOURCE} f")
    assert page.evaluate("document.fullscreenElement") is None


def test_where_the_browser_has_none_nothing_is_offered(visit):
    page = visit(link(**CROSS))
    expect(page.locator("#words")).to_contain_text("F shows the picture on the whole screen")
    page.add_init_script("Object.defineProperty(document, 'fullscreenEnabled', { value: false })")
    page.reload()
    page.wait_for_selector(READY)
    expect(page.locator("#full-screen")).to_be_hidden()
    expect(page.locator("#words")).to_contain_text("counted from 0.")
    expect(page.locator("#words")).not_to_contain_text("whole screen")
