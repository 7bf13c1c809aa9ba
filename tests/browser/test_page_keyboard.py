"""The page by keyboard, by the browser's own buttons, and on a narrow screen."""

import pytest
from page_parts import ABLATE, READY, SOURCE, link
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def focused(page):
    return page.evaluate("document.activeElement.closest('#view, #steps, #switches')?.id ?? null")


def test_the_way_back_leads_to_the_last_sentence(visit, run):
    page = visit(link(source=SOURCE))
    page.locator("#source").fill("d e")
    page.locator("#source").press("Enter")
    expect(page.locator("#said")).to_have_text(run.explain("d e").translation)
    page.get_by_role("tab", name="Matrix").click()  # a view is no place to go back to
    page.wait_for_selector("#view rect[data-weight]")
    page.go_back()
    expect(page.locator("#source")).to_have_value(SOURCE)
    expect(page.locator("#said")).to_have_text(run.explain(SOURCE).translation)
    page.go_forward()
    expect(page.locator("#said")).to_have_text(run.explain("d e").translation)


@pytest.mark.parametrize("way", ["Escape", "Close", "Escape from afar"])
def test_closed_steps_give_the_focus_back_to_their_row(visit, way):
    page = visit(link(source=SOURCE, view="matrix", head=0))
    page.locator('#view [data-row="2"]').focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#steps svg")
    if way != "Escape from afar":
        page.get_by_role("button", name="Close").focus()
    page.keyboard.press("Enter" if way == "Close" else "Escape")
    expect(page.locator("#steps")).to_be_hidden()
    expect(page.locator('#view [data-row="2"]')).to_be_focused()


def test_what_is_taken_back_leaves_the_focus_among_the_switches(visit):
    hot = {"kind": "temperature", "value": 2.0, "name": None}
    page = visit(link(source=SOURCE, edits=[ABLATE, hot]))
    for left in (1, 0):
        page.locator(".active li button").first.focus()
        page.keyboard.press("Enter")
        expect(page.locator(".active li")).to_have_count(left)
        page.wait_for_function("document.activeElement.closest('#switches')")
    assert focused(page) == "switches"


def test_going_on_from_a_branch_and_back_keeps_the_focus(visit):
    page = visit(link(source=SOURCE, view="beam", beams=2), wait="#view [data-node]")
    page.locator("#view [data-node]").nth(1).click()
    for name in ("Go on from here", "From the start again"):
        page.get_by_role("button", name=name).focus()
        page.keyboard.press("Enter")
        page.wait_for_selector(READY)
        page.wait_for_function("document.activeElement.closest('#view')")


@pytest.mark.parametrize("source", ["a b", "d"])
def test_the_headings_of_the_lines_are_whole(visit, source):
    page = visit(link(source=source))
    picture = page.locator("#view svg").bounding_box()
    for heading in ("target", "source"):
        box = page.locator("#view svg text", has_text=heading).bounding_box()
        assert box["x"] >= picture["x"]
        assert box["x"] + box["width"] <= picture["x"] + picture["width"]


def test_on_a_narrow_screen_the_softmax_is_in_sight_and_the_values_stand_below(visit):
    page = visit(link(source="a b c d e f g h", head=0))
    wide = page.locator("#view svg").get_attribute("width")
    page.set_viewport_size({"width": 360, "height": 740})
    expect(page.locator("#view svg")).not_to_have_attribute("width", wide)  # drawn again
    page.locator('#view [data-row="1"]').click()
    scroller = page.locator("#steps [data-scroller]")
    scroller.wait_for()
    page.locator("#rests:not([aria-busy])").wait_for()  # what it says moves all below it
    weight = page.locator("#steps g[data-s='0'] text").nth(2)  # score, scaled, weight
    edge = scroller.bounding_box()
    box = weight.bounding_box()
    assert box["x"] + box["width"] <= edge["x"] + edge["width"]
    values = page.locator("#steps svg text", has_text="6 weight × value").bounding_box()
    assert values["y"] > box["y"]
    assert values["x"] + values["width"] <= edge["x"] + edge["width"]
    page.set_viewport_size({"width": 360, "height": 300})
    expect(scroller).to_have_attribute("data-more", "")  # the page scrolls, not a box in it
