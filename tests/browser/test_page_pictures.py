"""How pictures of the page are laid out: what is in sight, what is named, what can be hit."""

import json

import numpy as np
import pytest
from looks import payload, steps, tree
from page_parts import ABLATE, READY, SOURCE, control, drawn, link, same
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

LONG = "a b c d e f g h " * 7 + "a b c d"  # 60 words


@pytest.mark.parametrize("size", [(1440, 900), (1024, 768), (390, 844)])
def test_the_first_picture_is_above_the_fold_in_one_colour(visit, run, size):
    page = visit(link(source=SOURCE))
    page.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
    page.reload()
    page.wait_for_selector(READY)
    top = page.locator("#view svg").bounding_box()["y"]
    assert top <= 0.75 * size[1]
    last = page.locator('#view [data-row="1"]').bounding_box()
    assert last["y"] + last["height"] < size[1]
    colours = page.eval_on_selector_all(
        "#view path[data-weight]", "all => [...new Set(all.map(one => one.getAttribute('stroke')))]"
    )
    assert len(colours) == 1
    expect(page.locator("#view svg")).to_contain_text("mean of all heads")
    control(page, "Hide below").fill("0")
    same(drawn(page), run.explain(SOURCE).weights("decoder.cross").mean(axis=0))


def test_source_and_answer_stand_as_chips(visit, run):
    page = visit(link(source=SOURCE))
    look = run.explain(SOURCE)
    for side, tokens in (("row", look.target_tokens), ("column", look.source_tokens)):
        chips = page.locator(f"#view g[data-{side}]:has(rect)")
        assert chips.locator("text").all_text_contents() == list(tokens)
        for i in range(len(tokens)):
            assert chips.nth(i).locator("rect").bounding_box()["height"] >= 24


def test_all_heads_are_drawn_in_their_colours_when_asked_for_and_a_link_keeps_it(visit):
    page = visit(link(source=SOURCE, threshold=0))
    control(page, "Head").select_option("all")
    heads = "all => [...new Set(all.map(one => one.dataset.head))].sort()"
    assert page.eval_on_selector_all("#view path[data-weight]", heads) == ["0", "1"]
    assert "head=all" in page.url
    page.reload()
    page.wait_for_selector(READY)
    expect(control(page, "Head")).to_have_value("all")
    page.get_by_role("tab", name="Matrix").click()
    expect(control(page, "Head")).to_have_value("")  # a matrix is of one head, or of the mean


def test_where_no_head_is_chosen_the_steps_show_all_and_lead_to_one(visit, run):
    page = visit(link(source=SOURCE))
    page.locator('#view [data-row="1"]').click()
    expect(page.locator("#steps-title")).to_contain_text("Every head of")
    expect(control(page, "Head")).to_have_value("")
    expect(page.locator('#steps [aria-pressed="true"]')).to_have_count(0)
    weights = run.explain(SOURCE).weights("decoder.cross")[:, 1]
    same(drawn(page, "#steps"), np.vstack([weights, weights.mean(axis=0)]))
    page.locator('#steps [data-row="1"]').click()
    expect(page.locator("#steps-title")).to_contain_text("Six steps of")
    expect(page.locator("#steps .caption")).to_contain_text("head 1")
    expect(control(page, "Head")).to_have_value("1")
    expect(control(page, "head 1")).to_have_attribute("aria-pressed", "true")


def drawn_steps(page, d):
    """The steps of a head of this size, whatever the run has, where the page redraws nothing."""
    look = payload(SOURCE.split())
    one = {**steps(look, 0, d=d), "scale": d**-0.5}
    page.evaluate(
        """async (steps) => {
          const { drawSteps } = await import("/static/draw.js");
          document.getElementById("drawn")?.remove();
          const box = document.createElement("section");
          Object.assign(box, { id: "drawn", className: "steps" });
          document.getElementById("steps").after(box);
          drawSteps(box, steps);
        }""",
        one,
    )
    return page.locator("#drawn [data-scroller]")


@pytest.mark.parametrize("d", [8, 64])
def test_all_six_steps_fit_their_place(visit, d):
    page = visit(link(source=SOURCE, head=0))
    for width in (360, 390, 1024, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        fit(page, d)


def fit(page, d):
    """Nothing of the six steps lies outside of their place."""
    scroller = drawn_steps(page, d)
    expect(scroller).to_have_attribute("data-more", "")
    inside = scroller.bounding_box()
    for title in ("6 weight × value", "4 × 1/√d_k"):
        box = page.locator("#drawn svg text", has_text=title).bounding_box()
        assert box["x"] >= inside["x"]
        assert box["x"] + box["width"] <= inside["x"] + inside["width"] + 1
    cells = page.locator('#drawn g[data-s="0"] rect[data-value]')
    assert cells.count() == 3 * d  # key, value and weighted value
    last = cells.last.bounding_box()
    assert last["x"] + last["width"] <= inside["x"] + inside["width"] + 1


def test_the_steps_say_what_their_colours_and_their_scale_are(visit):
    page = visit(link(source=SOURCE, head=0))
    drawn_steps(page, 64)
    expect(page.locator("#drawn [data-legend]")).to_contain_text("above 0")
    expect(page.locator("#drawn [data-legend] span")).to_have_count(2)
    title = page.locator("#drawn svg text", has_text="4 × 1/√d_k").locator("title")
    expect(title).to_have_text(
        "d_k = 64, the size of a query and of a key: scores are multiplied by 1/√64 = 0.125"
    )


@pytest.mark.parametrize("source", ["a b", SOURCE, "a b c d e f g h"])
def test_the_matrix_fills_its_width_with_names_a_scale_and_numbers(visit, run, source):
    page = visit(link(source=source, view="matrix", head=0))
    place = page.locator("#view").bounding_box()
    assert page.locator("#view svg").bounding_box()["width"] >= 0.6 * place["width"]
    expect(page.locator('#view [data-axis="rows"]')).to_have_text("target ↓")
    expect(page.locator('#view [data-axis="columns"]')).to_have_text("looks at source →")
    expect(page.locator("#view [data-scale]")).to_contain_text("weight")
    weights = run.explain(source).weights("decoder.cross")[0]
    texts = page.locator("#view g[text-anchor=middle] text").all_text_contents()
    assert texts == [f"{one:.2f}" for one in weights.ravel() if one >= 0.005]


def test_pointing_at_a_cell_tells_it_beside_the_pointer_and_marks_its_row_and_column(visit, run):
    page = visit(link(source=SOURCE, view="matrix", head=0))
    cell = page.locator('#view rect[data-t="1"][data-s="2"]')
    cell.hover()
    weight = run.explain(SOURCE).weights("decoder.cross")[0][1, 2]
    tip = page.locator("#view [data-tip]")
    expect(tip).to_contain_text(f": {float(f'{weight:.3g}'):g}")
    assert tip.evaluate("one => parseFloat(getComputedStyle(one).fontSize)") >= 14
    near, place = tip.bounding_box(), cell.bounding_box()
    assert abs(near["y"] - place["y"]) < 80
    bold = page.locator("#view [font-weight='700']")
    named = bold.evaluate_all("all => all.map(({dataset: d}) => [d.row ?? null, d.column ?? null])")
    assert sorted(named, key=str) == [["1", None], [None, "2"]]
    page.mouse.move(2, 2)
    expect(tip).to_be_hidden()
    expect(bold).to_have_count(0)


def test_small_pictures_of_heads_say_that_they_show_a_root(visit):
    page = visit(link(source=SOURCE, view="grid"))
    expect(page.locator("#view [data-legend]")).to_contain_text("the square root of the weight")


def large_matrix(page):
    return page.locator("#view [data-surface]")


def test_a_large_matrix_tells_the_cell_that_is_pointed_at(visit):
    page = visit(link(source=LONG, view="matrix", name="encoder.self", head=0))
    large_matrix(page).hover(position={"x": 100, "y": 100})
    expect(page.locator("#view [data-tip]")).to_be_visible()
    told = large_matrix(page).get_attribute("aria-label")
    expect(page.locator("#view [data-tip]")).to_have_text(told)


def test_a_large_matrix_is_one_image_that_tells_each_cell(visit, run):
    page = visit(link(source=LONG, view="matrix", name="encoder.self", head=0))
    assert page.locator("#view svg *").count() < 500
    weights = run.explain(LONG).weights("encoder.self")[0]
    page.locator('#view [data-row="0"]').focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    expect(large_matrix(page)).to_have_attribute("data-cell", "2 1")
    shown = float(large_matrix(page).get_attribute("data-weight"))
    assert shown == pytest.approx(weights[2, 1], abs=1e-6)
    expect(page.locator("#view [data-tip]")).to_contain_text("→ b: ")
    for _ in range(30):
        page.keyboard.press("ArrowDown")
    expect(large_matrix(page)).to_have_attribute("data-cell", "32 1")
    moved = page.evaluate("document.querySelector('#view [data-scroller]').scrollTop")
    assert moved > 0  # the cell is in sight
    page.keyboard.press("Enter")
    expect(page.locator("#steps-title")).to_be_visible()
    opacity = page.evaluate(
        """async () => {
          const image = document.querySelector("#view image");
          const picture = new Image();
          picture.src = image.getAttribute("href");
          await picture.decode();
          const canvas = document.createElement("canvas");
          [canvas.width, canvas.height] = [picture.width, picture.height];
          const context = canvas.getContext("2d");
          context.drawImage(picture, 0, 0);
          const { data } = context.getImageData(0, 0, picture.width, picture.height);
          return Array.from(data).filter((_, i) => i % 4 === 3);
        }"""
    )
    same_shape = np.reshape(opacity, weights.shape) / 255
    np.testing.assert_allclose(same_shape, weights, atol=1 / 255)


def test_many_lines_are_drawn_on_a_canvas_and_still_told_and_saved(visit, tmp_path):
    page = visit(link(source=LONG, name="encoder.self", head="all", threshold=0))
    assert int(page.locator("#view svg").get_attribute("data-lines")) > 3000
    assert page.locator("#view *").count() < 1500
    painted = """() => Array.from(document.querySelectorAll("#view canvas"), (one) =>
      one.getContext("2d").getImageData(0, 0, one.width, one.height)
        .data.some((value, i) => i % 4 === 3 && value > 0))"""
    assert page.evaluate(painted) == [True]
    page.locator('#view [data-row="3"]').hover()
    expect(page.locator("#view canvas").first).to_have_css("opacity", "0.08")
    assert page.evaluate(painted) == [True, True]  # those of the word stand out above the others
    box = page.locator("#view svg").bounding_box()
    names = page.locator('#view [data-row="3"] rect').bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, names["y"] + 12)
    expect(page.locator("#view [data-tip]")).to_contain_text("→")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save SVG").click()
    text = download.value.path().read_text(encoding="utf-8")
    assert "data:image/png;base64," in text


def test_the_beam_shows_all_steps_the_winner_first_and_shares_instead_of_logarithms(visit, run):
    page = visit(link(source=SOURCE, view="beam"), wait="#view [data-node]")
    nodes = run.beam(SOURCE).as_json()["nodes"]
    by_id = {node["id"]: node for node in nodes}
    path = [next(node for node in nodes if node["state"] == "best")]
    while path[0]["parent"] is not None:
        path.insert(0, by_id[path[0]["parent"]])
    share = np.exp(sum(node["log_prob"] for node in path))
    winner = page.locator("#view .winner")
    expect(winner).to_contain_text(" ".join(node["token"] for node in path[1:]))
    shown = float(winner.inner_text().split()[-2])
    assert shown == pytest.approx(100 * share, abs=0.6)
    scroller = page.locator("#view [data-scroller]").bounding_box()
    left = {page.locator(f'#view [data-node="{n["id"]}"]').bounding_box()["x"] for n in path}
    assert max(left) - min(left) < 1  # straight down
    steps = max(node["step"] for node in nodes)
    headings = page.locator("#view [data-step]")
    expect(headings).to_have_count(steps + 1)
    for i in range(steps + 1):
        box = headings.nth(i).bounding_box()
        assert box["x"] + box["width"] <= scroller["x"] + scroller["width"]
    assert "-0.00" not in page.locator("#view").inner_text()
    some = by_id[path[1]["id"]]
    text = page.locator(f'#view [data-node="{some["id"]}"] text').text_content()
    assert text.startswith(some["token"])
    assert "%" in text


def test_every_point_of_the_head_map_has_its_label_and_can_be_hit(visit):
    rows = [
        {"name": "encoder.self", "layer": h // 4, "head": h % 4, "loss_change": 0.1 * (h % 3)}
        for h in range(12)
    ]
    heads = {"rows": rows, "map": [[0, 0]] * 8 + [[1, 1]] * 4, "clusters": [0] * 12}
    page = visit(link(source=SOURCE))
    more = {"n": 1, "caveat": ""}
    page.route("**/api/heads", lambda route: route.fulfill(json={**heads, **more}))
    page.get_by_role("tab", name="Head map").click()
    points = page.locator("#view [data-index]")
    expect(points).to_have_count(12)
    labels = {one.locator("text").text_content() for one in points.all()}
    assert labels == {f"{row['layer']}.{row['head']}" for row in rows}
    boxes = [one.locator("text").bounding_box() for one in points.all()]
    for i, a in enumerate(boxes):
        for b in boxes[i + 1 :]:
            apart = (
                a["x"] + a["width"] <= b["x"] + 1
                or b["x"] + b["width"] <= a["x"] + 1
                or a["y"] + a["height"] <= b["y"] + 3
                or b["y"] + b["height"] <= a["y"] + 3
            )
            assert apart
    sizes = [one.locator("path").bounding_box() for one in points.all()]
    assert min(min(size["width"], size["height"]) for size in sizes) > 23.99


def test_a_column_sorts_the_measures_and_sorts_them_back(visit):
    values = [0.3, None, -0.1, 0.2]
    rows = [
        {"name": "encoder.self", "layer": 0, "head": h, "loss_change": value}
        for h, value in enumerate(values)
    ]
    heads = {"rows": rows, "map": [[h, 0] for h in range(4)], "clusters": [0, 1, 2, 3]}
    page = visit(link(source=SOURCE))
    more = {"n": 1, "caveat": ""}
    page.route("**/api/heads", lambda route: route.fulfill(json={**heads, **more}))
    page.get_by_role("tab", name="Head map").click()
    names = page.locator("#view tbody th")
    expect(names).to_have_count(4)
    heading = page.locator("#view thead th").nth(1)
    for order, told in (("0 3 2 1", "descending"), ("2 3 0 1", "ascending")):
        heading.get_by_role("button").click()
        expect(heading).to_have_attribute("aria-sort", told)
        expected = [f"encoder.self 0.{h}" for h in order.split()]
        assert names.all_text_contents() == expected
    page.locator("#view thead th").first.get_by_role("button").click()
    assert names.all_text_contents() == [f"encoder.self 0.{h}" for h in range(4)]


def test_whatever_can_be_chosen_is_as_large_as_a_fingertip(visit):
    page = visit(link(source=SOURCE, view="matrix", head=0, token=1, edits=[ABLATE]))
    page.wait_for_selector("#steps svg")
    small = page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, summary, #view [tabindex]")]
          .filter((one) => one.checkVisibility())
          .map((one) => [one.outerHTML.slice(0, 60), one.closest("label.tick") ?? one])
          .map(([text, one]) => [text, one.getBoundingClientRect()])
          .filter(([, box]) => box.width < 23 || box.height < 23)
          .map(([text, box]) => `${text} ${box.width} × ${box.height}`)"""
    )
    assert small == []


def test_lines_are_brighter_on_a_dark_page(visit):
    strokes = {}
    for scheme in ("light", "dark"):
        page = visit(link(source=SOURCE, head="all", threshold=0), color_scheme=scheme)
        strokes[scheme] = page.eval_on_selector_all(
            "#view path[data-weight]",
            "all => [...new Set(all.map(one => one.getAttribute('stroke')))].sort()",
        )
    assert strokes == {"light": ["#0072B2", "#D55E00"], "dark": ["#3f9edb", "#ff8a3d"]}


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_the_page_scrolls_at_once_where_the_reader_wants_no_motion(visit, motion):
    page = visit(link(source=SOURCE, head=0), reduced_motion=motion)
    page.evaluate(
        """() => {
          window.scrolls = [];
          Element.prototype.scrollIntoView = function (how) { scrolls.push(how.behavior); };
        }"""
    )
    page.locator('#view [data-row="1"]').click()
    page.wait_for_selector("#steps svg")
    page.wait_for_function("scrolls.length > 0")
    assert page.evaluate("scrolls") == ["auto" if motion == "reduce" else "smooth"]


def test_a_long_tree_is_no_wider_than_its_fullest_step(visit):
    nodes = tree()["nodes"]
    last = nodes[4]
    for i in range(14):
        nodes.append(
            {**last, "id": 10 + i, "parent": 9 + i if i else 1, "step": 3 + i, "state": "open"}
        )
    page = visit(link(source=SOURCE, view="beam"), wait="#view [data-node]")
    page.route(
        "**/api/beam",
        lambda route: route.fulfill(
            body=json.dumps({"n_beams": 2, "nodes": nodes}), content_type="application/json"
        ),
    )
    control(page, "Beams").select_option("3")
    expect(page.locator("#view [data-step]")).to_have_count(17)
    assert page.locator("#view svg").bounding_box()["width"] < 700
