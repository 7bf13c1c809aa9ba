"""Claims of the lectures in the story, put to the test on the sentence at hand."""

import pytest
from page_parts import SOURCE, control, link
from playwright.sync_api import expect

from regard import lab

pytestmark = pytest.mark.browser

READY = "#view:not([aria-busy]) .station"
CROSS = {"source": SOURCE, "name": "decoder.cross", "layer": 0, "head": 0}


def card(page, name):
    return page.locator(f'[data-claim="{name}"]')


def tell(visit, **state):
    return visit(link(**{**CROSS, "view": "story", "token": 1, **state}), wait=READY)


@pytest.mark.parametrize(
    ("name", "station"), [("positions", "vector"), ("scaling", "scale"), ("heads", "heads")]
)
def test_a_claim_stands_where_it_belongs_in_the_words_of_the_lab(visit, name, station):
    page = tell(visit)
    here = page.locator(f'[data-station="{station}"] [data-claim="{name}"]')
    expect(here).to_contain_text(lab.claim(name))
    expect(here).to_contain_text(f"regard lab {name}")
    expect(card(page, "future")).to_have_count(0)  # nothing is hidden from a cross-attention


def test_its_test_says_what_came_out_and_shows_it_on_the_page_when_asked(visit, run):
    page = tell(visit)
    control(page, "test positions").click()
    plain = run.explain(SOURCE).translation
    blind = run.explain(SOURCE, edit={"kind": "no_positions"}).translation
    told = f"“{plain}” becomes “{blind}”" if plain != blind else f"the answer stays “{blind}”"
    expect(card(page, "positions").get_by_role("status")).to_contain_text(told)
    expect(page.locator("#said")).to_have_text(plain)  # the story goes on as it was
    control(page, "show positions").click()
    expect(page.locator("#switches .active")).to_contain_text("positions are off")
    expect(page.locator("#said")).to_have_text(blind)
    page.wait_for_selector(READY)
    expect(card(page, "positions").get_by_role("status")).to_contain_text(told)  # drawn anew


def test_order_makes_no_difference_without_positions(visit, run):
    page = tell(visit)
    control(page, "test permutation").click()
    edits = [{"kind": "no_positions"}, {"kind": "swap", "first": 0, "second": 3}]
    answers = [run.explain(SOURCE, edit=edits[:n]).translation for n in (1, 2)]
    said = card(page, "permutation").get_by_role("status")
    expect(said).to_contain_text(f"swapped as well: “{answers[1]}”")
    same = "made no difference" if answers[0] == answers[1] else "made a difference"
    expect(said).to_contain_text(same)


def test_undivided_scores_make_sharper_weights(visit, run):
    page = tell(visit)
    control(page, "test scaling").click()
    scale = run.explain(SOURCE).steps(1, name="decoder.cross").scale
    hot = {"kind": "temperature", "value": float(f"{scale:.3g}"), "name": None}
    looks = [run.explain(SOURCE), run.explain(SOURCE, edit=hot)]
    shares = [100 * look.weights("decoder.cross").max(axis=-1).mean() for look in looks]
    said = card(page, "scaling").get_by_role("status")
    expect(said).to_contain_text(f"{shares[0]:.1f} % on average in this layer; undivided")
    expect(said).to_contain_text(f"undivided {shares[1]:.1f} %")


def test_a_head_alone_and_a_mask_are_tested(visit):
    page = tell(visit, name="decoder.self")
    control(page, "test future").click()
    said = card(page, "future").get_by_role("status")
    expect(said).to_contain_text("the largest is 0.000. The mask hides them all.")
    control(page, "test heads").click()
    expect(card(page, "heads").get_by_role("status")).to_contain_text(
        "With head 0 alone in layer 0"
    )
    control(page, "show heads").click()
    expect(page.locator("#switches .active")).to_contain_text(
        "decoder.self, layer 0, head 1: muted"
    )


def test_every_claim_that_the_page_can_test_is_one_of_the_lab(visit):
    page = tell(visit)
    names = page.evaluate("import('/static/claims.js').then(({CLAIMS}) => Object.keys(CLAIMS))")
    told = page.evaluate("fetch('/api/info').then((answer) => answer.json())")["claims"]
    assert told == {name: lab.claim(name) for name in lab.NAMES}
    assert {"positions", "future"} < {*names} <= {*told}


AXES = {
    "a translator, whose words are written one by one": ("target", "input", True),
    "a language model": ("text", "text", True),
    "an encoder": ("source", "source", False),
    "a detector, whose objects come all at once": ("target", "target", False),
}


def test_only_what_is_written_word_by_word_has_a_future(visit):
    page = tell(visit)
    cases = [[rows, columns] for rows, columns, _ in AXES.values()]
    assert page.evaluate(
        """async (cases) => {
             const { CLAIMS } = await import("/static/claims.js");
             const steps = { name: "decoder.self", columns: ["a"] };
             const told = ([side, columns]) => ({ side, columns, steps, rows: ["a"] });
             return cases.map((one) => CLAIMS.future.needs(told(one)));
           }""",
        cases,
    ) == [wanted for _, _, wanted in AXES.values()]


def test_where_there_is_no_story_it_is_said_and_the_steps_are_a_click_away(visit):
    page = tell(visit)
    why = {"error": "its layers do not read a text from its beginning"}
    page.route("**/api/story", lambda route: route.fulfill(status=422, json=why))
    control(page, "follow 2").click()
    expect(page.locator("#view")).to_contain_text("There is no story of this attention")
    control(page, "six steps").click()
    expect(page.locator("#steps-title")).to_contain_text("Six steps of")
