"""How a run was trained, on its page; and a training that is watched while it runs."""

import shutil

import numpy as np
import pytest
from page_parts import drawn, served

import regard
from regard.checkpoints.run_folder import RunFolder
from regard.server.app import make_app
from regard.server.watching import make_watching_app
from regard.tasks.film import read_film
from regard.tasks.recipe import recipe_from
from regard.visual.payload import unpacked

pytestmark = pytest.mark.browser
N = 7
"""Frames of the film."""


@pytest.fixture(scope="module")
def address(filmed):
    with served(make_app(regard.load(filmed, device="cpu"))) as at:
        yield at


@pytest.fixture
def opened(visit, address):
    """The page of the run, with the film in sight."""

    def go(**options):
        page = visit(at=address, **options)
        page.get_by_text("While it trained").click()
        page.locator("#training .film svg").wait_for()
        return page

    return go


def when(page, text):
    page.locator(".when", has_text=text).wait_for()


def test_a_run_shows_its_curves_and_the_last_frame_of_its_film(opened, filmed):
    page = opened()
    assert page.locator("#training .learning svg").count() == 2
    when(page, f"step 30 · {N} of {N}")
    frame = read_film(filmed / "film.jsonl")[-1]
    assert page.locator(".film .said").inner_text() == frame["said"]
    assert frame["look"]["source"] in page.locator(".film .hint").first.inner_text()
    shown = unpacked(frame["look"]["attentions"]["decoder.cross"][0]).mean(axis=0)
    np.testing.assert_allclose(drawn(page, "#training .film"), shown, atol=1e-5)


def test_the_film_is_scrubbed_by_keys_and_stepped_by_buttons(opened):
    page = opened()
    page.get_by_role("slider", name="Validation").focus()
    page.keyboard.press("ArrowLeft")
    when(page, f"step 25 · {N - 1} of {N}")
    page.keyboard.press("Home")
    when(page, f"before the first step · 1 of {N}")
    assert (
        page.get_by_role("slider", name="Validation").get_attribute("aria-valuetext")
        == "before the first step"
    )
    page.get_by_role("button", name="One validation on").press("Enter")
    when(page, "step 5 · 2")
    page.get_by_role("button", name="One validation back").click()
    when(page, "before the first step")
    before = drawn(page, "#training .film")
    page.locator('.film [data-control="Head"]').select_option("1")
    page.locator('.film svg[aria-label*="head 1"]').wait_for()
    assert not np.allclose(drawn(page, "#training .film"), before)


def test_the_film_plays_from_its_beginning_and_stands_when_it_is_paused(opened):
    page = opened()
    page.get_by_role("button", name="Play").click()
    when(page, "step 10 · 3")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Play").wait_for()
    stood = page.locator(".when").inner_text()
    page.wait_for_timeout(1200)  # more than two frames
    assert page.locator(".when").inner_text() == stood


def test_nothing_plays_for_readers_who_want_no_motion(opened):
    page = opened(reduced_motion="reduce")
    assert page.get_by_role("button", name="Play").count() == 0
    page.get_by_role("button", name="One validation back").click()
    when(page, "step 25")


def test_a_training_that_is_watched_grows_and_waits_for_who_looks_back(visit, filmed, tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    lines = (filmed / "film.jsonl").read_text().splitlines(keepends=True)
    shutil.copy(filmed / "metrics.jsonl", folder.metrics)
    folder.film.write_text("".join(lines[:2]))
    recipe = recipe_from(regard.load(filmed, device="cpu").recipe.model_dump(mode="json"))
    with served(make_watching_app(folder, recipe)) as at:
        page = visit(at=at, wait=".film svg")
        when(page, "step 5 · 2 of 2")
        assert "Training run" in page.locator("#about").inner_text()
        folder.film.write_text("".join(lines[:4]))
        when(page, "step 15 · 4 of 4")
        page.get_by_role("button", name="One validation back").click()
        folder.film.write_text("".join(lines))
        when(page, f"step 10 · 3 of {N}")
    page.locator("#trouble", has_text="The training does not answer").wait_for()
    assert page.locator(".film svg").is_visible()  # what came so far stays


def test_a_run_without_a_film_says_how_to_make_one(visit):
    page = visit()
    page.get_by_text("While it trained").click()
    page.get_by_text("No film was made of this training").wait_for()
    assert page.locator("#training .film").is_hidden()
