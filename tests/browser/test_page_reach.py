"""What-ifs told before and after, typing, copying, and the page as a program asks for it."""

import json
import subprocess
import sys

import numpy as np
import pytest
from page_parts import ABLATE, READY, SOURCE, control, drawn, link, same
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

COLD = {"kind": "temperature", "value": 0.25, "name": None}
FORCED = {"kind": "force_token", "position": 1, "token": "e"}


def test_a_what_if_shows_the_words_before_and_after(visit, run):
    page = visit(link(source=SOURCE, edits=[FORCED]))
    before, after = run.explain(SOURCE), run.explain(SOURCE, edit=FORCED)
    for name, look in (("before", before), ("after", after)):
        chips = page.locator(f"#words-{name} .chip")
        assert chips.all_text_contents() == look.translation.split(" ")
    assert "e" in page.locator("#words-after ins").all_text_contents()
    page.get_by_role("button", name="Undo all").click()
    expect(page.locator("#effect")).to_be_hidden()


@pytest.mark.parametrize("head", [0, None])
def test_a_what_if_shows_after_minus_before_as_a_matrix(visit, run, head):
    page = visit(link(source=SOURCE, name="encoder.self", head=head, edits=[COLD]))
    page.wait_for_selector("#effect svg")
    looks = [run.explain(SOURCE), run.explain(SOURCE, edit=COLD)]
    before, after = (look.weights("encoder.self") for look in looks)
    moved = after - before
    shown = drawn(page, "#effect")
    same(shown, moved.mean(axis=0) if head is None else moved[head])
    fills = page.locator("#effect rect[data-weight]").evaluate_all(
        "all => all.map(one => [+one.dataset.weight, one.getAttribute('fill')])"
    )
    assert {colour for weight, colour in fills if weight < 0} == {"#D55E00"}
    assert {colour for weight, colour in fills if weight > 0} == {"#0072B2"}
    expect(page.locator("#effect [data-scale]")).to_contain_text("change of weight")


def test_a_what_if_shows_how_probable_each_word_was_and_is(visit):
    """The server's numbers are made up, to be told apart."""

    def answer(route):
        look = route.fetch().json()
        share = 0.25 if look["edits"] else 0.5
        shares = [share + i / 100 for i in range(len(look["target_tokens"]))]
        route.fulfill(json={**look, "probabilities": shares})

    page = visit(link(source=SOURCE))
    page.route("**/api/explain", answer)
    page.goto("about:blank")
    page.goto(page.asked[0].split("#")[0] + link(source=SOURCE, edits=[FORCED]))
    bars = page.locator("#effect .changes li")
    expect(bars.nth(0).locator(".share")).to_have_text("50.0 % → 25.0 %")
    expect(bars.nth(1)).to_have_attribute("data-choice", "e")
    expect(bars.nth(1).locator(".share")).to_have_text("– → 26.0 %")
    wide = bars.nth(0).locator("i").evaluate_all("all => all.map(one => one.style.width)")
    assert wide == ["50%", "25%"]


def test_weights_of_words_that_have_moved_are_not_subtracted(visit):
    page = visit(link(source=SOURCE, edits=[{"kind": "swap", "first": 0, "second": 2}]))
    expect(page.locator("#effect")).to_contain_text("cannot be subtracted")
    assert page.locator("#effect svg").count() == 0


def test_the_picture_follows_the_temperature_while_it_slides(visit, run):
    page = visit(link(source=SOURCE, view="matrix", head=0))
    slider = control(page, "Temperature")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 2, box["y"] + box["height"] / 2, steps=4)
    expect(page.locator("#effect")).to_be_visible()  # the button is still down
    cold = {"kind": "temperature", "value": 0.125, "name": None}
    expected = run.explain(SOURCE, edit=cold).weights("decoder.cross")[0]
    page.wait_for_function("document.location.hash.includes('0.125')")
    page.wait_for_selector(READY)
    held = slider.evaluate("one => one.isConnected && one.matches(':active')")
    assert held
    page.mouse.up()
    same(drawn(page), expected)
    expect(page.locator(".active li")).to_contain_text("temperature 0.125")


def test_a_sentence_is_translated_while_it_is_typed(visit, run):
    page = visit(link(source=SOURCE))
    page.locator("#source").focus()
    page.keyboard.press("End")
    page.keyboard.type(" e f", delay=20)
    expect(page.locator("#said")).to_have_text(run.explain(f"{SOURCE} e f").translation)
    expect(page.locator("#source")).to_be_focused()
    expect(page.locator("#source")).to_have_value(f"{SOURCE} e f")
    page.keyboard.type(" g", delay=20)
    expect(page.locator("#said")).to_have_text(run.explain(f"{SOURCE} e f g").translation)
    page.go_back()  # all that was typed is one step
    expect(page.locator("#source")).to_have_value(SOURCE)


def test_what_is_typed_is_asked_for_once_after_a_pause(visit, run):
    page = visit(link(source="a b"))
    page.locator("#source").focus()
    page.keyboard.press("End")
    asked = len(page.asked)
    page.keyboard.type(" c d", delay=30)
    expect(page.locator("#said")).to_have_text(run.explain(SOURCE).translation)
    page.wait_for_selector(READY)
    streams = [url for url in page.asked[asked:] if "/api/stream" in url]
    assert len(streams) == 1


def test_the_answer_is_copied(visit, run, base):
    page = visit(link(source=SOURCE), permissions=["clipboard-read", "clipboard-write"])
    page.locator("#copy-answer").click()
    expect(page.locator("#answer-copied")).to_have_text("copied")
    assert page.evaluate("navigator.clipboard.readText()") == run.explain(SOURCE).translation


QUOTED = "a b' c \\ d"


@pytest.mark.parametrize("way", ["curl", "Python"])
def test_the_call_for_what_is_on_the_screen_gives_it(visit, run, way):
    page = visit(
        link(source=QUOTED, edits=[ABLATE]), permissions=["clipboard-read", "clipboard-write"]
    )
    expect(page.locator("#moved")).to_be_visible()
    page.get_by_text("API call for this").click()
    control(page, f"copy {way}").click()
    expect(page.locator("#calls .call", has_text=f"Copy {way}")).to_contain_text("copied")
    text = page.evaluate("navigator.clipboard.readText()")
    assert text == page.locator(f'#calls pre[aria-label="{way}"]').text_content()
    look = run.explain(QUOTED, edit=ABLATE)
    command = ["sh", "-c", text] if way == "curl" else [sys.executable, "-c", text]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if way == "Python":
        assert said.strip() == look.translation
    else:
        answer = json.loads(said)
        assert answer["translation"] == look.translation
        found = np.array(answer["attentions"]["decoder.cross"][0])
        same(found, look.weights("decoder.cross"))


def test_the_page_is_three_files_compressed_and_kept(visit, base):
    page = visit(link(source=SOURCE))
    loaded = [url for url in page.asked if "/api/" not in url and "icon" not in url]
    assert len(loaded) == 3  # the page, its script and its style
    for url in loaded[1:]:
        answer = page.request.get(url, headers={"Accept-Encoding": "gzip"})
        assert answer.headers["content-encoding"] == "gzip"
        assert "immutable" in answer.headers["cache-control"]
    first = page.request.get(loaded[0].split("#")[0])
    assert first.headers["cache-control"] == "no-store"  # it names the others, and holds a token
