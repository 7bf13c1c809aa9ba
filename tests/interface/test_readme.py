"""The README's Python runs, and its commands exist."""

import re
import shutil
from pathlib import Path

import pytest
import yaml

from regard.cli.main import main
from regard.recipes.recipe import builtin_recipes
from regard.tasks.recipe import recipe_from

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_its_python_runs(tmp_path, monkeypatch, run_path, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("demo", "mine"):
        shutil.copytree(run_path, tmp_path / "runs" / name)
    code = blocks("python")
    assert len(code) >= 3
    names = {}
    for block in code:
        exec(block.replace("john loves mary", "a b c"), names)  # what this run knows
    shown = capsys.readouterr().out.split("\n")
    assert shown[0] == "torch.Size([2, 8, 5, 7])"
    assert shown[0] in README


def test_its_recipe_is_valid():
    (recipe,) = blocks("yaml")
    assert recipe_from(yaml.safe_load(recipe)).model.size == "small"


def test_the_first_code_comes_early_and_is_make_demo_and_make_test():
    first = README.split("```")[1]
    assert README.split("\n").index("```") < 25
    assert [line.split("#")[0].strip() for line in first.strip().split("\n")] == [
        "make demo",
        "make test",
    ]


def test_every_command_it_names_has_help(capsys):
    verbs = set(re.findall(r"regard (\w+)", README)) - {"import"}
    assert verbs >= {"demo", "train", "translate", "evaluate", "score", "info"}
    for verb in sorted(verbs):
        assert main([verb, "--help"]) == 0, verb
    capsys.readouterr()


@pytest.mark.parametrize("name", builtin_recipes())
def test_it_names_every_built_in_recipe(name):
    assert f"`{name}`" in README
