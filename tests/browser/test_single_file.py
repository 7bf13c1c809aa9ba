"""The single HTML file and the notebook's fragment in a real browser, with the network off."""

import re

import numpy as np
import pytest
from looks import EVIL, payload, steps, tree

from regard.visual.heat_maps import data_uri
from regard.visual.look_files import LookWidget, look_fragment, look_html, module_text
from regard.visual.payload import Axis, Selected
from regard.visual.theme import probability

pytestmark = pytest.mark.browser


@pytest.fixture
def show(browser, tmp_path):
    """Open a page from a file. Nothing but that file may be asked for, and nothing may fail."""
    contexts, faults = [], []

    def go(html, *, width=1000, **options):
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        context.set_offline(True)
        path = tmp_path / f"{len(contexts)}.html"
        path.write_text(html, encoding="utf-8")
        page = context.new_page()
        page.set_default_timeout(10_000)

        def route(one):
            if one.request.url.startswith("file:"):
                one.continue_()
            else:
                faults.append(one.request.url)
                one.abort()

        page.route("**/*", route)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
        page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
        page.goto(path.as_uri())
        page.faults = faults
        return page

    yield go
    for context in contexts:
        context.close()
    assert faults == []


def drawn(frame):
    """(T, S) of the matrix on the page, from its cells."""
    frame.get_by_role("button", name="Matrix", exact=True).click()
    frame.locator(".view rect[data-weight]").first.wait_for()
    cells = frame.locator(".view rect[data-weight]").evaluate_all(
        "all => all.map(({dataset: d}) => [+d.t, +d.s, +d.weight])"
    )
    weights = np.full(
        (int(max(c[0] for c in cells)) + 1, int(max(c[1] for c in cells)) + 1), np.nan
    )
    for t, s, weight in cells:
        weights[int(t), int(s)] = weight
    return weights


def choose(page, label, value):
    page.get_by_label(label, exact=True).select_option(value)


def test_a_saved_look_draws_the_weights_of_the_model_offline(run, show, tmp_path):
    look = run.explain("a b c d")
    look.save(tmp_path / "look.html")
    page = show((tmp_path / "look.html").read_text(encoding="utf-8"))
    np.testing.assert_allclose(drawn(page), look.weights("decoder.cross").mean(0), atol=1e-6)
    for name in look.attentions:
        choose(page, "Attention", name)
        for head in range(2):
            choose(page, "Head", str(head))
            np.testing.assert_allclose(drawn(page), look.weights(name)[head], atol=1e-6)


def test_the_steps_of_a_token_are_the_numbers_of_the_model(run, show):
    look = run.explain("a b c d")
    page = show(look.as_file("html", Selected(head=1)))
    page.locator(".view [data-row='1']").click()
    shown = page.locator(".steps g[data-weight]").evaluate_all(
        "all => all.map(e => +e.dataset.weight)"
    )
    np.testing.assert_allclose(shown, look.steps(1, head=1).weights, atol=1e-6)
    assert "head 1" in page.locator("section h2").inner_text()


def test_what_a_small_weight_leaves_of_a_value_looks_small(show):
    look = payload()
    one = steps(look, 0)
    page = show(look_html(look, [one]))
    drawn(page)
    page.locator(".view [data-row='0']").click()
    shown = page.locator(".steps g[data-s]").evaluate_all(
        """all => all.map(row => [...row.querySelectorAll("rect[data-value]")]
             .filter(cell => cell.textContent.startsWith("weighted value"))
             .map(cell => +cell.getAttribute("fill-opacity")))"""
    )
    weighted = np.abs(one["weighted"])
    largest = max(weighted.max(), np.abs(one["sum"]).max())
    np.testing.assert_allclose(shown, weighted / largest, atol=6e-4)


def test_markup_in_a_sentence_is_drawn_as_text(show):
    look = payload()
    html = look_html(look, [steps(look, 0), steps(look, 1)], tree())
    page = show(html)
    drawn(page)
    assert EVIL in page.locator(".source").inner_text()
    assert page.locator(".view [data-column='1'] title").text_content() == EVIL
    page.locator(".view [data-row='0']").click()
    for view in ("Lines", "All heads", "Beam"):
        page.get_by_role("button", name=view, exact=True).click()
    assert page.locator("img").count() == 0
    assert page.get_by_text("third of 2").count() == 1


def test_the_page_forbids_scripts_and_pictures_from_elsewhere(show):
    page = show(look_html(payload()))
    drawn(page)
    page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "globalThis.broken = true";
          const picture = document.createElement("img");
          picture.src = "https://example.org/x.png";
          document.body.append(script, picture);
        }"""
    )
    page.wait_for_timeout(200)
    assert page.evaluate("globalThis.broken === undefined")
    assert len(page.faults) == 2
    assert all("Content Security Policy" in fault for fault in page.faults)
    page.faults.clear()


def test_lines_are_drawn_from_the_threshold_on_one_colour_a_head(show):
    look = payload(n_heads=8)
    page = show(look_html(look))
    page.get_by_role("button", name="Lines", exact=True).click()
    page.locator("input[type=range]").fill("0.3")
    lines = page.locator(".view path[data-weight]").evaluate_all(
        """all => all.map((one) => [
             +one.dataset.head, +one.dataset.t, +one.dataset.s, +one.dataset.weight,
             one.getAttribute("stroke") + one.getAttribute("stroke-dasharray")])"""
    )
    weights = np.array(look["attentions"]["decoder.cross"][1])
    assert {tuple(map(int, line[:3])) for line in lines} == set(
        map(tuple, np.argwhere(weights >= 0.3).tolist())
    )
    for head, t, s, weight, _ in lines:
        assert weight == pytest.approx(weights[int(head), int(t), int(s)], abs=1e-6)
    colours = {(line[0], line[4]) for line in lines}
    assert len({colour for _, colour in colours}) == len(colours) == len({h for h, _ in colours})


def test_a_click_on_a_small_picture_opens_that_head(show):
    look = payload()
    page = show(look_html(look))
    page.get_by_role("button", name="All heads").click()
    assert page.locator(".view image").count() == 2 * 3
    page.locator(".view g[data-layer='0'][data-head='2']").click()
    np.testing.assert_allclose(drawn(page), look["attentions"]["decoder.cross"][0][2], atol=1e-6)


def test_the_keyboard_moves_between_cells_and_opens_the_steps(show):
    look = payload()
    page = show(look_html(look, [steps(look, 1)]))
    drawn(page)
    page.locator(".view [data-row='0']").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    at = page.evaluate(
        "({...document.querySelector('main > div').shadowRoot.activeElement.dataset})"
    )
    assert (at["t"], at["s"]) == ("1", "1")
    assert page.locator("[data-ring]").count() == 1
    mean = np.mean(look["attentions"]["decoder.cross"][1], axis=0)[1, 1]
    said = page.locator("[data-readout]").first.inner_text()
    assert said.startswith(f"y → {EVIL}")
    assert said.split(": ")[1] == f"{float(f'{mean:.3g}'):g}"
    page.keyboard.press("Enter")
    assert "six steps of y" in page.locator("section h2").inner_text()


def test_two_fragments_on_one_page_do_not_disturb_each_other(show):
    first, second = payload(seed=1), payload(seed=2, target=("p", "q", "r"))
    page = show(f"<p>a notebook</p><div>{look_fragment(first)}</div>{look_fragment(second)}")
    frames = [page.frame_locator("iframe").nth(i) for i in range(2)]
    frames[0].get_by_label("Head", exact=True).select_option("1")
    for frame, look, head in ((frames[0], first, 1), (frames[1], second, None)):
        heads = np.array(look["attentions"]["decoder.cross"][1])
        expected = heads.mean(0) if head is None else heads[head]
        np.testing.assert_allclose(drawn(frame), expected, atol=1e-6)


def test_a_fragment_that_is_inserted_later_runs_as_well(show):
    look = payload()
    page = show("<div></div>")
    page.evaluate("html => { document.querySelector('div').innerHTML = html }", look_fragment(look))
    expected = np.mean(look["attentions"]["decoder.cross"][1], axis=0)
    np.testing.assert_allclose(drawn(page.frame_locator("iframe")), expected, atol=1e-6)


@pytest.mark.parametrize("view", ["Matrix", "Lines", "All heads", "Beam"])
def test_a_narrow_page_does_not_scroll_sideways_even_with_sixty_tokens(show, view):
    words = [f"Donaudampfschiff{i}" for i in range(60)]
    look = payload(words, words[:57], n_heads=8)
    page = show(look_html(look, [steps(look, 2)], tree()), width=360)
    page.locator(".view [data-row='2']").click()
    page.get_by_role("button", name=view, exact=True).click()
    page.locator(".view svg").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_long_sentences_are_exact_where_they_are_selected_and_tell_of_rounding(show):
    words = [f"w{i}" for i in range(50)]
    look = payload(words, words, n_heads=8, n_layers=5)
    page = show(look_html(look, selected=Selected("decoder.self", 1, 4)))
    note = page.locator(".note").first
    np.testing.assert_allclose(drawn(page), look["attentions"]["decoder.self"][1][4], atol=1e-6)
    assert "rounded" not in note.inner_text()
    choose(page, "Layer", "2")
    assert "rounded to 1/255; those of layer 1 are exact" in note.inner_text()
    np.testing.assert_allclose(
        drawn(page), look["attentions"]["decoder.self"][2][4], atol=0.5 / 255
    )


def test_a_view_is_saved_as_svg_and_as_png(show):
    page = show(look_html(payload()))
    drawn(page)
    with page.expect_download() as svg:
        page.get_by_role("button", name="Save SVG").click()
    text = svg.value.path().read_text(encoding="utf-8")
    assert text.startswith("<svg")
    assert len(re.findall("data-weight", text)) == 3 * 4
    assert "onerror" in text
    assert "<img" not in text
    with page.expect_download() as png:
        page.get_by_role("button", name="Save PNG").click()
    assert png.value.path().read_bytes().startswith(b"\x89PNG")


def test_dark_pages_get_a_lighter_ink(show):
    inks = []
    for scheme in ("light", "dark"):
        page = show(look_html(payload()), color_scheme=scheme)
        drawn(page)
        inks.append(page.locator(".view rect[data-weight]").first.get_attribute("fill"))
    assert inks == ["#0072B2", "#56B4E9"]


def test_the_widget_module_draws_what_its_model_holds(show):
    pytest.importorskip("anywidget", reason="anywidget is not installed: no widget to test")
    look = payload()
    widget = LookWidget(look)
    page = show("<main><div></div></main>")
    page.evaluate(
        """async ([text, payload]) => {
          const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
          const { default: widget } = await import(url);
          const kept = { payload };
          globalThis.kept = kept;
          const model = { get: (key) => kept[key], set: (key, value) => { kept[key] = value; },
            on() {}, off() {}, save_changes() { kept.saved = true; } };
          widget.render({ model, el: document.querySelector("main > div") });
        }""",
        [str(widget._esm), widget.payload],
    )
    expected = np.mean(look["attentions"]["decoder.cross"][1], axis=0)
    np.testing.assert_allclose(drawn(page), expected, atol=1e-6)
    choose(page, "Head", "2")
    assert page.evaluate("[kept.selected.head, kept.saved]") == [2, True]


def drawing(show, html, **options):
    """A page with the functions that draw, under ``draw``."""
    page = show(html, **options)
    names = "{ drawHeadMap, drawTree, probabilityText }"
    page.add_script_tag(content=f"{module_text()} globalThis.draw = {names};", type="module")
    page.wait_for_function("globalThis.draw")
    return page


@pytest.mark.parametrize("width", [360, 1000])
def test_each_attention_has_a_map_of_its_own_at_one_scale(show, width):
    """Nearness tells within an attention only, and in both directions alike."""
    rows = [
        {"name": name, "layer": 0, "head": h, "loss_change": change}
        for name, changes in (("encoder.self", (4.0, 1.0, -1.0)), ("decoder.cross", (0.0, None)))
        for h, change in enumerate(changes)
    ]
    points = [[0, 0], [2, 0], [0, 1], [5, 0], [5, 1]]
    heads = {"rows": rows, "map": points, "clusters": [0, 0, 1, 2, 3]}
    page = drawing(show, "<div class='map'></div>", width=width)
    page.evaluate("heads => draw.drawHeadMap(document.querySelector('.map'), heads)", heads)
    marks = page.locator("[data-index] circle").evaluate_all(
        "all => all.map(one => ['cx', 'cy', 'r', 'fill-opacity'].map(k => +one.getAttribute(k)))"
    )
    at, radii = np.array(marks)[:, :2], np.array(marks)[:, 2]
    unit = np.linalg.norm(at[0] - at[2])
    assert at[0, 1] > at[2, 1]  # up is up
    np.testing.assert_allclose(np.linalg.norm(at[0] - at[1]), 2 * unit)
    np.testing.assert_allclose(np.linalg.norm(at[3] - at[4]), unit)
    np.testing.assert_allclose(radii[0], 2 * radii[1])
    assert [bool(mark[3]) for mark in marks] == [True, True, False, False, False]
    panels = page.locator("rect").evaluate_all(
        "all => all.map(one => ['x', 'y', 'width', 'height'].map(k => +one.getAttribute(k)))"
    )
    inside = [
        [bool(x < a < x + w and y < b < y + h) for a, b in at.tolist()] for x, y, w, h in panels
    ]
    assert inside == [[True] * 3 + [False] * 2, [False] * 3 + [True] * 2]


def test_heads_that_cost_next_to_nothing_are_drawn_small(show):
    """Where no head costs anything, the one that costs most is not the largest mark."""
    rows = [
        {"name": "encoder.self", "layer": 0, "head": h, "loss_change": change}
        for h, change in enumerate((4e-5, 1e-5, -2e-5))
    ]
    heads = {"rows": rows, "map": [[0, 0], [2, 0], [0, 1]], "clusters": [0, 0, 1]}
    page = drawing(show, "<div class='map'></div>")
    page.evaluate("heads => draw.drawHeadMap(document.querySelector('.map'), heads)", heads)
    radii = page.locator("[data-index] circle").evaluate_all(
        "all => all.map(o => o.getAttribute('r'))"
    )
    assert radii == ["4"] * 3
    assert page.locator("[data-size]").all_text_contents() == ["+0.010", "+0.003", "nothing"]


def test_a_probability_reads_alike_in_the_terminal_and_in_the_browser(show):
    shares = [0.0, 1e-9, 4e-4, 6e-4, 0.25, 0.9994, 0.9996, 0.99999, 1.0]
    page = drawing(show, "")
    written = page.evaluate("shares => shares.map(draw.probabilityText)", shares)
    assert written == [probability(share) for share in shares]
    assert {written[0], written[-1]} == {"< 0.1 %", "> 99.9 %"}


def test_what_else_might_have_come_out_is_never_written_as_certain(show):
    choices = [{"text": "yes", "probability": 0.99999}, {"text": "no", "probability": 1e-5}]
    outcome = {"kind": "label", "text": "yes", "places": [{"rows": [], "choices": choices}]}
    page = show(look_html({**payload(), "outcome": outcome}))
    page.get_by_text("yes > 99.9 %, no < 0.1 %").wait_for()


def test_the_steps_of_a_tree_stay_in_sight(show):
    nodes = tree()["nodes"]
    many = [{**nodes[2], "id": 10 + i, "score": -3.0 - i} for i in range(60)]
    page = drawing(show, "<div class='tree'></div>")
    page.evaluate(
        "tree => draw.drawTree(document.querySelector('.tree'), tree)",
        {"n_beams": 2, "nodes": nodes + many},
    )
    heading, scroller = page.locator("[data-step='1']"), page.locator("[data-scroller]")
    hidden, beside = (page.locator(f"[data-node='{i}']") for i in (37, 38))
    left = scroller.bounding_box()["x"]
    away = hidden.bounding_box()["x"] - left - 5
    scroller.evaluate("(one, away) => { one.scrollLeft = away; }", away)  # 37 is just at the edge
    page.wait_for_function("document.querySelector('[data-sticky]').getAttribute('transform')")
    assert left <= heading.bounding_box()["x"] < left + 20
    assert left <= hidden.bounding_box()["x"] < left + 10
    beside.evaluate("one => one.focus({ preventScroll: true })")
    page.keyboard.press("ArrowLeft")
    assert hidden.evaluate("one => one === document.activeElement")
    assert hidden.bounding_box()["x"] >= left + 40


def test_maps_and_trees_answer_keys_and_clicks(show):
    rows = [{"name": "encoder.self", "layer": 0, "head": h, "entropy": 1.0} for h in range(3)]
    heads = {"rows": rows, "map": [[0, 0], [1, 0], [2, 1]], "clusters": [0, 0, 1]}
    page = drawing(show, "<div class='map'></div><div class='tree'></div>")
    page.evaluate(
        """([heads, tree]) => {
          globalThis.picked = [];
          draw.drawHeadMap(document.querySelector(".map"), heads,
            { onPick: (row, i) => picked.push(["head", row.head, i]) });
          draw.drawTree(document.querySelector(".tree"), tree,
            { onPick: (node, tokens) => picked.push([node.state, ...tokens]) });
        }""",
        [heads, tree()],
    )
    page.locator("[data-index='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.locator("[data-node='0']").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    page.locator("[data-node='4']").click()
    assert page.evaluate("picked") == [
        ["head", 1, 1],
        ["finished", "la", "rue"],
        ["best", "le", "chat"],
    ]


def captioned(**more):
    """A look of three words at a picture of 2 × 3 patches, with gates."""
    words, patches = ("a", EVIL, "star"), Axis.patches(2, 3)
    weights = np.random.default_rng(5).dirichlet(np.ones(6), size=(1, 2, 3))
    return {
        **payload(list(patches), list(words)),
        "source_tokens": list(patches),
        "target_tokens": list(words),
        "attentions": {"decoder.cross": weights.tolist()},
        "axes": {"decoder.cross": {"rows": "target", "columns": "source"}},
        "sides": {"source": patches.as_json()},
        "picture": data_uri(np.full((4, 6, 3), 90, np.uint8)),
        "gates": [0.5, 0.25, 1.0],
        **more,
    }


def map_of(page):
    """(2, 3): the weights of the large picture."""
    page.locator(".view [data-s]").first.wait_for()
    cells = page.locator(".view [data-s]")
    return np.reshape(cells.evaluate_all("all => all.map(one => +one.dataset.weight)"), (2, 3))


def test_a_caption_is_a_strip_with_where_each_word_looked(show):
    look = captioned()
    page = show(look_html(look))
    mean = np.mean(look["attentions"]["decoder.cross"][0], axis=0)
    np.testing.assert_allclose(map_of(page), mean[0].reshape(2, 3), atol=1e-6)
    words = page.locator(".view [data-row]")
    gates = words.locator("text:nth-of-type(2)").all_text_contents()
    assert gates == ["β 0.500", "β 0.250", "β 1.000"]
    words.nth(2).click()
    np.testing.assert_allclose(map_of(page), mean[2].reshape(2, 3), atol=1e-6)
    page.locator(".view [data-s='4']").click()
    shown = page.locator(".view [data-on-patch]").evaluate_all(
        "all => all.map(one => +one.dataset.onPatch)"
    )
    np.testing.assert_allclose(shown, mean[:, 4], atol=1e-6)
    page.get_by_label("As patches").check()
    assert "pixelated" in page.locator(".view image").nth(1).get_attribute("style")
    page.get_by_role("button", name="All heads").click()
    assert page.locator(".view [data-layer]").count() == 2
    assert page.locator("img").count() == 0


def test_boxes_are_drawn_over_the_picture_and_their_rows_alone_are_offered(show):
    boxes = [
        {"label": "star", "probability": 0.9, "box": [0.5, 0.25, 1.0, 0.75], "row": 2},
        {"label": EVIL, "probability": 0.6, "box": [0.0, 0.0, 0.25, 0.5], "row": 0},
    ]
    page = show(look_html(captioned(boxes=boxes)))
    map_of(page)
    assert page.locator(".view [data-row]").evaluate_all("all => all.map(o => o.dataset.row)") == [
        "2",
        "0",
    ]
    labels = page.locator(".view [data-box]")
    assert labels.all_text_contents() == ["star", EVIL]
    picture = page.locator(".view image").first
    wide, x = (float(picture.get_attribute(key)) for key in ("width", "x"))
    drawn_at = page.locator(".view rect[stroke-width='4'][fill='none'][pointer-events]").first
    assert float(drawn_at.get_attribute("x")) == pytest.approx(x + wide / 2)
    assert float(drawn_at.get_attribute("width")) == pytest.approx(wide / 2)
