"""axe in every state of every page: nothing it finds, contrast decided, targets of 24 px."""

from dataclasses import replace

import pytest
from audits import ALL, BY_LOOKS, faults
from chats import chat_folder
from page_parts import ABLATE, READY, SOURCE, control, link, served
from picture_runs import counting_run
from playwright.sync_api import expect
from text_runs import short_run

import regard
from regard import lab
from regard.checkpoints.run_folder import RunFolder
from regard.lab.result import write_page
from regard.runs.heads import head_measures
from regard.server.app import make_app
from regard.server.watching import make_watching_app
from regard.tasks.recipe import recipe_from

pytestmark = pytest.mark.browser

WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
CROSS = {"source": SOURCE, "name": "decoder.cross", "layer": 0, "head": 0}


@pytest.fixture
def look(visit):
    """A page in colours, for a reader who wants it still; axe is no part of it, so may come in."""

    def open_(hash_, scheme, size, **how):
        calm = {"reduced_motion": "reduce", "bypass_csp": True}
        page = visit(hash_, color_scheme=scheme, **calm, **how)
        page.set_viewport_size(size)
        return page

    return open_


@pytest.fixture(scope="module")
def heads(run):
    """A head map; measured here, for a server takes a process for it."""
    return head_measures(run, n=4).as_json()


def turn_to(page, view, ready="svg"):
    page.get_by_role("tab", name=view, exact=True).click()
    page.wait_for_selector(f"#view:not([aria-busy]) {ready}")


def opened(page):
    """All that folds is unfolded, a lesson has begun, and a word is explained."""
    for part in ("#calls", "#drawing", "#lessons"):
        page.locator(f"{part} > summary").click()
    page.locator("#drawing svg").wait_for()
    control(page, "lesson soft").click()
    page.wait_for_selector("#lesson .choices button:enabled")
    page.locator("#words .term").first.click()


def told(page):
    """The story, at its last station; the drawing, which is large, was looked at.

    The lesson too, which stays in view and would lie over the pictures of other states.
    """
    page.locator("#drawing > summary").click()
    control(page, "lesson end").click()
    turn_to(page, "Story", ".station")
    page.locator(".stops button, .steering [data-control=next]").last.focus()
    page.keyboard.press("ArrowRight")


def searched(page):
    """The matrix with the steps of a row, and what was found by a search."""
    turn_to(page, "Matrix")
    page.locator("#search > summary").click()
    control(page, "search").click()
    page.locator("#search-said").wait_for(timeout=60_000)  # a process reads the data


def two_sentences(page):
    turn_to(page, "Compare", ".beside-each > div:nth-child(2) svg")


def two_heads(page):
    control(page, "Compare").select_option("head")
    page.get_by_role("heading", name="Layer 0, head 1").wait_for()


def on_the_whole_screen(page):
    page.get_by_role("button", name="Full screen", exact=True).click()
    page.get_by_role("button", name="Leave full screen").wait_for()


STATES = {
    "lines, everything open": opened,
    "story": told,
    "matrix, steps and search": searched,
    "all heads": lambda page: turn_to(page, "All heads"),
    "rollout": lambda page: turn_to(page, "Rollout"),
    "beam": lambda page: turn_to(page, "Beam", "[data-node]"),
    "two sentences": two_sentences,
    "two heads": two_heads,
    "head map": lambda page: turn_to(page, "Head map", "table"),
    "the whole screen": on_the_whole_screen,
}
"""One after the other: what was opened before stays open."""


@pytest.mark.parametrize(
    ("scheme", "size", "rules"),
    [
        ("light", WIDE, ALL),
        ("dark", NARROW, BY_LOOKS),
    ],
    ids=["light and wide", "dark and narrow"],
)
def test_no_state_of_a_translators_page_has_a_fault(look, heads, scheme, size, rules):
    page = look(link(**CROSS, token=1, edits=[ABLATE]), scheme, size)
    page.route("**/api/heads", lambda route: route.fulfill(json=heads))
    page.locator("#rests:not([aria-busy]), #against:not(:has(#rests))").wait_for()
    found = {}
    for state, enter in STATES.items():
        enter(page)
        found[state] = faults(page, rules)
    assert found == {state: [] for state in STATES}


KINDS = {
    "classification": ({"source": "a b c d"}, short_run),
    "language": ({"source": "a c"}, short_run),
    "pictures": ({"view": "picture"}, lambda _kind, folder: counting_run(folder)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_page_of_another_task_has_a_fault(look, tmp_path, kind):
    state, made = KINDS[kind]
    run = regard.load(made(kind, tmp_path), device="cpu")
    with served(make_app(run)) as at:
        page = look(link(**state), "light", WIDE, at=at)
        page.wait_for_selector(READY)
        assert faults(page) == []
        page.set_viewport_size(NARROW)
        page.emulate_media(color_scheme="dark")
        turn_to(page, "Story", ".station")
        assert faults(page, BY_LOOKS) == []


def two_runs(page):
    page.locator(".beside-each > div:nth-child(2) svg").wait_for()


def talked(page):
    """A turn and its answer, of which a token is looked at."""
    page.get_by_label("Temperature").first.fill("0")
    page.locator("#chat-words").fill("a tea")
    page.locator("#chat-words").press("Enter")
    page.locator(".turns[aria-busy=false] li.assistant .bubble button").first.click()
    page.locator(".shaded").wait_for()


def filmed_until_now(page):
    page.locator(".film svg").wait_for()
    page.locator(".learning svg").first.wait_for()


def beside_itself(run_path, **_):
    run, other = (regard.load(run_path, device="cpu") for _ in range(2))
    return make_app(run, beside=other)


def chatting(tmp_path, **_):
    return make_app(regard.load(chat_folder(tmp_path, max_len=400), device="cpu"))


def training(filmed, settings, **_):
    return make_watching_app(RunFolder(filmed), recipe_from(settings))


OTHERS = {
    "two runs": (beside_itself, {**CROSS, "view": "compare", "versus": "run"}, two_runs),
    "a chat": (chatting, {}, talked),
    "a training": (training, {}, filmed_until_now),
}
"""Pages with another server: what is served, the state of a link, and what is done there."""


@pytest.mark.parametrize("name", OTHERS)
def test_no_other_page_has_a_fault(look, run_path, filmed, settings, tmp_path, name):
    made, state, enter = OTHERS[name]
    app = made(run_path=run_path, filmed=filmed, settings=settings, tmp_path=tmp_path)
    with served(app) as at:
        page = look(link(**state), "light", WIDE, at=at, wait="main")
        enter(page)
        found = {"light and wide": faults(page)}
        page.set_viewport_size(NARROW)
        page.emulate_media(color_scheme="dark")
        found["dark and narrow"] = faults(page, BY_LOOKS)
    assert found == {"light and wide": [], "dark and narrow": []}


@pytest.fixture(scope="module")
def papers(run_path, run, tmp_path_factory):
    """Pages that are files: name -> text."""
    held = lab.rows()
    page = write_page([held, replace(held, verdict=False)], tmp_path_factory.mktemp("lab"))
    return {
        "lab": page.read_text(encoding="utf-8"),
        "report": (run_path / "report.html").read_text(encoding="utf-8"),
        "look": run.explain(SOURCE).as_file("html"),
    }


@pytest.mark.parametrize("name", ["lab", "report", "look"])
def test_no_page_that_is_a_file_has_a_fault(browser, papers, name):
    for scheme, size in (("light", WIDE), ("dark", NARROW)):
        page = browser.new_page(color_scheme=scheme, viewport=size, bypass_csp=True)
        page.set_content(papers[name])
        expect(page.locator("svg").first).to_be_visible()
        assert faults(page) == []
        page.close()
