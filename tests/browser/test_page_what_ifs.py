"""What-ifs on the page: typed, refused, told of, and searched under."""

from contextlib import contextmanager

import numpy as np
import pytest
from page_parts import ABLATE, SOURCE, control, link
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

HOT = {"kind": "temperature", "value": 8.0, "name": None}
ENDLESS = [{**ABLATE, "name": "decoder.self"}, HOT]
FORCED = {"kind": "force_token", "position": 1, "token": "e"}


def test_a_token_is_typed_and_forced_by_the_keyboard_alone(visit, run):
    page = visit(link(source=SOURCE))
    control(page, "Token").select_option("1")
    control(page, "becomes").focus()
    page.keyboard.type("ex")
    expect(control(page, "becomes")).to_have_value("ex")
    page.keyboard.press("Backspace")
    page.keyboard.press("Enter")
    look = run.explain(SOURCE, edit=FORCED)
    expect(page.locator("#said")).to_have_text(look.translation)
    control(page, "becomes").focus()
    page.keyboard.press("Tab")
    expect(control(page, "Force")).to_be_focused()


def test_words_that_can_be_said_are_offered(visit):
    page = visit(link(source=SOURCE))
    control(page, "becomes").focus()
    page.keyboard.type("b")
    expect(page.locator("#sayable option")).to_have_count(1)
    expect(page.locator("#sayable option")).to_have_attribute("value", "b")


def test_an_impossible_word_is_refused_beside_its_field_and_the_rest_stays(visit, run):
    page = visit(link(source=SOURCE, edits=[ABLATE]))
    plain = run.explain(SOURCE, edit=ABLATE)
    expect(page.locator("#said")).to_have_text(plain.translation)
    control(page, "becomes").focus()
    page.keyboard.type("never")
    page.keyboard.press("Enter")
    said = page.locator("fieldset", has_text="Target").locator(".trouble")
    expect(said).to_contain_text("the model cannot say 'never'")
    expect(page.locator(".active li")).to_have_count(1)
    expect(page.locator("#said")).to_have_text(plain.translation)
    expect(control(page, "becomes")).to_have_value("never")  # to be mended
    expect(control(page, "becomes")).to_be_focused()
    assert "never" not in page.url
    control(page, "Without positions").check()
    expect(page.locator(".active li")).to_have_count(2)
    expect(said).to_have_count(0)


def test_a_link_with_a_bad_what_if_keeps_the_good_ones(visit, run):
    bad = {"kind": "force", "name": "decoder.cross", "layer": 0, "head": 0, "key": 99}
    page = visit(link(source=SOURCE, edits=[bad, ABLATE, {"kind": "swap"}]))
    expect(page.locator("#switches .trouble")).to_have_count(2)
    expect(page.locator("#switches .trouble").first).to_contain_text("99")
    expect(page.locator("#switches .trouble").last).to_contain_text(
        "link that asks for it is damaged"
    )
    expect(page.locator(".active li")).to_have_count(1)
    look = run.explain(SOURCE, edit=ABLATE)
    expect(page.locator("#said")).to_have_text(look.translation)
    assert "99" not in page.url.partition("#")[2]  # a port may have it
    page.get_by_role("button", name="Undo all").click()
    expect(page.locator("#switches .trouble")).to_have_count(0)


def scores(page):
    return page.eval_on_selector_all(
        "#view [data-node]", "all => all.map(one => +one.dataset.score).sort()"
    )


def test_the_beam_is_searched_for_under_the_changes(visit, run):
    state = {"source": SOURCE, "view": "beam", "edits": [HOT, FORCED]}
    page = visit(link(**state), wait="#view [data-node]")

    def tree(edits):
        return sorted(str(n["score"]) for n in run.beam(SOURCE, edit=edits).as_json()["nodes"])

    assert tree([HOT, FORCED]) != tree([])
    np.testing.assert_allclose(
        sorted(scores(page)), sorted(map(float, tree([HOT, FORCED]))), atol=1e-6
    )
    expect(page.locator("#view")).to_contain_text("under the changes")
    expect(page.locator("#view [data-legend]")).to_contain_text("★ the best · ■ finished · ✕")
    control(page, "Draw").select_option("plain")
    expect(page.locator("#view")).not_to_contain_text("under the changes")
    page.wait_for_selector("#view [data-node]")
    np.testing.assert_allclose(sorted(scores(page)), sorted(map(float, tree([]))), atol=1e-6)


def test_what_was_compared_is_told_where_the_translations_part(visit):
    page = visit(link(source=SOURCE, edits=[FORCED]))
    expect(page.locator("#moved")).to_have_text(
        "Where decoder.cross, layer 0 looks stays the same. Compared are the first 2 words only: "
        "after that, the two answers go different ways."
    )


def test_of_several_heads_it_is_said_that_they_look(visit):
    edits = [{**ABLATE, "name": "decoder.cross"}]
    page = visit(link(source=SOURCE, name="decoder.cross", head=1, edits=edits))
    expect(page.locator("#moved")).to_contain_text(
        "Where the other heads of decoder.cross, layer 0 look stays the same."
    )


@pytest.mark.parametrize("head", [None, 0, 1])
def test_an_ablated_head_is_no_news(visit, run, head):
    """Its own weights are 0 now; what is told is what became of the others."""
    edits = [{**ABLATE, "name": "encoder.self"}, HOT]
    page = visit(link(source=SOURCE, name="encoder.self", head=head, edits=edits))
    before = run.explain(SOURCE).weights("encoder.self")[0]
    look = run.explain(SOURCE, edit=edits)
    after = look.weights("encoder.self")[0]
    most = np.abs(after - before).argmax()
    was, now = before.ravel()[most], after.ravel()[most]
    assert abs(now - was) > 0.001
    told = page.locator("#moved")
    expect(told).to_contain_text(f"with {now:.2f} of its weight; before, with {was:.2f}.")
    others = "the other heads of " if head == 1 else ""
    expect(told).to_contain_text(f"Of {others}encoder.self, layer 0, head 0 changed most")


def test_a_translation_that_the_changes_make_endless_is_told_to_be_cut_off(visit, run):
    page = visit(link(source=SOURCE, edits=ENDLESS))
    (note,) = run.explain(SOURCE, edit=ENDLESS).warnings
    expect(page.locator("#against")).to_contain_text(note)
    page.get_by_role("button", name="Undo all").click()
    expect(page.locator("#against")).not_to_contain_text(note)


def test_weights_of_words_that_have_moved_are_not_compared(visit):
    page = visit(link(source=SOURCE, edits=[{"kind": "swap", "first": 0, "second": 2}]))
    expect(page.locator("#moved")).to_contain_text("other words stand there now")


def test_the_words_that_kept_their_place_are_the_old_ones(visit):
    page = visit(link(source=SOURCE))
    marked = page.evaluate(
        """async () => {
          const { newWords } = await import("/static/changes.js");
          const texts = [["john aime mary", "mary aime john"], ["a b c", "a x c d"], ["a", "a"],
            ["", "b"], ["x a b", "a b"]];
          return texts.map(pair => newWords(...pair.map(one => one.split(" ").filter(Boolean)))
            .map(({ word, isNew }) => isNew ? `*${word}` : word).join(" "));
        }"""
    )
    assert marked == ["*mary aime *john", "a *x c *d", "a", "*b", "a b"]


def test_the_steps_of_an_ablated_head_say_why_they_are_nothing(visit):
    state = {"source": SOURCE, "view": "matrix", "head": 1, "token": 1}
    page = visit(link(**state, edits=[ABLATE]))
    page.wait_for_selector("#steps svg")
    expect(page.locator("#steps .hint")).to_contain_text("muted")
    expect(page.locator("#steps svg")).to_contain_text("5 softmax × 0")
    expect(page.locator("#steps svg")).to_contain_text("through W_o, into the stream")
    control(page, "head 0").click()
    expect(page.locator("#steps .hint")).to_have_count(0)


def test_where_to_pick_a_head_is_told_for_each_view(visit):
    page = visit(link(source=SOURCE))
    hint = page.locator("fieldset", has_text="One head").locator(".hint")
    expect(hint).to_contain_text("above the picture")
    page.get_by_role("tab", name="Beam").click()
    expect(hint).to_contain_text("in Lines or Matrix")


@contextmanager
def undrawn(page):
    """Inside, no look comes, so none is drawn."""
    held = []
    page.route("**/api/explain", lambda route: held.append(route))
    yield
    page.route("**/api/explain", lambda route: route.continue_())
    for route in held:
        route.continue_()


def test_a_switch_turned_before_the_last_one_is_drawn_keeps_both(visit, run):
    page = visit(link(source=SOURCE, name="decoder.cross", layer=0, head=1))
    with undrawn(page):
        control(page, "Mute it").check()
        control(page, "Without positions").check()
        control(page, "Temperature").fill("1")
    expect(page.locator(".active li")).to_have_count(3)
    edits = [ABLATE, {"kind": "no_positions"}, {"kind": "temperature", "value": 2, "name": None}]
    expect(page.locator("#said")).to_have_text(run.explain(SOURCE, edit=edits).translation)


def test_two_changes_of_the_temperature_before_it_is_drawn_are_both_made(visit):
    page = visit(link(source=SOURCE, edits=[{"kind": "temperature", "value": 2, "name": None}]))
    with undrawn(page):
        control(page, "Temperature").fill("2")
        control(page, "Temperature of").select_option("encoder.self")
    expect(page.locator(".active li")).to_contain_text("temperature 4 in encoder.self")
