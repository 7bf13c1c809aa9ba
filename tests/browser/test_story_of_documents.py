"""The story of systems that read a document and its summary as one text, in a real browser."""

import numpy as np
import pytest
import torch
from language_models import stirred
from page_parts import control, link, served
from playwright.sync_api import expect
from summaries import settings

import regard
from regard.checkpoints.run_folder import RunFolder, model_tensors, save_model
from regard.models.presets import build
from regard.runs.train import train
from regard.server.app import make_app
from regard.tasks.recipe import recipe_from

pytestmark = pytest.mark.browser

DOCUMENT = "a b c d e f g h a b"
READY = "#view:not([aria-busy]) .station"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A summarizer with local blocks and compressed memory, and no small parameter."""
    folder = tmp_path_factory.mktemp("dmca")
    model = {"preset": "dmca2018", "n_layers": 3, "half_width": 3}
    raw = settings(folder, model=model, train={"max_steps": 1, "eval_every": 1, "save_every": 1})
    train(recipe_from(raw), folder / "run")
    config = regard.load(folder / "run", device="cpu").model.config
    torch.manual_seed(4)
    model = build(config)
    stirred(model)
    save_model(RunFolder(folder / "run"), config, model_tensors(model))
    return folder / "run"


@pytest.fixture(scope="module")
def run(folder):
    return regard.load(folder, device="cpu")


@pytest.fixture(scope="module")
def at(folder):
    with served(make_app(regard.load(folder, device="cpu"))) as address:
        yield address


def station(page, name):
    return page.locator(f'[data-station="{name}"]')


def test_a_layer_of_local_blocks_shows_who_is_in_the_block(visit, at, run):
    place = {"name": "decoder.self", "layer": 0, "head": 0, "token": 0}
    page = visit(link(source=DOCUMENT, view="story", **place), at=at, wait=READY)
    look = run.explain(DOCUMENT)
    steps = look.steps(0, name="decoder.self", layer=0, head=0)
    expect(page.locator(".intro h2")).to_have_text(f"How “{look.target_tokens[0]}” is written")
    inside = [word for word, seen in zip(steps.columns, steps.visible, strict=True) if seen]
    assert 0 < len(inside) < len(steps.columns)
    expect(station(page, "window").locator(".chip.here")).to_have_text(inside)
    expect(station(page, "window")).to_contain_text("blocks of 6")
    expect(station(page, "vector")).to_contain_text(f"position {len(DOCUMENT.split()) + 1}.")
    expect(station(page, "word").locator(".chip.here")).to_have_text(look.target_tokens[0])


def test_a_layer_of_compressed_memory_shows_what_a_slot_is_made_of(visit, at, run):
    place = {"name": "decoder.self.compressed", "layer": 0, "head": 1, "token": 0}
    page = visit(link(source=DOCUMENT, view="story", **place), at=at, wait=READY)
    look = run.explain(DOCUMENT)
    steps = look.steps(0, name="decoder.self.compressed", layer=0, head=1)
    slot = 1 + int(np.argmax(steps.weights[1:]))
    three = look.positions_of("decoder.self.compressed")[3 * (slot - 1) : 3 * slot]
    names = station(page, "slots").locator(".strips").first.locator(".of")
    expect(names).to_have_text([*three])
    expect(station(page, "slots")).to_contain_text(f"most goes to {steps.columns[slot]}")
    expect(station(page, "layers")).to_contain_text("layer 1 of 3")  # of all, not of this kind
    expect(station(page, "window")).to_have_count(0)
    control(page, "next").click()
    expect(page.locator("#station-now")).to_contain_text("Station 2 of")
