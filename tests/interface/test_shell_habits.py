"""What a person types: half a word and the tab key, wrong names, and what there is to train."""

import subprocess
import sys

import pytest

from regard.cli.completion import recipe_names, run_names, setting_names
from regard.models.presets import PRESETS
from regard.recipes.recipe import builtin_recipes

ASKED = "import sys; sys.argv[0] = 'regard'; from regard.cli.main import main; sys.exit(main())"


def test_recipes_runs_and_settings_are_completed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("runs/mine", "runs/empty", "other"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("runs/mine", "other"):
        (tmp_path / name / "config.yaml").touch()
    (tmp_path / "multi.yml").touch()
    assert recipe_names("mul")[:2] == ["multi.yml", "multi30k-de-en"]
    assert run_names("") == ["other", "runs/mine"]
    assert run_names("runs/") == ["runs/mine"]
    assert setting_names("max_s") == ["max_steps="]
    assert setting_names("train.max_s") == ["train.max_steps="]
    assert "model.d_model=" in setting_names("model.d")


def test_a_shell_that_asks_is_answered(monkeypatch):
    typed = {"COMP_WORDS": "regard translate x --be", "COMP_CWORD": "3"}
    for name, value in {**typed, "_REGARD_COMPLETE": "complete_bash"}.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True)
    assert done.stdout.split() == ["--beam"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["train", "mine.yml"], "there is no file mine.yml; `regard recipes`"),
        (["train", "some/multi30k-en-de.yaml"], "there is no file some/multi30k-en-de.yaml (did"),
        (["compare", "mine.yaml"], "there is no file mine.yaml"),
        (["sweep", "mine.yaml", "--set", "lr=1,2"], "there is no file mine.yaml"),
        (["translate", "nowhere"], "there is no run folder nowhere"),
        (["heads", "."], ". is not a run folder: it has no config.yaml"),
    ],
)
def test_a_wrong_path_is_told_first(refused, words, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused(*words).startswith(f"regard: {told}")


def test_a_wrong_path_is_told_before_torch_is_imported():
    asked = (
        "import sys; from regard.cli.main import main\n"
        "codes = [main(words.split()) for words in "
        "('train no.yml', 'translate nowhere', 'compare no.yml', 'sweep no.yml')]\n"
        "print(codes, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert done.stdout == "[2, 2, 2, 2] False\n"


def test_every_model_says_which_recipe_trains_it_or_that_none_does(run):
    _, listed, _ = run("models")
    known = builtin_recipes()
    lines = {line.split()[0]: line for line in listed.splitlines()}
    assert {*lines} == {*PRESETS}
    for name, line in lines.items():
        recipes = line.rpartition("recipes: ")[2]
        if recipes.startswith("none"):
            assert f"model.preset={name}" in recipes
            assert name not in known
        else:
            assert {*recipes.split(", ")} <= {*known}
            assert (name in recipes.split(", ")) == (name in known)
    assert "recipes: sst2" in lines["bilstm"]
    assert "masked" in lines["bert"]
