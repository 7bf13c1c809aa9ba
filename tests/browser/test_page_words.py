"""What is typed and what is claimed: unknown words, heads that answers rest on, true headlines."""

import re
import shutil

import pytest
import yaml
from page_parts import ABLATE, READY, SOURCE, control, link, served
from playwright.sync_api import expect

import regard
from regard.server.app import make_app

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def plain(run_path, tmp_path_factory):
    """The address of the short run as if it had learned a world without capitals and signs."""
    path = tmp_path_factory.mktemp("plain") / "run"
    shutil.copytree(run_path, path)
    config = yaml.safe_load((path / "config.yaml").read_text())
    config["data"] = {"world": "sentences", "direction": "en-fr"}
    (path / "config.yaml").write_text(yaml.safe_dump(config))
    with served(make_app(regard.load(path, device="cpu"))) as address:
        yield address


def marks(page):
    return page.locator(".typed .under mark").all_text_contents()


def test_unknown_words_are_marked_while_typing_and_what_is_read_is_told(visit, plain, run):
    page = visit(link(source="a b"), at=plain)
    page.locator("#source").press_sequentially(", C.")  # behind what stands there
    page.locator("#source").fill("A 😀 Zebra, b!")
    told = page.locator(".read-as").first
    expect(told).to_have_text(
        "Read as “a zebra b”: small letters, no punctuation. Not in the vocabulary: “Zebra”. "
        "What it makes of it is a guess."
    )
    assert marks(page) == ["Zebra"]
    box, under = (
        page.locator(f".typed {one}").first.bounding_box() for one in ("textarea", ".under")
    )
    assert box == under  # so that a mark stands below its word
    page.locator("#source").fill("A, b.")
    expect(told).to_have_text("Read as “a b”: small letters, no punctuation.")
    assert marks(page) == []
    page.get_by_role("button", name="Translate").click()
    expect(page.locator("#said")).to_have_text(run.explain("a b").translation)
    page.locator("#source").fill("a b")
    expect(told).to_be_empty()


def test_a_text_in_which_nothing_is_known_is_refused_with_examples(visit, plain):
    page = visit(link(source="a b"), at=plain)
    page.locator("#source").fill("Xyzzy?")
    expect(page.locator(".read-as").first).to_have_text("No word of it is known.")
    page.get_by_role("button", name="Translate").click()
    expect(page.locator("#trouble")).to_contain_text("such as: the animal did not cross the street")
    expect(page.locator("#desk")).to_be_hidden()


def test_an_empty_input_clears_the_old_answer(visit):
    page = visit(link(source=SOURCE))
    for emptied in ("", "  "):
        page.locator("#source").fill(SOURCE)
        page.locator("#source").press("Enter")
        page.wait_for_selector(READY)
        page.locator("#source").fill(emptied)
        expect(page.locator("#said")).to_be_empty()
        expect(page.locator("#against")).to_be_empty()
        expect(page.locator("#desk")).to_be_hidden()
        page.get_by_role("button", name="Translate").click()
        expect(page.locator("#said")).to_be_empty()
        expect(page.locator("#trouble")).to_contain_text("or choose an example")


def share(one):
    """A probability as the page writes it everywhere."""
    near = {"0.0": "< 0.1 %", "100.0": "> 99.9 %"}
    return near.get(f"{100 * one:.1f}", f"{100 * one:.1f} %")


def rests(found):
    """How the page tells it; where a head looks is told before."""
    most, whole = found.ranked[0], share(found.probability)
    if found.probability - most.without < 0.01:
        return f"“{found.token}” ({whole}) rests on no single head"
    now = share(most.without)
    return f"({most.attention}). Without it “{found.token}” falls from {whole} to {now}."


def test_the_page_tells_on_which_head_the_least_certain_word_rests(visit, run):
    page = visit(link(source=SOURCE))
    shares = run.explain(SOURCE).written.probabilities
    expect(page.locator("#rests")).to_contain_text(
        rests(run.importance(SOURCE, step=shares.index(min(shares))))
    )


def test_the_chosen_word_is_the_one_that_is_told_about(visit, run):
    page = visit(link(source=SOURCE, token=1, head=0))
    expect(page.locator("#rests")).to_contain_text(rests(run.importance(SOURCE, step=1)))
    page = visit(link(source=SOURCE, token=1, head=0, edits=[ABLATE]))
    edited = run.importance(SOURCE, step=1, edit=ABLATE)
    expect(page.locator("#rests")).to_contain_text(rests(edited))


def test_a_head_that_an_answer_rests_on_can_be_shown(visit, run):
    heads = [
        {"attention": "decoder.cross", "layer": 0, "head": head, "without": without}
        for head, without in ((0, 0.9), (1, 0.35))
    ]
    page = visit(link(source=SOURCE))
    answer = {"token": "il", "probability": 0.93, "heads": heads}
    page.route("**/api/importance", lambda route: route.fulfill(json=answer))
    page.reload()
    said = page.locator("#rests")
    expect(said).to_contain_text(
        "layer 0, head 1, which writes, looking at what was read (decoder.cross). "
        "Without it “il” falls from 93.0 % to 35.0 %."
    )
    expect(said).to_contain_text(re.compile("^While writing “il”, one head looks most(ly)? at “"))
    expect(said).to_contain_text("One other head costs 1 % or more as well.")
    said.get_by_role("button", name="Show it").click()
    expect(control(page, "Attention")).to_have_value("decoder.cross")
    expect(control(page, "Head")).to_have_value("1")


@pytest.mark.parametrize(("probability", "without"), [(0.9999, 1e-6), (1, 0)])
def test_a_probability_of_nearly_one_reads_the_same_everywhere(visit, probability, without):
    page = visit(link(source=SOURCE))
    heads = [{"attention": "decoder.cross", "layer": 0, "head": 0, "without": without}]
    answer = {"token": "il", "probability": probability, "heads": heads}
    page.route("**/api/importance", lambda route: route.fulfill(json=answer))
    page.reload()
    expect(page.locator("#rests")).to_contain_text("“il” falls from > 99.9 % to < 0.1 %.")
    expect(page.locator("#minimap [role=status]")).to_contain_text("“il” has > 99.9 %")


MEASURED = {"distances": [], "map": [], "clusters": [], "caveat": "", "task": "translation"}
MEASURED |= {"n": 200, "split": "valid", "antecedent_rule": 0.531}


@pytest.mark.parametrize("share", [0.426, 0.6])
def test_a_claim_about_a_head_has_the_numbers_of_the_head_map(visit, run, share):
    row = {
        "name": "encoder.self",
        "layer": 0,
        "head": 1,
        "antecedent": share,
        "loss_change": 0.0124,
    }
    other = {**row, "head": 0, "antecedent": 0.1}

    def info(route):
        told = {"pronouns": ["c"], "written": []}
        route.fulfill(json={**route.fetch().json(), "antecedents": told})

    state = {"state": "idle", "done": 0, "of": 0}
    page = visit(link(source=SOURCE))
    page.route("**/api/info", info)
    page.route("**/api/heads/progress", lambda route: route.fulfill(json=state))
    page.route("**/api/heads", lambda route: route.fulfill(json={**MEASURED, "rows": [other, row]}))
    page.reload()
    said = page.locator("#antecedent")
    expect(said).to_contain_text("Does a head find what a pronoun means")  # nothing is claimed yet
    state["state"] = "done"
    page.reload()
    expect(said).to_contain_text(
        "Most often layer 0, head 1, which reads (encoder.self): "
        f"{100 * share:.1f} % of the time, on 200 held-out sentences."
    )
    expect(said).to_contain_text(
        "A blind rule, which always takes the word a fixed number of places before the pronoun, "
        "finds it 53.1 % of the time"
    )
    expect(said).to_contain_text(
        "Without that head, right words are on average 1.2 % less probable."
    )
    beaten = ": so no head can be said to have learned it."
    assert (beaten in said.inner_text()) == (share < 0.531)
    weights = run.explain(SOURCE).weights("encoder.self")[1][2, :4].copy()
    weights[2] = 0
    expect(said).to_contain_text(
        f"from “c” that head looks at “{SOURCE.split()[int(weights.argmax())]}”"
    )
    said.get_by_role("button", name="Show it").click()
    expect(control(page, "Attention")).to_have_value("encoder.self")
    expect(control(page, "Head")).to_have_value("1")


def test_measuring_heads_tells_how_far_it_is(visit):
    page = visit(link(source=SOURCE))
    state = {"state": "measuring", "done": 0, "of": 0}
    page.route("**/api/heads/progress", lambda route: route.fulfill(json=state))
    page.route("**/api/heads", lambda _route: None)  # it takes its time
    page.get_by_role("tab", name="Head map").click()
    view = page.locator("#view")
    expect(view).to_have_text("Measuring: reading the sentences…")
    state |= {"done": 3, "of": 24}
    expect(view).to_contain_text("Measuring: 3 of 24 heads muted")
    assert page.locator("#view progress").evaluate("bar => bar.value / bar.max") == 3 / 24
