"""``regard draw``, the tree in ``regard info``, the drawing of the report and of the server."""

import json
import re
from xml.etree import ElementTree

import pytest
from starlette.testclient import TestClient

import regard
from regard.models.presets import PRESETS, n_parameters
from regard.server.app import make_app

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def loaded(run_path):
    return regard.load(run_path, device="cpu")


def test_a_run_is_drawn_into_a_file_that_needs_nothing_else(run, run_path, loaded, tmp_path):
    out = tmp_path / "model.svg"
    assert run("draw", run_path, "--out", out) == (0, "", f"regard: wrote {out}\n")
    root = ElementTree.parse(out).getroot()
    assert f"{n_parameters(loaded.model):,} parameters" in root.find(f"{SVG}title").text
    assert "prefers-color-scheme" not in root.find(f"{SVG}style").text  # for slides


def test_a_run_is_drawn_as_a_picture_and_for_a_paper(run, run_path, tmp_path):
    for name, begins in (("model.png", b"\x89PNG"), ("model.pdf", b"%PDF")):
        out = tmp_path / name
        assert run("draw", run_path, "--out", out) == (0, "", f"regard: wrote {out}\n")
        assert (tmp_path / name).read_bytes().startswith(begins)


def test_info_ends_with_the_tree_that_draw_prints(run, run_path, loaded):
    _, tree, _ = run("draw", run_path)
    code, told, _ = run("info", run_path)
    assert code == 0
    assert told.endswith(tree)
    assert tree.splitlines()[0].endswith(f"{n_parameters(loaded.model):,}")
    json.loads(run("info", run_path, "--json")[1])


def test_a_recipe_is_drawn_with_what_is_set_and_what_was_assumed_is_said(run):
    code, out, told = run("draw", "transformer", "--set", "d_model=24", "--set", "vocab_size=300")
    assert code == 0
    assert "300 × 24" in out
    assert "n_source_vocab=300" in told


@pytest.mark.parametrize("preset", ["bert", "vit2021", "bilstm"])
def test_a_preset_that_no_recipe_is_named_after_is_drawn_too(run, preset):
    size = next(iter(PRESETS[preset].sizes))
    code, out, _ = run("draw", preset, "--format", "json")
    drawing = json.loads(out)
    assert (code, drawing["title"]) == (0, f"{preset} {size}")
    assert drawing["parameters"] > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["transformr"], "did you mean 'transformer'"),
        (["bert", "--set", "d_modl=3"], "d_model"),
        (["gpt", "--out", "model.gif"], ".gif"),
    ],
)
def test_what_cannot_be_drawn_is_refused(refused, words, said):
    assert said in refused("draw", *words)


def test_settings_of_a_run_cannot_be_changed(refused, run_path):
    assert "leave out --set" in refused("draw", run_path, "--set", "d_model=8")


def test_the_server_gives_the_drawing_as_a_picture(loaded):
    with TestClient(make_app(loaded), base_url="http://127.0.0.1") as client:
        answer = client.get("/api/drawing")
    assert answer.headers["content-type"].startswith("image/svg+xml")
    shown = ElementTree.fromstring(answer.text).find(f"{SVG}title").text
    assert shown.endswith(f"{n_parameters(loaded.model):,} parameters")


def test_the_drawing_asks_for_the_key(loaded):
    with TestClient(make_app(loaded, api_key="k"), base_url="http://127.0.0.1") as client:
        assert client.get("/api/drawing").status_code == 401


def test_a_report_has_the_drawing_a_look_and_whole_axes(run_path, loaded):
    page = (run_path / "report.html").read_text(encoding="utf-8")
    assert f": {n_parameters(loaded.model):,} parameters</title>" in page
    assert "While it read a held-out text: " in page
    assert re.search(r">decoder\.cross, layer \d+, mean of \d+ heads<", page)
    charts = re.findall(r"<svg[^>]*>(?:(?!</svg>).)*font-size=\"15\".*?</svg>", page)
    assert charts
    assert all(re.search(r'text-anchor="end">0<', chart) for chart in charts)
