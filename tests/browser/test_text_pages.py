"""The page of runs that read one text: what is shown is what the run says and used."""

from contextlib import ExitStack

import numpy as np
import pytest
from looked_at import encoder_run
from page_parts import READY, control, drawn, link, same, served
from playwright.sync_api import expect
from text_runs import KINDS, short_run

import regard
from regard.server.app import make_app
from regard.visual.theme import probability

pytestmark = pytest.mark.browser

STATES = {
    "classification": {"source": "a b c d"},
    "pairs": {"source": "a b", "other": "c a d"},
    "similarity": {"source": "a b c", "other": "c d\na b"},
    "answers": {"source": "what c", "other": "a b c d x"},
    "masked": {"source": "a <mask> c <mask>"},
    "language": {"source": "a c"},
}
PAIRS = ("pairs", "answers")
CALM = {"max_tokens": 20, "temperature": 0, "top_k": None, "top_p": None, "stop": "", "seed": 0}
HOT = {"kind": "temperature", "value": 8.0, "name": None}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {}

    def folder(kind):
        if kind not in made:
            made[kind] = short_run(kind, tmp_path_factory.mktemp(kind))
        return made[kind]

    return folder


@pytest.fixture(scope="module")
def run_of(folders):
    """The run to compare with: not the server's, which works in another thread meanwhile."""
    return lambda kind: regard.load(folders(kind), device="cpu")


@pytest.fixture(scope="module")
def at(folders):
    """The address of a server on a run of this kind."""
    known = {}
    with ExitStack() as open_:

        def address(kind):
            if kind not in known:
                app = make_app(regard.load(folders(kind), device="cpu"))
                known[kind] = open_.enter_context(served(app))
            return known[kind]

        yield address


def name_of(kind):
    return "decoder.self" if kind == "language" else "encoder.self"


def look_at(run, kind, edit=()):
    """The look that the page should show, without a line or a choice of how to write."""
    source, other = STATES[kind]["source"], STATES[kind].get("other")
    if kind == "language":
        return run.explain(source, run.generate(source, temperature=0, max_new=20), edit=edit)
    return run.explain(source, other if kind in PAIRS else None, edit=edit)


def shares(page, where="#against"):
    """Name -> share of each bar."""
    page.wait_for_selector(f"{where} [data-choice]")
    return dict(
        page.locator(f"{where} [data-choice]").evaluate_all(
            "all => all.map(({dataset: d}) => [d.choice, +d.share])"
        )
    )


def choices(place):
    return {one["text"]: pytest.approx(one["probability"], abs=1e-5) for one in place["choices"]}


# ------------------------------------------------------------------ what the run says


def test_a_typed_text_gets_its_label_and_all_probabilities(visit, at, run_of):
    run = run_of("classification")
    page = visit(at=at("classification"))
    page.get_by_label("A text").fill("b b a h")
    page.get_by_role("button", name="Classify").click()
    expected = dict(zip(run.labels.names, run.probabilities(["b b a h"])[0].tolist(), strict=True))
    page.wait_for_function("document.getElementById('view').querySelector('[data-row]')")
    expect(page.locator("#said")).to_have_text(run.classify("b b a h"))
    assert shares(page) == pytest.approx(expected, abs=1e-5)


def test_a_pair_needs_both_of_its_texts(visit, at, run_of):
    page = visit(at=at("pairs"))
    page.get_by_label("The first text").fill("a b")
    page.get_by_label("The second text").fill("")
    before = len(page.asked)
    page.get_by_role("button", name="Classify").click()
    asked = [url.rpartition("/api/")[2] for url in page.asked[before:] if "/api/" in url]
    assert {*asked} <= {"read"}  # what is typed is read, and nothing is asked about it
    page.get_by_label("The second text").fill("c a d")
    page.locator("#other").press("Control+Enter")
    expect(page.locator("#said")).to_have_text(run_of("pairs").classify(("a b", "c a d")))
    expect(page.locator("#view [data-row]")).to_have_count(8)  # begin, 2, end, 3, end


def test_masks_are_filled_with_the_best_guess_and_others_stand_below(visit, at, run_of):
    page = visit(link(**STATES["masked"]), at=at("masked"))
    found = run_of("masked").fill("a <mask> c <mask>")
    expect(page.locator("#said")).to_have_text(found.text)
    lists = page.locator("#against .bars")
    expect(lists).to_have_count(2)
    for i, guesses in enumerate(found.masks):
        names = (
            lists.nth(i)
            .locator("[data-choice]")
            .evaluate_all("all => all.map(one => one.dataset.choice)")
        )
        assert names == [guess.token for guess in guesses]


def test_a_text_without_a_mask_is_told_to_have_none(visit, at):
    page = visit(link(**STATES["masked"]), at=at("masked"))
    page.locator("#source").fill("a b")
    page.locator("#source").press("Enter")
    expect(page.locator("#trouble")).to_contain_text("there is no <mask> in 'a b'")
    expect(page.locator("#said")).to_have_text("")
    expect(page.locator("#desk")).to_be_hidden()


def test_texts_are_compared_and_each_can_be_looked_into(visit, at, run_of):
    run = run_of("similarity")
    page = visit(link(**STATES["similarity"], view="matrix", head=1), at=at("similarity"))
    near = run.nearest("a b c", ["c d", "a b"])
    expect(page.locator("#said")).to_have_text(near[0].text)
    assert list(shares(page).items()) == [(t, pytest.approx(s, abs=1e-5)) for t, s in near]
    same(drawn(page), run.explain("a b c").weights("encoder.self", 1)[1])
    page.locator("#against").get_by_role("button", name="c d").click()
    expect(control(page, "Line")).to_have_value("1")
    expect(page.locator("#view [data-row]")).to_have_count(4)
    same(drawn(page), run.explain("c d").weights("encoder.self", 1)[1])


def test_an_answer_is_marked_in_its_text(visit, at, run_of):
    page = visit(at=at("answers"))
    page.get_by_label("A question").fill("what d")
    page.get_by_label("The text that holds the answer").fill("h 🙂 d c x")
    page.get_by_role("button", name="Answer").click()
    found = run_of("answers").answer("what d", "h 🙂 d c x")
    expect(page.locator("#said")).to_have_text(found.text)
    expect(page.locator(".context")).to_have_text("h 🙂 d c x")
    expect(page.locator(".context mark")).to_have_text(found.text)
    before = page.evaluate("document.querySelector('.context').firstChild.textContent")
    assert before == "h 🙂 d c x"[: found.start]


def test_a_prompt_is_written_on_before_the_readers_eyes(visit, at, run_of):
    run = run_of("language")
    page = visit(at=at("language"))
    page.evaluate(
        """() => {
          window.seen = [];
          const line = document.getElementById("said");
          const watch = new MutationObserver(() => window.seen.push(line.textContent));
          watch.observe(line, {childList: true, characterData: true, subtree: true});
        }"""
    )
    page.get_by_label("A text to go on from").fill("b d")
    page.locator("#source").press("Enter")
    text = "b d" + run.generate("b d", temperature=0, max_new=20)
    expect(page.locator("#said")).to_have_text(text)
    page.wait_for_selector(READY)
    seen = page.evaluate("window.seen")
    assert len(set(seen)) > 3
    assert sorted(seen, key=len) == seen
    assert all(text.startswith(one) for one in seen)


def test_the_map_of_a_classifier_is_sized_by_what_its_label_loses(visit, at, run_of):
    page = visit(link(**STATES["classification"]), at=at("classification"))
    found = run_of("classification").importance(STATES["classification"]["source"])
    said = page.locator("#minimap [role=status]")
    expect(said).to_contain_text(
        f"“{found.token}” has {probability(found.probability)}; the larger"
    )
    lost = page.locator("#minimap .thumb").evaluate_all("all => all.map(o => +o.dataset.lost)")
    expected = [max(0.0, found.probability - one.without) for one in found.heads]
    np.testing.assert_allclose(lost, expected, atol=1e-5)
    expect(page.locator("#minimap .swipe")).to_contain_text(f"“{found.token}” needs it")


def test_the_map_of_an_answer_that_is_no_word_says_that_nothing_is_measured(visit, at):
    page = visit(link(**STATES["similarity"]), at=at("similarity"))
    said = page.locator("#minimap [role=status]")
    expect(said).to_contain_text("what the answer loses without a head is not measured here")


def test_what_may_come_after_a_token_is_shown_for_the_one_that_is_chosen(visit, at, run_of):
    page = visit(link(**STATES["language"], view="matrix", head=0), at=at("language"))
    places = look_at(run_of("language"), "language").as_json()["outcome"]["places"]
    assert shares(page, "#next") == choices(places[2])  # end of another text, a, c
    page.locator('#view [data-row="3"]').click()
    page.wait_for_selector("#steps svg")
    assert shares(page, "#next") == choices(places[3])


def test_how_to_write_is_chosen_and_stays_in_the_link(visit, at, run_of):
    run = run_of("language")
    page = visit(link(**STATES["language"]), at=at("language"))
    control(page, "Tokens at most").fill("3")
    control(page, "Tokens at most").press("Tab")
    expect(page.locator("#said")).to_have_text(
        "a c" + run.generate("a c", temperature=0, max_new=3)
    )
    expect(page.locator("#against")).to_contain_text("Not at its end yet")
    control(page, "Sampling temperature").fill("3")
    control(page, "Tokens at most").fill("12")
    control(page, "Stop before").fill("zzz")
    for _ in range(2):  # drawn anew each time
        page.get_by_role("button", name="Write on").click()
        page.wait_for_selector("#said:not(.writing)")
        page.wait_for_selector(READY)
    manner = page.evaluate("JSON.parse(new URLSearchParams(location.hash.slice(1)).get('manner'))")
    assert (manner["temperature"], manner["max_tokens"], manner["stop"]) == (3, 12, "zzz")
    how = {"max_new": 12, "temperature": 3.0, "seed": manner["seed"], "stop": "zzz"}
    text = "a c" + run.generate("a c", **how)
    expect(page.locator("#said")).to_have_text(text)
    other = visit(page.url[page.url.index("#") :], at=at("language"))
    expect(other.locator("#said")).to_have_text(text)
    expect(control(other, "Sampling temperature")).to_have_value("3")


# ------------------------------------------------------------------ where it looked


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", [0, None])
def test_the_matrix_shows_the_weights_of_the_run(visit, at, run_of, kind, head):
    page = visit(link(**STATES[kind], view="matrix", layer=0), at=at(kind))
    control(page, "Head").select_option("" if head is None else str(head))
    weights = look_at(run_of(kind), kind).weights(name_of(kind), 0)
    same(drawn(page), weights.mean(axis=0) if head is None else weights[head])


def test_of_many_weights_the_layer_that_is_drawn_is_exact(visit, at, run_of, monkeypatch):
    monkeypatch.setattr("regard.visual.payload.EXACT_WEIGHTS", 0)
    page = visit(link(source="d c b a", view="matrix", head=0), at=at("classification"))
    look = run_of("classification").explain("d c b a")
    for layer in (1, 0):
        control(page, "Layer").select_option(str(layer))
        expect(page.locator("#view svg")).to_have_attribute(
            "aria-label", f"encoder.self, layer {layer}, head 0"
        )
        same(drawn(page), look.weights("encoder.self", layer)[0])


@pytest.mark.parametrize("kind", ["masked", "language"])
def test_the_rollout_is_that_of_the_run(visit, at, run_of, kind):
    page = visit(link(**STATES[kind], view="rollout"), at=at(kind))
    same(drawn(page), look_at(run_of(kind), kind).rollout(name_of(kind)))


@pytest.mark.parametrize("kind", ["pairs", "language"])
def test_a_row_opens_its_six_steps(visit, at, run_of, kind):
    page = visit(link(**STATES[kind], view="matrix", head=1, layer=0), at=at(kind))
    page.locator('#view [data-row="2"]').click()
    page.wait_for_selector("#steps svg")
    shown = page.locator("#steps g[data-weight]").evaluate_all(
        "all => all.map(one => +one.dataset.weight)"
    )
    look = look_at(run_of(kind), kind)
    same(shown, look.weights(name_of(kind), 0)[1][2][: len(shown)])
    assert sum(shown) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_what_if_changes_what_the_run_says_it_does(visit, at, run_of, kind):
    ablate = {"kind": "ablate", "name": name_of(kind), "layer": 0, "head": 0}
    page = visit(link(**STATES[kind], view="matrix", layer=0, head=0), at=at(kind))
    control(page, "Mute it").check()
    expect(page.locator(".active li")).to_have_count(1)
    control(page, "Head").select_option("1")
    expect(control(page, "Mute it")).not_to_be_checked()
    control(page, "Temperature").fill("3")
    control(page, "Temperature").dispatch_event("change")
    expect(page.locator(".active li")).to_have_count(2)
    run = run_of(kind)
    if kind == "language":  # certain, so it is written anew
        look = run.explain("a c", max_tokens=20, edit=[ablate, HOT])
        expect(page.locator("#said")).to_have_text("a c" + look.outcome.text)
    else:
        look = look_at(run, kind, [ablate, HOT])
    page.wait_for_selector("#moved")
    same(drawn(page), look.weights(name_of(kind), 0)[1])
    places = look.as_json()["outcome"]["places"]
    if kind in ("classification", "pairs", "answers"):
        assert shares(page) == choices(places[0])
        expect(page.locator("#said")).to_have_text(look.outcome.text)
    if kind == "masked":
        expect(page.locator("#said")).to_have_text(look.outcome.text)
    if kind != "similarity":
        expect(page.locator("#against .was").first).to_contain_text("was ")
    control(page, "Draw").select_option("plain")
    same(drawn(page), look_at(run, kind).weights(name_of(kind), 0)[1])


def test_a_text_that_was_drawn_is_kept_under_a_what_if(visit, at, run_of):
    manner = {**CALM, "max_tokens": 8, "temperature": 2, "seed": 5}
    page = visit(
        link(**STATES["language"], manner=manner, edits=[HOT], view="matrix", layer=1, head=0),
        at=at("language"),
    )
    text = run_of("language").generate("a c", max_new=8, temperature=2.0, seed=5)
    expect(page.locator("#said")).to_have_text(f"a c{text}")
    expect(page.locator("#against")).to_contain_text("The text is kept as it was written")
    same(
        drawn(page), run_of("language").explain("a c", text, edit=HOT).weights("decoder.self", 1)[0]
    )


def test_a_token_that_is_forced_is_written_on_from(visit, at, run_of):
    page = visit(link(**STATES["language"]), at=at("language"))
    control(page, "Token").select_option("1")
    control(page, "becomes").fill("h")
    page.get_by_role("button", name="Force").click()
    forced = {"kind": "force_token", "position": 1, "token": "h"}
    look = run_of("language").explain("a c", max_tokens=20, edit=forced)
    expect(page.locator("#said")).to_have_text("a c" + look.outcome.text)
    expect(page.locator("#moved")).to_contain_text("the first 4 words")


def test_only_what_applies_is_offered(visit, at):
    page = visit(link(**STATES["masked"]), at=at("masked"))
    tabs = page.get_by_role("tab").all_text_contents()
    assert tabs == ["Lines", "Story", "Matrix", "All heads", "Rollout", "Head map", "Compare"]
    expect(control(page, "Force")).to_have_count(0)
    expect(page.locator("#manner")).to_be_hidden()
    expect(page.locator("#second")).to_be_hidden()


@pytest.mark.parametrize("kind", ["classification", "language"])
def test_heads_are_measured_with_the_scores_of_the_task(visit, at, kind):
    page = visit(link(**STATES[kind]), at=at(kind))
    page.get_by_role("tab", name="Head map").click()
    expect(page.locator("#view tbody tr")).to_have_count(4, timeout=60_000)
    header = page.locator("#view thead th").all_text_contents()
    assert header[1:3] == {"classification": ["Δloss", "Δacc"], "language": ["Δloss", "Δppl"]}[kind]
    assert "ΔBLEU" not in header
    page.locator("#view tbody tr").nth(3).get_by_role("button").click()
    expect(control(page, "Layer")).to_have_value("1")
    expect(control(page, "Head")).to_have_value("1")


# ------------------------------------------------------------------ on any page


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_narrow_screen(visit, at, kind, scheme):
    state = {**STATES[kind], "view": "matrix", "head": 0, "token": 1, "edits": [HOT]}
    page = visit(link(**state), at=at(kind), color_scheme=scheme)
    page.set_viewport_size({"width": 360, "height": 740})
    page.reload()
    page.wait_for_selector("#steps svg")
    wide, seen = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= seen == 360


MARKUP = "<img src=x>"


@pytest.mark.parametrize("kind", KINDS)
def test_markup_stays_text(visit, at, kind):
    last, text = list(STATES[kind].items())[-1]
    state = STATES[kind] | {last: f"{MARKUP} {text}", "manner": {**CALM, "max_tokens": 5}}
    page = visit(link(**state), at=at(kind))
    expect(page.locator("#unknown")).to_contain_text("“img”")
    assert page.locator("main img").count() == 0


def test_a_text_too_long_for_the_pictures_keeps_its_answer(visit, at, run_of):
    page = visit(link(**STATES["language"]), at=at("language"))
    page.route(
        "**/api/explain", lambda route: route.fulfill(status=422, json={"error": "it is long"})
    )
    page.locator("#source").fill("h b")
    page.locator("#source").press("Enter")
    expect(page.locator("#trouble")).to_have_text("No pictures: it is long. The text stands.")
    text = run_of("language").generate("h b", temperature=0, max_new=20)
    expect(page.locator("#said")).to_have_text(f"h b{text}")


def test_an_example_brings_both_of_its_texts(visit, at, run_of):
    page = visit(link(**STATES["pairs"]), at=at("pairs"))
    page.locator("#examples button").nth(1).click()
    example = page.evaluate("fetch('/api/info').then(one => one.json())")["examples"][1]
    texts = page.locator("#source").input_value(), page.locator("#other").input_value()
    assert texts == (example["text"], example["other"])
    expect(page.locator("#said")).to_have_text(run_of("pairs").classify(texts))
    page.go_back()
    expect(page.locator("#other")).to_have_value("c a d")
    expect(page.locator("#said")).to_have_text(run_of("pairs").classify(("a b", "c a d")))


def test_a_broken_link_still_opens(visit, at):
    for hash_ in ("#manner=3&other=[", '#manner={"seed":"x"}&view=beam', "#name=decoder.cross"):
        page = visit(f"{hash_}&source=a%20c", at=at("language"))
        assert np.nanmax(drawn(page)) > 0
        expect(page.locator("#trouble")).to_be_hidden()


def test_what_attends_nowhere_says_so_and_still_answers(visit):
    run = encoder_run("masked", cell="gru")
    with served(make_app(run)) as address:
        page = visit(link(source="a <mask> c"), at=address, wait="#said")
        expect(page.locator("#view")).to_contain_text("This system does not attend")
        expect(page.locator("body")).not_to_contain_text("Too long")
        text = run.fill("a <mask> c").text
        expect(page.locator("#said")).to_contain_text(text)


def test_what_pools_a_text_has_one_row_which_is_the_label(visit):
    run = encoder_run("classification", pooling="attention", cell="lstm")
    with served(make_app(run)) as address:
        page = visit(link(source="a b c"), at=address)
        look = run.explain("a b c")
        expect(page.locator("#view [data-row] title").first).to_have_text(look.outcome.text)
        columns = page.locator("#view [data-column] title").all_text_contents()
        assert columns == list(look.source_tokens)
        page.locator("#view [data-row]").first.click()
        page.wait_for_selector("#steps svg")
