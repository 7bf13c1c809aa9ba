"""The page of a detector: objects by name, their boxes, and where the query of each looked."""

import re

import pytest
from detectors import recipe, write_shapes
from page_parts import READY, control, link, served
from playwright.sync_api import expect

import regard
from regard.runs.train import train
from regard.server.app import make_app
from regard.tasks.base import TASKS
from regard.tasks.story import story_of

pytestmark = pytest.mark.browser

ACROSS = [
    {"kind": "ablate", "name": "decoder.cross", "layer": i, "head": j}
    for i in (0, 1)
    for j in range(4)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    data = write_shapes(tmp_path_factory.mktemp("shapes"))
    out = tmp_path_factory.mktemp("runs") / "shapes"
    train(recipe(data), out, device="cpu")
    return out


@pytest.fixture(scope="module")
def at(folder):
    with served(make_app(regard.load(folder, device="cpu"))) as address:
        yield address


def names(page):
    page.wait_for_selector("#against [data-choice]")
    return page.locator("#against [data-choice]").evaluate_all(
        "all => all.map((one) => one.dataset.choice)"
    )


def test_objects_are_named_outlined_and_can_be_chosen(visit, at, folder):
    page = visit(at=at)
    run = regard.load(folder, device="cpu")
    program = {"User-Agent": "a program"}  # a browser would have to say whose page asks
    info = page.request.get(f"{at}/api/info", headers=program).json()
    first = info["examples"][0]["text"]
    found = run.detect(first)
    assert found
    expect(page.locator("#said")).to_have_text(", ".join(one.label for one in found))
    assert names(page) == [one.label for one in found]
    page.wait_for_selector(READY)
    page.locator("#against [data-choice] button").first.click()
    look = run.explain(first)
    row = look.boxes[0]["row"]
    told = re.compile(f"^decoder.cross, layer 1, .*: Where {look.target_tokens[row]} looks$")
    expect(page.locator("#view svg")).to_have_attribute("aria-label", told)


def test_what_an_edit_hides_is_not_told_as_found(visit, at):
    page = visit(link(edits=ACROSS), at=at)
    page.wait_for_selector(READY)
    expect(page.locator("#said")).to_have_text("nothing")


def test_the_story_of_a_query_ends_in_the_box_and_the_label_of_its_object(visit, at, folder):
    run = regard.load(folder, device="cpu")
    picture = TASKS["detection"].examples(run)[0]["text"]
    look = run.explain(picture)
    best = look.boxes[0]
    place = {"name": "decoder.cross", "layer": 1, "head": 0}
    told = story_of(TASKS["detection"], run, picture, token=best["row"], **place)
    found = told["found"]
    assert found["boxes"][-1] == pytest.approx(best["box"], abs=1e-6)
    assert len(found["boxes"]) == 3  # where it began, and after each of two layers
    assert found["chosen"] == best["label"]
    assert found["choices"][0]["probability"] == pytest.approx(best["probability"], abs=1e-6)
    assert (told["reads"], told["writes"]) == (look.target_tokens[best["row"]], None)

    page = visit(link(view="story", **place), at=at, wait="#view:not([aria-busy]) .station")
    expect(page.locator(".intro h2")).to_have_text(f"How “{told['reads']}” is found")
    last = page.locator('[data-station="box"] rect.last')
    drawn = [float(last.get_attribute(name)) for name in ("x", "y", "width", "height")]
    left, top, right, bottom = best["box"]
    assert drawn == pytest.approx([left, top, right - left, bottom - top], abs=1e-5)
    expect(page.locator('[data-station="label"] li').first).to_contain_text(best["label"])
    expect(page.locator('[data-station="softmax"] i.weighed')).to_have_count(36)
    idle = look.target_tokens.index("·")
    control(page, f"follow {idle}").click()
    expect(page.locator(".intro h2")).to_have_text("The way of a query that finds nothing")
    expect(page.locator('[data-station="label"]')).to_contain_text("has found nothing")


def test_a_patch_has_its_place_beside_its_vector_and_is_handed_to_the_decoder(visit, at):
    place = {"name": "encoder.self", "layer": 0, "head": 1, "token": 7}
    page = visit(link(view="story", **place), at=at, wait="#view:not([aria-busy]) .station")
    expect(page.locator(".intro h2")).to_have_text("The way of “1,1”")
    expect(page.locator('[data-station="cell"] canvas')).to_have_count(2)
    expect(page.locator('[data-station="handed"]')).to_be_visible()
    expect(page.locator('[data-station="box"]')).to_have_count(0)
