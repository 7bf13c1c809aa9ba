"""The story, the mini-map, words explained, lessons and two sentences, in a real browser."""

import re

import numpy as np
import pytest
from page_parts import SOURCE, control, link
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

READY = "#view:not([aria-busy]) .station"
CROSS = {"source": SOURCE, "name": "decoder.cross", "layer": 0, "head": 0}


def station(page, name):
    return page.locator(f'[data-station="{name}"]')


def numbers(page, name):
    texts = station(page, name).locator(".rows .number").all_inner_texts()
    return [float(text.replace("−", "-").lstrip("<> ").removesuffix(" %")) for text in texts]


def tell(visit, **state):
    return visit(link(**{**CROSS, "view": "story", "token": 1, **state}), wait=READY)


def test_the_story_shows_the_numbers_of_the_run(visit, run):
    page = tell(visit)
    look = run.explain(SOURCE)
    steps = look.steps(1, name="decoder.cross", layer=0, head=0)
    np.testing.assert_allclose(numbers(page, "softmax"), 100 * steps.weights, atol=0.1)
    np.testing.assert_allclose(numbers(page, "scores"), steps.scores, atol=0.006)
    np.testing.assert_allclose(numbers(page, "scale"), steps.scaled, atol=0.006)
    expect(station(page, "words").locator(".chip")).to_have_text([*look.source_tokens])
    expect(station(page, "word").locator(".chip.here")).to_have_text(look.target_tokens[1])
    best = station(page, "probabilities").locator("li").first
    expect(best).to_contain_text(look.target_tokens[1])


def test_a_story_that_comes_late_is_not_drawn_over_another_view(visit):
    page = tell(visit)
    waiting = []
    page.route("**/api/story", lambda route: waiting.append(route))
    control(page, "Head").select_option("1")
    page.wait_for_function("() => location.hash.includes('head=1')")
    while not waiting:
        page.wait_for_timeout(20)
    page.get_by_role("tab", name="Matrix").click()
    expect(page.locator("#view svg").first).to_be_visible()
    with page.expect_response("**/api/story"):
        waiting[0].continue_()
    page.wait_for_timeout(200)  # what is drawn late is drawn by then
    assert page.locator(".station").count() == 0


def test_a_sign_in_a_sentence_leaves_its_words_explained(visit):
    page = tell(visit)
    said = """import("/static/glossary.js").then(({ explained }) =>
        explained("“[” makes a [query] and [zebra]").map((one) => one.textContent ?? one))"""
    parts = page.evaluate(said)
    (query,) = [part for part in parts if part.startswith("query")]  # with what it means
    assert "".join(parts).replace(query, "query") == "“[” makes a query and [zebra]"


def test_a_number_opens_into_its_products(visit, run):
    page = tell(visit)
    steps = run.explain(SOURCE).steps(1, name="decoder.cross", layer=0, head=0)
    chosen = station(page, "scores").locator(".rows button").nth(2)
    chosen.click()
    expect(chosen).to_have_attribute("aria-pressed", "true")
    said = station(page, "scores").get_by_role("status").inner_text()
    total = float(re.search(r"sum to (\S+)\.$", said)[1].replace("−", "-"))
    assert total == pytest.approx(float(steps.query @ steps.keys[2]), abs=6e-4)


def test_scores_that_are_no_products_are_not_shown_as_such(visit):
    page = tell(visit)
    expect(station(page, "scores")).to_be_visible()

    def additive(route):
        found = route.fetch().json()
        found["steps"]["scores"] = [score + 1 for score in found["steps"]["scores"]]
        route.fulfill(json=found)

    page.route("**/api/story", additive)
    control(page, "follow 2").click()
    expect(station(page, "compared")).to_be_visible()
    expect(station(page, "scores")).to_have_count(0)


def test_one_steps_with_buttons_and_with_arrow_keys(visit):
    page = tell(visit)
    now = page.locator("#station-now")
    control(page, "next").click()
    expect(now).to_have_text(re.compile("Station 2 of"))
    expect(page.locator("#station-pieces")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(now).to_have_text(re.compile("Station 3 of"))
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#station-pieces")).to_be_focused()
    control(page, "station 6").click()
    expect(page.locator("#station-softmax")).to_be_focused()
    expect(control(page, "station 6")).to_have_attribute("aria-current", "step")


def test_nothing_plays_for_who_wants_it_still(visit):
    still = tell(visit, token=1)
    expect(control(still, "play")).to_have_text("Play")
    page = visit(link(**CROSS, view="story"), wait=READY, reduced_motion="reduce")
    expect(control(page, "play")).to_have_count(0)
    expect(control(page, "next")).to_be_visible()


def test_another_word_and_another_head_have_their_own_story(visit, run):
    page = tell(visit)
    control(page, "follow 2").click()
    expect(page.locator(".intro h2")).to_contain_text(run.explain(SOURCE).target_tokens[2])
    control(page, "Attention").select_option("encoder.self")
    expect(station(page, "handed")).to_be_visible()
    expect(station(page, "probabilities")).to_have_count(0)


def test_an_edit_is_seen_in_the_story(visit):
    page = tell(visit, edits=[{"kind": "ablate", "name": "decoder.cross", "layer": 0, "head": 0}])
    assert numbers(page, "softmax") == [0.0] * (len(SOURCE.split()) + 1)
    expect(page.locator(".intro")).to_contain_text("This head is muted")


# ------------------------------------------------------------------ the mini-map


def measured(page, **heads):
    """Stand in for the measuring of heads; -> what was asked."""
    asked = []

    def answer(route):
        asked.append(route.request.post_data_json)
        found = [{"attention": "decoder.cross", "layer": 0, **one} for one in heads["heads"]]
        route.fulfill(json={"token": "b", "probability": 0.9, "heads": found})

    page.route("**/api/importance", answer)
    return asked


def side(page, head):
    thumb = control(page, f"thumb decoder.cross 0 {head}").locator("canvas")
    return thumb.bounding_box()["width"]


def test_heads_are_as_large_as_what_the_word_loses_without_them(visit):
    page = visit()
    asked = measured(page, heads=[{"head": 0, "without": 0.1}, {"head": 1, "without": 0.9}])
    page.evaluate("hash => location.hash = hash", link(**CROSS, token=1))
    page.reload()
    expect(page.locator("#minimap [role=status]")).to_contain_text("“b” has 90.0 %")
    assert asked[-1]["step"] == 1
    assert asked[-1]["source"] == SOURCE
    assert side(page, 0) > 2 * side(page, 1)
    control(page, "Head sizes: what is lost of this word").select_option("0")
    expect(page.locator("#minimap [role=status]")).to_contain_text("“b” has 90.0 %")
    assert asked[-1]["step"] == 0


def test_without_measures_all_heads_are_alike_and_the_map_says_why(visit):
    page = visit()
    page.route("**/api/importance", lambda route: route.fulfill(status=404, json={}))
    page.evaluate("hash => location.hash = hash", link(**CROSS, token=1))
    page.reload()
    expect(page.locator("#minimap [role=status]")).to_contain_text("All of one size")
    assert side(page, 0) == side(page, 1)


def test_a_click_enters_a_head_and_a_press_mutes_it(visit):
    page = visit(link(**{**CROSS, "head": None}))
    thumb = control(page, "thumb decoder.cross 0 1")
    thumb.click()
    expect(control(page, "Head")).to_have_value("1")
    expect(thumb).to_have_attribute("aria-current", "true")
    thumb.click(delay=700)
    expect(thumb).to_have_class("thumb muted")
    expect(page.locator("#switches")).to_contain_text("decoder.cross, layer 0, head 1: muted")
    thumb.press("m")
    expect(thumb).to_have_class("thumb")
    control(page, "mute").click()
    expect(thumb).to_have_class("thumb muted")


# ------------------------------------------------------------------ words, lessons, two sentences


def test_a_word_says_what_it_means(visit):
    page = visit()
    term = page.locator("#words .term", has_text="a query")
    meaning = page.locator(".meaning:popover-open")
    expect(meaning).to_have_count(0)
    term.press("Enter")
    expect(meaning).to_contain_text("what am I looking for?")
    expect(meaning.locator("svg")).to_be_visible()
    page.keyboard.press("Escape")
    expect(meaning).to_have_count(0)
    expect(term).to_be_focused()


def test_attentions_are_named_by_what_they_do(visit):
    page = visit(link(source=SOURCE))
    options = control(page, "Attention").locator("option")
    plain = ["reads", "looks back", "writes, looking at what was read"]
    names = ["encoder.self", "decoder.self", "decoder.cross"]
    said = [f"{one} · {name}" for one, name in zip(plain, names, strict=True)]
    assert sorted(options.all_inner_texts()) == sorted(said)
    page.route("**/api/info", in_two_languages)
    page.reload()
    expect(options.first).to_have_text("reads English · encoder.self")


def in_two_languages(route):
    found = route.fetch()
    route.fulfill(response=found, json={**found.json(), "languages": ["en", "fr"]})


def test_a_lesson_asks_first_and_then_tells(visit, run):
    page = visit(link(source=SOURCE))
    page.locator("#lessons summary").click()
    control(page, "lesson positions").click()
    lesson = page.locator("#lesson")
    expect(lesson.locator("#lesson-title")).to_have_text("Remove positions")
    lesson.get_by_role("button", name="stays the same").click()
    expect(lesson.locator(".verdict")).to_contain_text("You said “stays the same”")
    changed = run.explain(SOURCE, edit=[{"kind": "no_positions"}]).translation
    expect(lesson).to_contain_text(f"Now: “{changed}”")
    expect(page.locator("#switches")).to_contain_text("positions are off")
    lesson.get_by_role("button", name="makes no difference").click()
    swap = {"kind": "swap", "first": 0, "second": len(SOURCE.split()) - 1}
    swapped = run.explain(SOURCE, edit=[{"kind": "no_positions"}, swap]).translation
    said = "the order is lost" if swapped == changed else f"Now: “{swapped}”"
    expect(lesson).to_contain_text(said)
    control(page, "lesson next").click()
    expect(lesson).to_contain_text("Positions are back")
    expect(page.locator("#view .station.here")).to_have_attribute("data-station", "vector")
    expect(page.locator("#switches .active")).to_have_count(0)
    control(page, "lesson end").click()
    expect(lesson).to_be_hidden()


def test_a_question_can_be_skipped_and_a_lesson_left(visit):
    page = visit(link(source=SOURCE))
    page.locator("#lessons summary").click()
    control(page, "lesson soft").click()
    control(page, "lesson next").click()
    expect(page.locator("#lesson .verdict")).to_contain_text("The answer:")
    control(page, "lesson end").click()
    expect(page.locator("#lesson")).to_be_hidden()


def test_two_sentences_are_lit_together(visit, run):
    page = visit(link(**CROSS, view="compare", beside="b a c d"), wait=".beside-each svg")
    both = page.locator(".beside-each .canvas")
    expect(both).to_have_count(2)
    both.nth(0).locator('[data-t="1"][data-s="2"]').hover()
    for one in (both.nth(0), both.nth(1)):
        expect(one.locator('[data-t="1"][data-s="2"]')).to_have_class("lit")
        expect(one.locator('[data-column="2"]')).to_have_class("lit")
    weight = both.nth(1).locator('[data-t="1"][data-s="2"]').get_attribute("data-weight")
    expected = run.explain("b a c d").weights("decoder.cross")[0, 1, 2]
    assert float(weight) == pytest.approx(float(expected), abs=1e-6)
    control(page, "swap sentences").click()
    expect(page.locator("#source")).to_have_value("b a c d")


def test_the_map_is_about_the_word_that_the_headline_is_about(visit):
    page = visit(link(source=SOURCE))
    chosen = control(page, "Head sizes: what is lost of this word")
    shares = page.evaluate(
        """async source => {
          const headers = {"Content-Type": "application/json"};
          const body = JSON.stringify({source});
          const found = await fetch("/api/explain", {method: "POST", headers, body});
          return (await found.json()).probabilities;
        }""",
        SOURCE,
    )
    expect(chosen).to_have_value(str(shares.index(min(shares))))  # the least certain one


def test_a_temperature_is_a_factor_of_its_own_beside_the_scale(visit):
    edits = [{"kind": "temperature", "value": 0.5, "name": None}]
    page = tell(visit, edits=edits)
    plain = tell(visit)
    d = int(re.search(r"Keys have (\d+) numbers", station(plain, "scale").inner_text())[1])
    own = f"{d**-0.5:.3f}"
    expect(station(plain, "scale")).to_contain_text(f"1/√{d} = {own}")
    expect(station(plain, "scale").locator(".formula")).to_have_text(re.compile(rf"· {own}$"))
    expect(station(page, "scale")).to_contain_text(f"1/√{d} = {own}")
    expect(station(page, "scale")).to_contain_text("The what-if divides them by its temperature")
    expect(station(page, "scale").locator(".formula")).to_have_text(re.compile(rf"· {own} / 0.5$"))


def test_the_address_keeps_the_station(visit):
    page = tell(visit)
    control(page, "station 6").click()
    expect(page).to_have_url(re.compile("station=softmax"))
    linked = tell(visit, station="softmax")
    expect(linked.locator('[data-station="softmax"]')).to_have_class(re.compile("here"))
    expect(control(linked, "station 6")).to_have_attribute("aria-current", "step")
    expect(linked).to_have_url(re.compile("station=softmax"))
    linked.get_by_role("tab", name="Matrix").click()
    expect(linked).not_to_have_url(re.compile("station="))


def test_the_story_says_that_it_is_not_saved_as_a_picture(visit):
    page = tell(visit)
    expect(page.get_by_role("button", name="Save SVG")).to_be_disabled()
    expect(page.get_by_role("button", name="Save PNG")).to_be_disabled()
    expect(page.locator("#unsaved")).to_be_visible()
    page.get_by_role("tab", name="Matrix").click()
    expect(page.get_by_role("button", name="Save SVG")).to_be_enabled()
    expect(page.locator("#unsaved")).to_be_hidden()
