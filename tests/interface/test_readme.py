"""The README is short, shows the first command early, and its commands, links and recipes are real.

Its samples run in test_samples.py.
"""

import re
from pathlib import Path

import pytest
import yaml
from doc_samples import PAGES, samples

from regard.cli.main import main
from regard.tasks.recipe import recipe_from

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MOST_LINES = 150


def test_it_is_read_in_three_minutes():
    assert len(README.split("\n")) <= MOST_LINES


def test_the_first_code_comes_early_and_is_make_demo_and_make_test():
    first = samples("README.md")[0].code
    assert README.split("\n").index("```sh") < 25
    assert [line.split("#")[0].strip() for line in first.strip().split("\n")] == [
        "make demo",
        "make test",
    ]


def test_every_file_that_it_links_to_is_there():
    linked = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert len(linked) > 10
    assert [one for one in linked if not (ROOT / one).exists()] == []


def test_every_command_that_it_or_the_site_names_has_help(capsys):
    pages = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    verbs = set(re.findall(r"^(?:.*\| )?regard ([a-z]+)", pages, flags=re.MULTILINE))
    assert verbs >= {"demo", "train", "translate", "evaluate", "score", "info", "lab", "serve"}
    for verb in sorted(verbs):
        assert main([verb, "--help"]) == 0, verb
    capsys.readouterr()


WHOLE = [
    one
    for page in PAGES
    for one in samples(page)
    if one.language == "yaml" and not one.code.startswith("base:")  # run with its plug-in elsewhere
]


@pytest.mark.parametrize("recipe", WHOLE, ids=lambda one: one.file)
def test_recipes_that_are_shown_are_valid(recipe):
    assert recipe_from(yaml.safe_load(recipe.code)).train.max_steps
