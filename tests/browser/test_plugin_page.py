"""The page of a run whose task is somebody else's: ``examples/plugin``, served as a user would."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from page_parts import READY, control, drawn, link, same
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "examples" / "plugin"
UP, ROUND = [[0, 0], [0, 0.5], [0, 1]], [[1, 0], [0.3, 0.9], [-0.9, 0.1], [0, -1]]


def python(*words, run=subprocess.run, **how):
    """Start a program that knows the plug-in, in a process of its own: no registry here has it."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return run([sys.executable, *map(str, words)], env=env, text=True, **how)


def regard(*words, **how):
    return python("-m", "regard", "--plugin", PLUGIN, *words, **how)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("motions")
    python("-m", "examples.plugin.make", folder, check=True)
    recipe, data = PLUGIN / "motions.yaml", f"data.folder={folder}"
    regard("train", recipe, "--set", data, "--out", folder / "run", check=True)
    return folder / "run"


@pytest.fixture(scope="module")
def address(run):
    words = ("serve", run, "--port", 0)
    with regard(*words, run=subprocess.Popen, stdout=subprocess.PIPE) as server:
        yield server.stdout.readline().split(" at ")[1].split()[0]
        server.terminate()


def test_it_has_a_form_an_answer_and_pictures(visit, address, run):
    page = visit(at=address)
    expect(page.locator("#about")).to_contain_text("3 motions")
    page.get_by_label("Points, as").fill(json.dumps(ROUND))
    page.get_by_role("button", name="Recognise").click()
    expect(page.locator("#said")).to_have_text("round")
    expect(page.locator("#view [data-row]")).to_have_count(len(ROUND))
    page.get_by_role("tab", name="Matrix").click()
    control(page, "Head").select_option("1")
    told = regard("explain", run, json.dumps(ROUND), "--format", "json", stdout=subprocess.PIPE)
    weights = json.loads(told.stdout)["attentions"]
    (name,) = weights
    same(drawn(page), weights[name][0][1])


def test_its_what_ifs_are_those_that_the_task_names(visit, address):
    page = visit(link(source=json.dumps(UP), view="matrix", head=0), at=address)
    expect(control(page, "Swap")).to_have_count(0)
    expect(control(page, "Without positions")).to_have_count(0)
    control(page, "Mute it").check()
    expect(page.locator(".active li")).to_have_count(1)
    page.wait_for_selector(READY)
    expect(page.locator("#against .was").first).to_contain_text("was ")


def test_what_is_no_json_is_told_to_be_none(visit, address):
    page = visit(link(source=json.dumps(UP)), at=address)
    page.locator("#source").fill("up")
    page.locator("#source").press("Enter")
    expect(page.locator("#trouble")).to_contain_text("frames must be JSON")
