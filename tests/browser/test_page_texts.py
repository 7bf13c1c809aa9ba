"""Texts on the page: unknown words, several lines, too many words, keys, and words about heads."""

import numpy as np
import pytest
from page_parts import READY, SOURCE, control, link
from playwright.sync_api import expect

from regard.data.splits import load_records
from regard.runs.heads import head_measures
from regard.visual.heads import COLUMNS, head_tables

pytestmark = pytest.mark.browser


def test_unknown_words_are_named_and_their_tokens_labelled(visit):
    page = visit(link(source="a John b Mary John", token=0, head=0))
    expect(page.locator("#unknown")).to_have_text(
        "Not in the vocabulary: “John”, “Mary”; read as <unk>."
    )
    page.wait_for_selector("#steps svg")
    for where in ("#view", "#steps"):
        names = page.locator(f"{where} [data-column] title").all_text_contents()
        expected = ["a", "<unk> John", "b", "<unk> Mary", "<unk> John", "</s>"]
        assert [name.removesuffix(" (hidden)") for name in names] == expected
    page.locator("#source").fill("a b")
    page.locator("#source").press("Enter")
    expect(page.locator("#unknown")).to_have_count(0)


def test_what_the_model_knows_is_said_under_the_box(visit, run):
    page = visit(link(source=SOURCE))
    n_words = run.tokenizers.source.n_vocab - 4
    expect(page.locator("#knows")).to_contain_text(f"It knows {n_words} words")
    expect(page.locator("#knows")).to_contain_text("in lower case, without punctuation")


def test_each_line_is_translated_and_one_is_looked_at(visit, run):
    page = visit(link(source=SOURCE))
    page.locator("#source").fill("")
    page.locator("#source").focus()
    for key in ("a", " ", "b", "Shift+Enter", "Shift+Enter", "c", " ", "d", " ", "e", "Enter"):
        page.keyboard.press(key)
    first, second = run.translate(["a b", "c d e"])
    expect(page.locator("#said")).to_have_text(f"{first} {second}")
    assert page.locator("#said").inner_text().split("\n") == [first, "", second]
    expect(control(page, "Line")).to_have_value("0")
    control(page, "Line").select_option("1")
    expect(page.locator("#view [data-column='0'] title")).to_have_text("c")
    control(page, "Swap").select_option("0")
    control(page, "with").select_option("2")
    look = run.explain("e d c")
    expect(page.locator("#said")).to_have_text(f"{first} {look.translation}")
    page.get_by_role("tab", name="Beam").click()
    page.wait_for_selector("#view [data-node]")
    page.reload()
    page.wait_for_selector(READY)
    expect(control(page, "Line")).to_have_value("1")
    control(page, "Line").select_option("0")
    expect(control(page, "Swap").locator("option")).to_have_count(3)
    expect(page.locator(".active li")).to_have_count(0)  # words of another sentence
    expect(page.locator("#switches .trouble")).to_have_count(0)  # nor tried on it
    expect(page.locator("#said")).to_have_text(f"{first} {second}")


def test_a_text_that_is_too_long_for_the_pictures_is_still_translated(visit, run):
    page = visit(link(source=SOURCE))
    text = " ".join(["a b"] * 80)
    page.locator("#source").fill(text)
    page.locator("#source").press("Enter")
    expect(page.locator("#trouble")).to_have_text(
        "No pictures: the text has 160 tokens, at most 128 can be looked at; "
        "shorten it. The translation stands."
    )
    expect(page.locator("#said")).to_have_text(run.translate(text))
    expect(page.locator("#desk")).to_be_hidden()
    page.locator("#source").fill(SOURCE)
    page.locator("#source").press("Enter")
    expect(page.locator("#trouble")).to_be_hidden()
    page.wait_for_selector(READY)


def test_a_server_with_a_key_asks_for_it_and_is_given_it(visit, run):
    def answer(route):
        if route.request.headers.get("authorization") == "Bearer sesame":
            route.continue_()
        else:
            route.fulfill(status=401, json={"error": "words for programs"})

    page = visit(link(source=SOURCE))
    page.route("**/api/**", answer)
    page.reload()
    expect(page.locator("#trouble")).to_have_text("This server asks for a key.")
    page.get_by_label("Key of this server").fill("guess")
    page.get_by_role("button", name="Use it").click()
    expect(page.locator("#trouble")).to_have_text("That key is not right.")
    page.get_by_label("Key of this server").fill("sesame")
    page.get_by_role("button", name="Use it").click()
    expect(page.locator("#said")).to_have_text(run.explain(SOURCE).translation)
    expect(page.locator("#key")).to_be_hidden()


def test_the_measures_are_named_and_written_as_the_command_writes_them(visit, run):
    page = visit(link(source=SOURCE))
    page.get_by_role("tab", name="Head map").click()
    expect(page.locator("#view tbody tr")).to_have_count(6, timeout=60_000)
    found = head_measures(run, load_records(run.recipe.data, "pair")).as_json()
    header = page.locator("#view thead th").all_text_contents()
    told = dict(
        zip(
            page.locator("#view dt").all_text_contents(),
            page.locator("#view dd").all_text_contents(),
            strict=True,
        )
    )
    assert set(told) == set(header[1:])
    for column in COLUMNS:
        if column.name in header:
            assert told[column.name] == column.meaning
    shown = {}
    for row in page.locator("#view tbody tr").all():
        cells = [row.locator("th").inner_text(), *row.locator("td").all_text_contents()]
        shown[cells[0]] = dict(zip(header, cells, strict=True))
    for table in head_tables(found):
        for cells in table.rows:
            mine = shown[f"{table.caption} {cells[0]}"]
            expected = dict(zip(table.header, cells, strict=True))
            assert {name: mine[name] for name in table.header[1:]} == {
                name: expected[name] for name in table.header[1:]
            }


@pytest.mark.parametrize("width", [360, 1280])
def test_marks_on_the_map_do_not_cover_each_other(visit, width):
    rows = [
        {"name": "encoder.self", "layer": 0, "head": h, "loss_change": 0.1 * (h % 3)}
        for h in range(9)
    ]
    points = [[0, 0]] * 5 + [[1, 1], [1, 1.01], [0.01, 0], [0, 2]]
    heads = {"rows": rows, "map": points, "clusters": list(range(9)), "n": 1, "caveat": ""}
    page = visit(link(source=SOURCE))
    page.set_viewport_size({"width": width, "height": 900})
    page.route("**/api/heads", lambda route: route.fulfill(json=heads))
    page.get_by_role("tab", name="Head map").click()
    page.wait_for_selector("#view [data-index]")
    x, y, r = np.array(
        page.locator("#view [data-index] circle").evaluate_all(
            "all => all.map(one => ['cx', 'cy', 'r'].map(key => +one.getAttribute(key)))"
        )
    ).T
    apart = np.hypot(x[:, None] - x, y[:, None] - y) - r[:, None] - r
    assert apart[~np.eye(9, dtype=bool)].min() > 0
    looks = page.locator("#view [data-index] circle").evaluate_all(
        "all => all.map(one => one.getAttribute('stroke') + one.getAttribute('stroke-dasharray'))"
    )
    assert len(set(looks)) == 9  # clusters of one attention
    expect(page.locator("#view [data-size]").first).to_have_text("+0.200")
