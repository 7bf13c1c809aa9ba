"""The page in a real browser: what is drawn is what the model used."""

from urllib.parse import quote

import numpy as np
import pytest
from page_parts import ABLATE, READY, SOURCE, control, drawn, link, same
from playwright.sync_api import expect

from regard.text import words

pytestmark = pytest.mark.browser


def test_a_typed_sentence_is_translated_and_its_cross_attention_drawn(visit, run):
    page = visit()
    page.get_by_label("A sentence").fill(SOURCE)
    page.get_by_role("button", name="Translate").click()
    look = run.explain(SOURCE)
    expect(page.locator("#said")).to_have_text(look.translation)
    page.get_by_role("tab", name="Matrix").click()
    control(page, "Head").select_option("1")
    same(drawn(page), look.weights("decoder.cross")[1])


@pytest.mark.parametrize("name", ["encoder.self", "decoder.self", "decoder.cross"])
@pytest.mark.parametrize("head", [0, 1, None])
def test_the_matrix_shows_the_weights_of_the_run(visit, run, name, head):
    page = visit(link(source=SOURCE, view="matrix"))
    control(page, "Attention").select_option(name)
    control(page, "Head").select_option("" if head is None else str(head))
    weights = run.explain(SOURCE).weights(name)
    same(drawn(page), weights.mean(axis=0) if head is None else weights[head])


def test_the_lines_show_the_same_weights(visit, run):
    page = visit(link(source=SOURCE, head=0))
    control(page, "Hide below").fill("0")
    same(drawn(page), run.explain(SOURCE).weights("decoder.cross")[0])


def test_lines_below_the_threshold_are_hidden(visit, run):
    page = visit(link(source=SOURCE, head=0, threshold=0.2))
    weights = drawn(page)
    shown = np.isfinite(weights)
    expected = run.explain(SOURCE).weights("decoder.cross")[0]
    assert shown.sum() == (expected >= 0.2).sum()
    assert (weights[shown] >= 0.2).all()


def test_the_translation_appears_token_by_token(visit, run):
    page = visit()
    page.evaluate(
        """() => {
          window.seen = [];
          const line = document.getElementById("said");
          const watch = new MutationObserver(() => window.seen.push(line.textContent));
          watch.observe(line, {childList: true, characterData: true, subtree: true});
        }"""
    )
    page.locator("#source").fill(SOURCE)
    page.locator("#source").press("Enter")
    translation = run.explain(SOURCE).translation
    expect(page.locator("#said")).to_have_text(translation)
    expect(page.locator("#said")).not_to_have_class("writing")
    seen = page.evaluate("window.seen")
    assert len(set(seen)) > 2
    assert sorted(seen, key=len) == seen


def test_an_example_is_one_click_away(visit, run):
    page = visit(link(source=SOURCE))
    example = page.locator("#examples button").nth(1)
    text = example.inner_text()
    example.click()
    expect(page.locator("#said")).to_have_text(run.explain(text).translation)
    expect(page.locator("#source")).to_have_value(text)


@pytest.mark.parametrize("name", ["encoder.self", "decoder.self"])
def test_the_rollout_of_a_self_attention_is_drawn(visit, run, name):
    page = visit(link(source=SOURCE, view="rollout"))
    expect(control(page, "Attention").locator("option")).to_have_count(2)  # none of decoder.cross
    control(page, "Attention").select_option(name)
    expect(page.locator("#view svg")).to_have_attribute(
        "aria-label", f"{name}, rollout of all layers"
    )
    same(drawn(page), run.explain(SOURCE).rollout(name))


def test_a_head_is_picked_among_all(visit, run):
    page = visit(link(source=SOURCE, view="grid", name="encoder.self"))
    page.locator('#view svg [tabindex][data-head="1"]').click()
    expect(control(page, "Head")).to_have_value("1")
    same(drawn(page), run.explain(SOURCE).weights("encoder.self")[1])


def test_a_click_on_a_token_shows_its_six_steps(visit, run):
    page = visit(link(source=SOURCE, view="matrix", head=1))
    page.locator('#view [data-row="2"]').click()
    page.wait_for_selector("#steps svg")
    shown = page.eval_on_selector_all(
        "#steps g[data-weight]", "all => all.map(({dataset}) => +dataset.weight)"
    )
    look = run.explain(SOURCE)
    same(shown, look.weights("decoder.cross")[1][2])
    expect(page.locator("#steps-title")).to_contain_text(look.target_tokens[2])


def test_an_ablated_head_is_drawn_as_the_run_says(visit, run):
    page = visit(link(source=SOURCE, view="matrix", head=1))
    before = drawn(page)
    control(page, "Mute it").check()
    expect(page.locator("#moved")).to_be_visible()
    look = run.explain(SOURCE, edit=ABLATE)
    expect(page.locator("#said")).to_have_text(look.translation)
    after = drawn(page)
    same(after, look.weights("decoder.cross")[1])
    assert after.shape != before.shape or not np.allclose(after, before)
    control(page, "Draw").select_option("plain")
    same(drawn(page), before)
    control(page, "Mute it").uncheck()
    expect(page.locator("#moved")).to_have_count(0)
    same(drawn(page), before)


def _force_key(page):
    control(page, "It looks at").select_option("2")


def _heat(page):
    control(page, "Temperature").fill("2")
    control(page, "Temperature").dispatch_event("change")


def _swap(page):
    control(page, "Swap").select_option("0")
    control(page, "with").select_option("2")


def _force_token(page):
    control(page, "Token").select_option("1")
    control(page, "becomes").focus()
    page.keyboard.type("e")
    page.get_by_role("button", name="Force").click()


WHAT_IFS = {
    "force": (
        _force_key,
        {"kind": "force", "name": "decoder.cross", "layer": 0, "head": 0, "key": 2},
    ),
    "temperature": (_heat, {"kind": "temperature", "value": 4.0, "name": None}),
    "no positions": (
        lambda page: control(page, "Without positions").check(),
        {"kind": "no_positions"},
    ),
    "swap": (_swap, {"kind": "swap", "first": 0, "second": 2}),
    "force token": (_force_token, {"kind": "force_token", "position": 1, "token": "e"}),
}


@pytest.mark.parametrize("kind", WHAT_IFS)
def test_each_what_if_does_what_the_run_does(visit, run, kind):
    act, edit = WHAT_IFS[kind]
    page = visit(link(source=SOURCE, view="matrix", head=0))
    before = drawn(page)
    act(page)
    expect(page.locator("#moved")).to_be_visible()
    look = run.explain(SOURCE, edit=edit)
    expect(page.locator("#said")).to_have_text(look.translation)
    after = drawn(page)
    same(after, look.weights("decoder.cross")[0])
    assert after.shape != before.shape or not np.allclose(after, before, atol=1e-6)


def test_a_shared_link_restores_everything(visit):
    page = visit(link(source=SOURCE))
    page.get_by_role("tab", name="Matrix").click()
    control(page, "Attention").select_option("encoder.self")
    control(page, "Head").select_option("1")
    control(page, "Mute it").check()
    expect(page.locator("#moved")).to_be_visible()
    page.locator('#view [data-row="1"]').click()
    page.wait_for_selector("#steps svg")
    other = visit(page.url[page.url.index("#") :])
    same(drawn(other), drawn(page))
    expect(other.locator("#source")).to_have_value(SOURCE)
    expect(other.get_by_role("tab", name="Matrix")).to_have_attribute("aria-selected", "true")
    expect(control(other, "Attention")).to_have_value("encoder.self")
    expect(control(other, "Mute it")).to_be_checked()
    title = page.locator("#steps-title").inner_text()
    expect(other.locator("#steps-title")).to_have_text(title)


BROKEN = [
    "#edits=%7B",
    "#layer=9&head=77",
    "#view=x&head=-1&name=y",
    "#__proto__=1&toString=2",
    '#edits=[{"kind":"constructor"},null,3]',
]


@pytest.mark.parametrize("hash_", BROKEN)
def test_a_broken_link_still_opens(visit, run, hash_):
    page = visit(f"{hash_}&source={quote(SOURCE)}")
    expect(page.locator("#said")).to_have_text(run.explain(SOURCE).translation)
    expect(page.locator("#view:not([aria-busy])")).to_be_visible()
    expect(page.locator("#trouble")).to_be_hidden()
    assert np.nanmax(drawn(page)) > 0


MARKUP = '<img src=x onerror="window.hit=1">'


def harmless(page):
    return page.locator("main img").count() == 0 and page.evaluate("window.hit") is None


def test_markup_in_a_sentence_stays_text(visit):
    page = visit(link(source=f"{MARKUP} a", edits=[ABLATE]))
    expect(page.locator("#source")).to_have_value(f"{MARKUP} a")
    expect(control(page, "Swap")).to_contain_text("1: img")
    for view in ("Matrix", "All heads", "Beam"):
        page.get_by_role("tab", name=view).click()
        page.wait_for_selector(READY)
        assert harmless(page)


def test_markup_in_what_the_model_says_is_drawn_as_text(visit):
    """A vocabulary may hold anything, so the answers are made to hold markup."""

    def answer(route):
        look = route.fetch().json()
        for side in ("source_tokens", "target_tokens"):
            look[side] = [MARKUP for _ in look[side]]
        route.fulfill(json={**look, "translation": MARKUP})

    page = visit(link(source=SOURCE))
    page.route("**/api/explain", answer)
    page.locator("#source").fill("d e f")
    page.locator("#source").press("Enter")
    expect(page.locator("#said")).to_have_text(MARKUP)
    page.wait_for_selector(READY)
    expect(page.locator('#view [data-row="0"]')).to_contain_text("<img src=x")
    page.get_by_role("tab", name="Matrix").click()
    expect(page.locator('#view [data-row="0"]')).to_contain_text("<img src=x")
    assert harmless(page)


def test_the_beam_is_drawn_and_continued_from_a_branch(visit, run):
    page = visit(link(source=SOURCE, view="beam", beams=2), wait="#view [data-node]")
    tree = run.beam(SOURCE, n_beams=2).as_json()
    scores = page.eval_on_selector_all(
        "#view [data-node]",
        "all => Object.fromEntries(all.map(n => [n.dataset.node, +n.dataset.score]))",
    )
    assert scores == pytest.approx({str(n["id"]): n["score"] for n in tree["nodes"]}, abs=1e-6)
    picked = next(n for n in tree["nodes"] if n["step"] == 1 and n["token"] != "</s>")
    page.locator(f'#view [data-node="{picked["id"]}"]').click()
    page.get_by_role("button", name="Go on from here").click()
    again = run.beam(SOURCE, n_beams=2, prefix=(picked["token"],)).as_json()
    expect(page.locator("#view [data-node]")).to_have_count(len(again["nodes"]))
    expect(page.locator("#view")).to_contain_text("Begun with")


def test_heads_are_measured_only_when_asked_for(visit):
    page = visit(link(source=SOURCE))
    assert not any(url.endswith("/api/heads") for url in page.asked)
    page.get_by_role("tab", name="Head map").click()
    rows = page.locator("#view tbody tr")
    expect(rows).to_have_count(6, timeout=60_000)  # three attentions of two heads
    rows.nth(3).get_by_role("button").click()
    expect(control(page, "Attention")).to_have_value("decoder.self")
    expect(control(page, "Head")).to_have_value("1")


def test_what_the_server_refuses_is_said_in_place(visit):
    page = visit(link(source=SOURCE))
    page.locator("#source").fill("a " * 2600)
    page.get_by_role("button", name="Translate").click()
    expect(page.locator("#trouble")).to_be_visible()
    assert page.locator("#view svg").count() == 0  # no picture of another sentence


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["lines", "matrix", "grid", "beam"])
def test_the_page_fits_a_narrow_screen(visit, view, scheme):
    state = link(source="a b c d e f g h " * 4, view=view, token=1, head=0)
    page = visit(state, color_scheme=scheme)
    page.set_viewport_size({"width": 360, "height": 740})
    page.reload()
    page.wait_for_selector(READY)
    wide, seen = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= seen == 360


def test_the_view_is_saved_as_svg_and_png(visit, tmp_path):
    page = visit(link(source=SOURCE, view="matrix", head=0))
    beginnings = {}
    for name in ("Save SVG", "Save PNG"):
        with page.expect_download() as download:
            page.get_by_role("button", name=name).click()
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        beginnings[path.name] = path.read_bytes()[:4]
    assert beginnings == {"regard-matrix.svg": b"<svg", "regard-matrix.png": b"\x89PNG"}


def test_every_control_has_a_name(visit):
    page = visit(link(source=SOURCE, head=0))
    nameless = page.evaluate(
        """() => {
          const named = one => {
            const label = (one.labels?.[0] ?? one).cloneNode(true);
            label.querySelectorAll("select").forEach(list => list.remove());
            return one.ariaLabel || label.textContent.trim();
          };
          return [...document.querySelectorAll("main :is(input, select, textarea, button)")]
            .filter(one => one.checkVisibility() && !named(one))
            .map(one => one.outerHTML);
        }"""
    )
    assert nameless == []


def test_the_keyboard_moves_between_views_and_keeps_its_place(visit):
    page = visit(link(source=SOURCE))
    page.get_by_role("tab", name="Lines").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Story")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Matrix")).to_be_focused()
    expect(page.get_by_role("tab", name="Matrix")).to_have_attribute("aria-selected", "true")
    control(page, "Layer").focus()
    control(page, "Head").select_option("1")
    expect(control(page, "Head")).to_have_value("1")
    control(page, "Without positions").focus()
    page.keyboard.press("Space")
    expect(page.locator("#moved")).to_be_visible()
    expect(control(page, "Without positions")).to_be_focused()


@pytest.mark.parametrize(
    "sentence",
    [
        "l'animal n'a pas dormi.",
        "the dogs' well-known 3.5 km/h",
        "",
        "पानी «été» a_b!?",
        "l’eau  x",
    ],
)
def test_words_are_counted_as_the_run_counts_them(visit, sentence):
    page = visit(link(source=SOURCE))
    counted = page.evaluate(
        "async text => (await import('/static/words.js')).wordsOf(text)", sentence
    )
    assert counted == words.split(sentence)


def test_heads_that_cannot_be_measured_are_asked_for_once_and_again_when_wanted(visit):
    """A server that gave up after minutes must not be made to begin anew, over and over."""
    page = visit(link(source=SOURCE))
    asked = []

    def answer(route):
        asked.append(1)
        route.fulfill(status=503, json={"error": "measuring took more than 600 s"})

    page.route("**/api/heads", answer)
    page.get_by_role("tab", name="Head map").click()
    expect(page.locator("#view .trouble")).to_contain_text("600 s")
    page.wait_for_timeout(1500)
    assert len(asked) == 1
    page.get_by_role("tab", name="Lines").click()
    page.get_by_role("tab", name="Head map").click()
    expect(page.locator("#view .trouble")).to_contain_text("600 s")
    assert len(asked) == 2


def test_an_empty_sentence_has_no_answer(visit, run):
    page = visit(link(source=SOURCE))
    expect(page.locator("#said")).to_have_text(run.explain(SOURCE).translation)
    page.locator("#source").fill(" ")
    expect(page.locator("#desk")).to_be_hidden()
    expect(page.locator("#said")).to_have_text("")
    page.evaluate("location.hash = 'source='")
    expect(page.locator("#desk")).to_be_hidden()
    expect(page.locator("#said")).to_have_text("")


@pytest.mark.parametrize("view", ["lines", "matrix"])
def test_a_picture_is_drawn_again_when_the_window_changes(visit, view):
    page = visit(link(source="a b c d e f g h " * 2, view=view, name="encoder.self"))
    picture = page.locator("#view svg")
    wide = picture.get_attribute("width")
    page.set_viewport_size({"width": 360, "height": 700})
    expect(picture).not_to_have_attribute("width", wide)
    assert int(picture.get_attribute("width")) < 345
    page.set_viewport_size({"width": 1280, "height": 900})
    expect(picture).to_have_attribute("width", wide)


def test_choosing_a_row_keeps_its_focus_and_the_place_of_the_picture(visit):
    page = visit(link(source="a b c d e f g h " * 4, view="matrix", name="encoder.self"))
    page.set_viewport_size({"width": 360, "height": 400})
    expect(page.locator("#view rect[data-weight]").first).to_have_attribute("width", "14")
    page.evaluate("document.querySelector('#view [data-scroller]').scrollTo(90, 60)")
    page.wait_for_selector("#view g[transform='translate(0 60)']")  # the names have followed
    page.locator('#view [data-row="9"]').focus()
    place = "(({scrollLeft: x, scrollTop: y}) => [x, y])(document.querySelector('[data-scroller]'))"
    before = page.evaluate(place)
    assert min(before) > 0
    page.keyboard.press("Enter")
    page.wait_for_selector("#steps svg")
    expect(page.locator('#view [data-row="9"]')).to_be_focused()
    assert page.evaluate(place) == before
    moved = page.locator("#view g[data-sticky]").first.get_attribute("transform")
    assert moved == f"translate(0 {before[1]})"


def test_a_system_that_does_not_attend_is_translated_all_the_same(visit, run):
    """Of a run that attends, the server is made to hide where it looked."""

    def answer(route):
        found = route.fetch().json()
        empty = [] if isinstance(found["attentions"], list) else {}
        route.fulfill(json={**found, "attentions": empty, "axes": {}})

    page = visit(link(source=SOURCE))
    page.route("**/api/{info,explain}", answer)
    swap = {"kind": "swap", "first": 0, "second": 2}
    page.goto(page.url.split("#")[0] + link(source=SOURCE, edits=[swap]))
    page.reload()
    expect(page.locator("#view")).to_contain_text("does not attend")
    look = run.explain(SOURCE, edit=swap)
    expect(page.locator("#said")).to_have_text(look.translation)
    told = page.locator("#against p:not(#changes)")
    expect(told).to_have_count(1)  # the other translation, no weight


def test_the_last_layer_is_shown_first_and_a_link_may_ask_for_another(visit):
    page = visit(link(source=SOURCE))
    layers = page.evaluate(
        """async () => {
          const { fitted, fromHash } = await import("/static/state.js");
          const attentions = [{ name: "decoder.cross", layers: 3, heads: 2 }];
          return ["", "#layer=0", "#layer=7"].map(one => fitted(fromHash(one), attentions).layer);
        }"""
    )
    assert layers == [2, 0, 2]


def test_a_late_tree_is_not_drawn_over_another_view(visit):
    page = visit(link(source=SOURCE))
    waiting = []
    page.route("**/api/beam", lambda route: waiting.append(route))
    page.get_by_role("tab", name="Beam").click()
    expect(page.locator("#view")).to_contain_text("searching…")
    page.get_by_role("tab", name="Matrix").click()
    page.wait_for_selector("#view rect[data-weight]")
    waiting[0].continue_()
    page.wait_for_timeout(500)
    assert page.locator("#view [data-node]").count() == 0


def test_the_manual_is_styled_and_the_page_needs_no_leave_for_inline_styles(visit, base):
    page = visit(link(source=SOURCE, view="matrix", token=0))
    page.wait_for_selector("#steps svg")
    scroller = page.locator("#view [data-scroller]")
    assert scroller.evaluate("one => getComputedStyle(one).overflow") == "auto"
    page.goto(f"{base}/docs")
    assert page.locator("pre").first.evaluate("one => getComputedStyle(one).overflowX") == "auto"
