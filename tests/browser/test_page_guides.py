"""What keeps a reader on the way: what is changed is named, what is asked for comes into sight."""

import pytest
from page_parts import ABLATE, SOURCE, control, link
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

PHONE = {"width": 390, "height": 844}
OFF = {"kind": "no_positions"}
SWAP = {"kind": "swap", "first": 0, "second": 2}
LONGER = {"kind": "force_token", "position": 0, "token": "d"}
STORY = "#view:not([aria-busy]) .station"


def station(page, name):
    return page.locator(f'[data-station="{name}"]')


def weighed(page, *, name="decoder.cross", head=1):
    """From now on every word rests on this head of the first layer alone."""
    heads = [
        {"attention": one, "layer": 0, "head": h, "without": 0.2 if (one, h) == (name, head) else 1}
        for one in ("encoder.self", "decoder.self", "decoder.cross")
        for h in (0, 1)
    ]
    found = {"token": "b", "probability": 1, "heads": heads}
    page.route("**/api/importance", lambda route: route.fulfill(json=found))


def at_phone(visit, **state):
    page = visit(link(source=SOURCE, **state))
    page.set_viewport_size(PHONE)
    page.reload()
    page.wait_for_selector("#view:not([aria-busy]) svg")
    return page


def test_the_story_adds_no_code_where_positions_are_off(visit):
    page = visit(link(source=SOURCE, view="story", edits=[OFF]), wait=STORY)
    vector = station(page, "vector")
    expect(vector).to_contain_text("was added, because positions are off.")
    expect(vector).not_to_contain_text("joined to it")
    expect(vector.locator(".formula")).to_have_text("x = embedding(token)")
    expect(vector.locator(".strip")).to_have_count(2)
    control(page, "undo changes").click()
    expect(vector.locator(".formula")).to_have_text("x = embedding(token) + code(position)")


@pytest.mark.parametrize("edit", [OFF, LONGER, SWAP])
def test_the_map_asks_only_for_words_of_the_answer_that_is_drawn(visit, run, edit):
    page = visit(link(source=SOURCE))
    refused = []
    page.on("response", lambda one: refused.append(one.url) if one.status >= 400 else None)
    last = len(run.explain(SOURCE, edit=edit).target_tokens) - 1
    page.goto(page.url.split("#")[0] + link(source=SOURCE, edits=[edit], token=last))
    expect(page.locator("#changes")).to_be_visible()
    expect(page.locator("#minimap [role=status]")).to_contain_text("the larger a head")
    assert refused == []


def test_no_words_of_the_interface_for_programs_come_onto_the_map(visit):
    page = visit(link(source=SOURCE))
    failed = {"error": "step is 0 to 3, not 27"}
    page.route("**/api/importance", lambda route: route.fulfill(status=422, json=failed))
    page.reload()
    said = page.locator("#minimap [role=status]")
    expect(said).to_contain_text("could not be measured")
    expect(said).not_to_contain_text("step is")


def test_what_is_changed_is_named_beside_the_answer_until_it_is_undone(visit, run):
    page = visit(link(source=SOURCE, edits=[OFF]))
    badge = page.locator("#changes")
    expect(badge).to_have_text("Positions are off · Undo")
    page.locator("#source").fill("b a d c")
    page.locator("#go").click()
    expect(page.locator("#said")).to_have_text(run.explain("b a d c", edit=OFF).translation)
    expect(badge).to_have_text("Positions are off · Undo")
    badge.get_by_role("button").click()
    expect(badge).to_have_count(0)
    expect(page.locator("#said")).to_have_text(run.translate("b a d c"))


def test_a_change_that_ends_with_its_sentence_is_told(visit):
    page = visit(link(source=SOURCE, edits=[SWAP]))
    expect(page.locator("#changes")).to_have_text("“a” and “c” swapped · Undo")
    page.locator("#source").fill("b a d c")
    page.locator("#go").click()
    expect(page.locator("#changes")).to_have_text(
        "No longer changed, for this is another sentence: “a” and “c” swapped."
    )


@pytest.mark.parametrize("size", [PHONE, {"width": 1280, "height": 500}])
def test_show_it_brings_the_row_of_the_word_into_sight(visit, size):
    page = visit(link(source=SOURCE), reduced_motion="reduce")
    weighed(page)
    page.set_viewport_size(size)
    page.reload()
    page.locator("#rests").get_by_role("button", name="Show it").click()
    expect(page.locator("#tab-matrix")).to_have_attribute("aria-selected", "true")
    row = page.locator("#view [data-marked]")
    expect(row).to_be_in_viewport(ratio=1)
    expect(page.locator("#tabs")).to_be_in_viewport(ratio=1)


def test_the_bar_of_tabs_shows_the_chosen_one(visit):
    page = at_phone(visit, view="lines")
    page.goto(page.url.split("#")[0] + link(source=SOURCE, view="beam"))
    chosen = page.locator("#tab-beam")
    expect(chosen).to_have_attribute("aria-selected", "true")
    expect(chosen).to_be_in_viewport(ratio=0.9)  # the line below it covers a pixel


def test_the_story_opens_on_the_head_that_the_headline_names(visit):
    page = visit(link(source=SOURCE))
    weighed(page)
    page.reload()
    expect(page.locator("#rests")).to_contain_text("head 1")
    page.locator("#tab-story").click()
    page.wait_for_selector(STORY)
    expect(control(page, "Head")).to_have_value("1")
    expect(page.locator(".intro .hint")).to_contain_text("decoder.cross")


def test_story_and_six_steps_name_the_place_of_a_query_alike(visit, run):
    written = run.explain(SOURCE).target_tokens
    place = f"the place after “{written[0]}”, where “{written[1]}” is written"
    page = visit(link(source=SOURCE, view="matrix", head=0, token=1))
    expect(page.locator("#steps")).to_contain_text(f"The query is made at {place}.")
    page.locator("#tab-story").click()
    expect(station(page, "query")).to_contain_text(f"T{place[1:]}, makes a query")


def test_an_empty_text_says_what_to_do(visit):
    page = visit(link(source=SOURCE))
    page.locator("#source").fill("")
    page.locator("#go").click()
    label = page.locator("#source-label").inner_text()
    expect(page.locator("#trouble")).to_contain_text(f"Type something into “{label}”")
    page.locator("#source").fill(SOURCE)
    page.locator("#go").click()
    expect(page.locator("#trouble")).to_be_hidden()


def test_only_words_that_were_read_can_be_swapped(visit):
    page = visit(link(source=SOURCE))

    def typed_so(route):
        found = route.fetch()
        route.fulfill(response=found, json={**found.json(), "source": "A b c d."})

    page.route("**/api/explain", typed_so)
    page.reload()
    expect(page.locator(".draggable .chip")).to_have_text(["a", "b", "c", "d"])
    offered = control(page, "Swap").locator("option")
    expect(offered).to_have_text(["–", "0: a", "1: b", "2: c", "3: d"])


def test_a_muted_head_is_said_to_look_nowhere(visit):
    page = visit(link(source=SOURCE, layer=0, head=1, edits=[ABLATE]))
    expect(page.locator("#view svg")).to_contain_text("muted: this head looks nowhere")


def test_the_hint_tells_what_choosing_a_word_opens(visit):
    page = visit(link(source=SOURCE, view="matrix"))
    hint = page.locator("#view > .hint")
    expect(hint).to_contain_text("where it looks in every head")
    control(page, "Head").select_option("0")
    expect(hint).to_contain_text("six steps in numbers")


def test_nothing_is_told_while_the_page_moves_beneath_a_still_mouse(visit):
    page = visit(link(source=SOURCE, view="matrix"))
    page.set_viewport_size({"width": 1280, "height": 400})
    tip = page.locator("#view [data-tip]")
    page.locator("#answer-label").hover()
    middle = page.evaluate(
        """() => {
          const { top } = document.querySelector('#view [data-t="1"]').getBoundingClientRect();
          const from = document.querySelector("#answer-label").getBoundingClientRect();
          scrollBy(0, top - from.top);
          return scrollY;
        }"""
    )
    assert middle > 0
    page.wait_for_timeout(300)  # the browser tells the page what came under the mouse
    expect(tip).to_be_hidden()
    page.locator('#view [data-t="2"][data-s="1"]').hover()
    expect(tip).to_be_visible()


def test_every_head_of_the_map_is_large_enough_to_be_hit(visit):
    page = at_phone(visit)
    for box in [one.bounding_box() for one in page.locator(".thumb").all()]:
        assert min(box["width"], box["height"]) >= 24


def test_the_strip_of_heads_shows_the_chosen_attention_and_its_name(visit):
    page = at_phone(visit, name="decoder.cross", layer=0, head=1)
    expect(control(page, "thumb decoder.cross 0 1")).to_be_in_viewport(ratio=1)
    expect(page.locator(".minimap .of").last).to_be_in_viewport()
    expect(page.locator(".minimap .swipe")).to_contain_text("swipe for more")


def test_numbers_before_and_after_stay_on_one_line_of_a_phone(visit):
    page = at_phone(visit, edits=[OFF])
    shares = page.locator("#effect .share")
    expect(shares.first).to_be_visible()
    assert max(one.bounding_box()["height"] for one in shares.all()) < 36


def test_six_steps_hide_no_row_in_a_box_that_scrolls_on_a_phone(visit):
    page = at_phone(visit, view="matrix", head=0, token=1)
    page.wait_for_selector("#steps svg")
    hidden = "one => one.scrollHeight - one.clientHeight"
    assert page.eval_on_selector("#steps [data-scroller]", hidden) <= 1
