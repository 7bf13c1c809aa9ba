"""Files that readers and services of the repository read, beside the program."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import regard

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read(name):
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_citation_is_of_this_version():
    cited = read("CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= {*cited}
    assert cited["version"] == regard.__version__ == PROJECT["version"]
    assert cited["license"] == PROJECT["license"]


def test_the_workflow_runs_what_contributors_run_on_the_oldest_python_too():
    (job,) = read(".github/workflows/ci.yml")["jobs"].values()
    assert job["steps"][-1] == {"run": ".ci/run"}
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert oldest in job["strategy"]["matrix"]["python"]


@pytest.mark.parametrize("name", ["bug", "question"])
def test_templates_of_issues_ask_for_something(name):
    form = read(f".github/ISSUE_TEMPLATE/{name}.yml")
    assert {"name", "description", "body"} <= {*form}
    assert any(one.get("validations", {}).get("required") for one in form["body"])


def test_ci_makes_what_the_makefile_has():
    asked = re.findall(r"^make ([\w-]+)", (ROOT / ".ci" / "run").read_text(), flags=re.MULTILINE)
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert {"check", "wheel", "notebooks", "test-all"} <= {*asked} <= {*targets}
