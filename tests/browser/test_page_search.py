"""Searching held-out sentences for what a head does, on the page."""

import pytest
from page_parts import READY, SOURCE, control, link
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

CROSS = {"source": SOURCE, "name": "decoder.cross", "layer": 0, "head": 0, "view": "matrix"}


def test_what_was_found_is_listed_and_opened_by_a_click(visit, run):
    page = visit(link(**CROSS, token=1))
    row = run.explain(SOURCE).target_tokens[1]
    page.locator("#search summary").click()
    expect(control(page, "From")).to_have_value(row)  # that of the chosen row
    control(page, "to").select_option("b")
    control(page, "search").click()
    found = run.search(row, "b", name="decoder.cross", layer=0, head=0)
    matches = page.locator("#search .match")
    expect(matches).to_have_count(len(found.found), timeout=60_000)  # a process reads the data
    expect(page.locator("#search-said")).to_contain_text(
        f"{len(found.weights)} of {found.n} held-out sentences have such a pair"
    )
    best = found.found[0]
    assert float(matches.first.get_attribute("data-weight")) == pytest.approx(best.weight, abs=1e-6)
    expect(matches.first.locator("mark.from")).to_have_text(row)
    expect(matches.first.locator("mark.to")).to_have_text("b")
    matches.first.click()
    expect(page.locator("#source")).to_have_value(best.source)
    expect(page.locator("#said")).to_have_text(best.answer)
    page.wait_for_function(
        """([t, s, weight]) => {
             const cell = document.querySelector(`#view [data-t="${t}"][data-s="${s}"]`);
             return Math.abs(weight - cell?.dataset.weight) < 1e-6;
           }""",
        arg=[best.t, best.s, best.weight],
    )
    page.go_back()
    expect(page.locator("#source")).to_have_value(SOURCE)


def test_without_one_head_it_says_what_to_do(visit):
    page = visit(link(source=SOURCE))
    page.locator("#search summary").click()
    expect(page.locator("#search")).to_contain_text("Pick one head first")
    control(page, "thumb decoder.cross 0 1").click()
    expect(control(page, "search")).to_be_visible()
    page.wait_for_selector(READY)


def test_what_the_server_refuses_is_told(visit):
    page = visit(link(**CROSS))
    said = {"error": "split 'valid' has no text that can be looked at"}
    page.route("**/api/search", lambda route: route.fulfill(status=422, json=said))
    page.locator("#search summary").click()
    control(page, "search").click()
    expect(page.locator("#search .trouble")).to_contain_text("no text that can be looked at")


def test_sentences_that_were_not_searched_are_told_and_the_rest_can_be_asked_for(visit):
    page = visit(link(**CROSS))
    sides = {side: {"token": "a", "kinds": []} for side in ("row", "column")}
    some = {**sides, "n": 5, "of": 30, "n_passed_over": 2, "n_left_out": 1}
    answers = [{**some, "complete": False}, {**some, "n": 27, "complete": True}]
    more = {"n_having": 0, "mean": None, "found": []}
    page.route("**/api/search", lambda route: route.fulfill(json={**answers.pop(0), **more}))
    page.locator("#search summary").click()
    control(page, "search").click()
    missing = page.locator("#search-missing")
    expect(missing).to_contain_text("Passed over: 2 sentences")
    expect(missing).to_contain_text("Left out: 1 sentence,")
    expect(missing).to_contain_text("22 sentences of 30 are still to be looked at")
    control(page, "search the rest").click()
    expect(page.locator("#search-said")).to_contain_text("none of 27 held-out sentences")
    expect(control(page, "search the rest")).to_have_count(0)
    expect(missing).to_contain_text("Left out: 1 sentence,")
