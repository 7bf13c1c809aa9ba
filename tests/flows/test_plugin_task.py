"""A task of somebody else's: ``examples/plugin``, which no line of Regard knows.

Everything happens in processes of their own, so that its entries are in no registry here.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGIN = str(ROOT / "examples" / "plugin")
RECIPE = str(ROOT / "examples" / "plugin" / "motions.yaml")
UP, ROUND = [[0, 0], [0, 0.5], [0, 1]], [[1, 0], [0.3, 0.9], [-0.9, 0.1], [0, -1]]


def python(*words, given=""):
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        [sys.executable, *map(str, words)],
        input=given,
        capture_output=True,
        text=True,
        env=env,
        cwd=ROOT,
        timeout=300,
        check=False,
    )


def regard(*words, given="", plugin=True):
    before = ["--plugin", PLUGIN] if plugin else []
    return python("-m", "regard", *before, *words, given=given)


def train(folder, out, *more):
    return regard("train", RECIPE, "--set", f"data.folder={folder}", "--out", out, *more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("motions")
    assert python("-m", "examples.plugin.make", made).returncode == 0
    return made


@pytest.fixture(scope="module")
def run(folder):
    done = train(folder, folder / "run")
    assert done.returncode == 0, done.stderr
    return folder / "run"


def test_it_learns_with_its_own_score_optimiser_metric_and_model(run):
    scores = json.loads((run / "scores.json").read_text())["scores"]["test"]
    assert scores["accuracy"] > 0.9
    assert 0 < scores["worst_recall"] <= 1
    assert json.loads((run / "config.json").read_text())["score"] == "distance"
    page = (run / "report.html").read_text()
    assert "worst recall" in page
    assert "Motions seen" in page


def test_what_it_wrote_does_not_outlive_its_run(run, tmp_path):
    out = Path(shutil.copytree(run, tmp_path / "run"))
    assert (out / "motions.json").exists()
    done = regard("train", "copy", "--set", "max_steps=1", "--out", out, "--overwrite")
    assert done.returncode == 0, done.stderr
    assert not (out / "motions.json").exists()


def test_a_training_that_was_cut_goes_on_to_the_same_weights(folder, run):
    """The process ends itself after the snapshot of step 50; then it is resumed."""
    script = (
        "import os, sys; from pathlib import Path; from regard.core.plugins import load_plugins\n"
        "load_plugins([sys.argv[1]])\n"
        "from regard.recipes.recipe import load_recipe; from regard.runs.train import train\n"
        "class Stop:\n"
        "    def __call__(self, line):\n"
        "        if line['kind'] == 'valid' and line['step'] == 100: os._exit(9)\n"
        "recipe = load_recipe(sys.argv[2], ['data.folder=' + sys.argv[3]])\n"
        "train(recipe, Path(sys.argv[4]), device='cpu', observers=[Stop()])\n"
    )
    out = folder / "cut"
    assert python("-c", script, PLUGIN, RECIPE, folder, out).returncode == 9
    assert not (out / "scores.json").exists()
    done = train(folder, out, "--resume")
    assert "resuming at step 50" in done.stdout + done.stderr
    assert (out / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()


def test_it_is_evaluated_on_a_split_and_on_a_file(folder, run):
    own = json.loads(regard("evaluate", run, "--json").stdout)
    assert own["task"] == "motions"
    assert own["split"] == "test"
    mine = json.loads(regard("evaluate", run, folder / "train.jsonl", "--json").stdout)
    assert mine["n"] == 200


def test_it_answers_lines_of_standard_input(run):
    done = regard("recognise", run, given=f"{json.dumps(UP)}\n{json.dumps(ROUND)}\n")
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["up", "round"]
    assert "recognise" in regard("--help").stdout
    wrong = regard("recognise", run, given="up\n")
    assert wrong.returncode == 2
    assert "standard input, line 1: expected pairs of numbers" in wrong.stderr


def test_it_is_explained_with_frames_as_axes(run, tmp_path):
    shown = json.loads(regard("explain", run, json.dumps(UP), "--format", "json").stdout)
    assert shown["sides"]["source"]["kind"] == "frames"
    (name,) = shown["attentions"]
    assert len(shown["attentions"][name][0][0]) == len(UP)
    assert shown["outcome"]["text"] == "up"
    assert regard("explain", run, json.dumps(UP), "--out", tmp_path / "look.html").returncode == 0


def test_it_is_served_and_has_a_form(run):
    script = (
        "import json, sys; from regard.core.plugins import load_plugins\n"
        "load_plugins([sys.argv[1]])\n"
        "from starlette.testclient import TestClient\n"
        "from regard.tasks.opening import load; from regard.server.app import make_app\n"
        "with TestClient(make_app(load(sys.argv[2], device='cpu'), loopback=False)) as client:\n"
        "    frames = json.loads(sys.argv[3])\n"
        "    said = client.post('/api/recognise', json={'frames': frames})\n"
        "    bad = client.post('/api/recognise', json={'frames': 'up'})\n"
        "    info = client.get('/api/info').json()\n"
        "    look = client.post('/api/explain', json={'source': json.dumps(frames)})\n"
        "    print(json.dumps([said.json(), bad.status_code, info, look.status_code]))\n"
    )
    done = python("-c", script, PLUGIN, run, json.dumps(UP))
    assert done.returncode == 0, done.stderr
    said, bad, info, look = json.loads(done.stdout.splitlines()[-1])
    assert said["label"] == "up"
    assert bad == 422
    assert info["form"]["go"] == "Recognise"
    assert look == 200


def test_a_run_names_the_plug_in_of_the_flag(folder, tmp_path):
    recipe = tmp_path / "mine.yaml"
    lines = Path(RECIPE).read_text().splitlines()
    recipe.write_text("\n".join(line for line in lines if not line.startswith("plugins")))
    words = ("train", recipe, "--out", tmp_path / "run", "--set", f"data.folder={folder}")
    assert regard(*words, "--set", "max_steps=2", "--set", "warmup_steps=1").returncode == 0
    assert PLUGIN in (tmp_path / "run" / "config.yaml").read_text()
    assert "task='motions'" in regard(*words, plugin=False).stderr


def test_without_the_plug_in_its_run_asks_for_the_flag(run):
    refused = regard("info", run, plugin=False)
    assert refused.returncode == 2
    assert len(refused.stderr.splitlines()) == 1
    assert "--plugin" in refused.stderr
