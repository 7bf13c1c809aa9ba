"""Words that change places: dragged, or chosen one after the other."""

import pytest
from page_parts import SOURCE, control, link
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

SWAP = {"kind": "swap", "first": 0, "second": 2}


def chip(page, i):
    return control(page, f"swap word {i}")


def swapped(page, run):
    """Whether the page shows the first and the third word swapped."""
    look = run.explain(SOURCE, edit=SWAP)
    expect(page.locator("#switches .active")).to_contain_text("“a” and “c” swapped")
    expect(page.locator("#said")).to_have_text(look.translation)
    expect(page.locator("#effect-title")).to_have_text("Before → after")
    expect(page.locator(".draggable .chip")).to_have_text(["c", "b", "a", "d"])


def test_a_word_is_dragged_onto_another(visit, run):
    page = visit(link(source=SOURCE))
    chip(page, 0).drag_to(chip(page, 2))
    swapped(page, run)


def test_words_are_swapped_by_the_keyboard_alone(visit, run):
    page = visit(link(source=SOURCE))
    chip(page, 0).press("Enter")
    expect(chip(page, 0)).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#switches")).to_contain_text("“a” is held")
    page.keyboard.press("Escape")
    expect(chip(page, 0)).to_have_attribute("aria-pressed", "false")
    chip(page, 0).press("Enter")
    chip(page, 2).press("Enter")
    swapped(page, run)


def test_a_word_that_is_dropped_elsewhere_stays(visit):
    page = visit(link(source=SOURCE))
    chip(page, 1).drag_to(page.locator("#what-if-title"))
    expect(page.locator("#switches")).to_contain_text("Drag a word onto another")
    expect(chip(page, 1)).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#switches .active")).to_have_count(0)
