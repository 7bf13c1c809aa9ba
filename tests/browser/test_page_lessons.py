"""Lessons in a real browser: their card stays in view, and what they say is what was measured."""

from urllib.parse import quote_plus

import pytest
from page_parts import SOURCE, control, link
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

TIRED = "the animal did not cross the street because it was too tired"
SIZES = {"desk": (1440, 900), "phone": (390, 844)}


@pytest.fixture
def page(visit):
    """The page of a run that knows pronouns, whose words rest on head 1 of its cross-attention."""

    def read_another(route):  # the short run knows none of the lesson's words
        url = route.request.url.replace(quote_plus(TIRED), quote_plus(SOURCE))
        sent = (route.request.post_data or "").replace(TIRED, SOURCE)
        route.continue_(url=url, post_data=sent or None)

    def info(route):
        told = {"pronouns": ["it"], "written": ["il", "elle"]}
        route.fulfill(json={**route.fetch().json(), "antecedents": told})

    heads = [
        {"attention": "decoder.cross", "layer": 0, "head": head, "without": without}
        for head, without in ((0, 0.9), (1, 0.35))
    ]
    weighed = {"token": "il", "probability": 0.93, "heads": heads}
    opened = visit(link(source=SOURCE))
    opened.route("**/api/**", read_another)
    opened.route("**/api/info", info)
    opened.route("**/api/heads/progress", lambda route: route.fulfill(json={"state": "idle"}))
    opened.route("**/api/importance", lambda route: route.fulfill(json=weighed))
    opened.reload()
    return opened


def begin(page, lesson):
    page.locator("#lessons summary").click()
    control(page, f"lesson {lesson}").click()
    page.wait_for_selector("#lesson .choices button:enabled")


def answer(page):
    page.locator("#lesson .choices button").first.click()
    expect(page.locator("#lesson .verdict")).to_contain_text("You said")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("lesson", ["break", "soft"])
def test_the_reply_and_the_way_on_are_in_view_beside_the_picture(page, size, lesson):
    width, height = SIZES[size]
    page.set_viewport_size({"width": width, "height": height})
    begin(page, lesson)
    answer(page)
    page.wait_for_selector("#view:not([aria-busy])")
    page.wait_for_timeout(600)  # a page that scrolls away does so smoothly
    expect(page.locator("#lesson .verdict")).to_be_in_viewport(ratio=1)
    expect(control(page, "lesson next")).to_be_in_viewport(ratio=1)
    expect(page.locator("#view")).to_be_in_viewport(ratio=0.2)


def test_the_head_that_is_broken_is_the_one_of_the_headline(page):
    begin(page, "break")
    place = "layer 0, head 1, which writes, looking at what was read (decoder.cross)"
    expect(page.locator("#rests")).to_contain_text(place)
    expect(page.locator("#lesson")).to_contain_text(f"“il” loses most without {place}")
    answer(page)
    muted = page.locator(".active li span")
    expect(muted).to_have_text("decoder.cross, layer 0, head 1: muted")


def test_a_lesson_leads_to_the_next(page):
    begin(page, "break")
    answer(page)
    control(page, "lesson next").click()
    control(page, "next lesson").click()
    expect(page.locator("#lesson-title")).to_have_text("Remove positions")
    expect(page.locator("#lesson")).to_contain_text("Step 1 of 4")


def test_a_beam_is_compared_with_a_greedy_search(visit, run):
    page = visit(link(source=SOURCE))
    begin(page, "beam")
    answer(page)
    greedy = run.explain(SOURCE).target_tokens
    written = " ".join(token for token in greedy if token != "</s>")
    expect(page.locator("#lesson")).to_contain_text(f"Greedy: “{written}”")
    control(page, "lesson next").click()
    expect(page.locator("#lesson")).to_contain_text("its positions are gone. And now?")
    expect(page.locator(".active li span")).to_have_text("positions are off")
