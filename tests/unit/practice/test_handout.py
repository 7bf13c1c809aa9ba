"""What is handed out: the solution's text with blanks, as a file or a notebook."""

import ast
import json

import pytest

from regard.core.errors import ConfigError, DataError
from regard.practice.catalogue import EXERCISES
from regard.practice.findings import State
from regard.practice.handout import BLANK, as_text, read_handout
from regard.practice.judging import judge
from regard.practice.submission import exercise_of, read_submission


def judged(name, path):
    """Findings of a handout that was written, read again and run in this process."""
    codes = read_submission(path)
    assert exercise_of(codes) == name
    namespace = {"__name__": "practice"}
    for code in codes:
        exec(compile(code.text, code.label, "exec"), namespace)
    return [*judge(EXERCISES[name].sheet(), namespace, codes)]


@pytest.mark.parametrize("suffix", [".py", ".ipynb"])
@pytest.mark.parametrize("name", EXERCISES)
def test_a_fresh_handout_runs_and_all_its_blanks_are_blank(name, suffix, tmp_path):
    path = tmp_path / f"mine{suffix}"
    path.write_text(as_text(name, EXERCISES[name].handout(), suffix))
    assert {one.state for one in judged(name, path)} == {State.BLANK}


@pytest.mark.parametrize("suffix", [".py", ".ipynb"])
@pytest.mark.parametrize("name", [one for one in EXERCISES if one != "pipeline"])
def test_a_solution_is_a_file_that_passes(name, suffix, tmp_path):
    path = tmp_path / f"solved{suffix}"
    path.write_text(as_text(name, EXERCISES[name].handout(), suffix, solved=True))
    assert {one.state for one in judged(name, path)} == {State.PASSED}


@pytest.mark.parametrize("name", EXERCISES)
def test_nothing_that_judges_is_handed_out(name):
    text = as_text(name, EXERCISES[name].handout(), ".py")
    tree = ast.parse(text)
    defined = {node.name for node in tree.body if hasattr(node, "name")}
    assert not any(one.startswith("_") for one in defined)
    assert "sheet" not in text
    assert "regard." not in text
    assert ast.get_docstring(tree).startswith(EXERCISES[name].handout().title)


def test_a_notebook_has_a_cell_for_each_definition_and_ids():
    book = json.loads(as_text("layer", EXERCISES["layer"].handout(), ".ipynb"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    kinds = [cell["cell_type"] for cell in book["cells"]]
    assert kinds == ["markdown", *["code"] * 6]
    assert len({cell["id"] for cell in book["cells"]}) == 7
    assert all(isinstance(cell["source"], list) for cell in book["cells"])


def test_methods_that_are_kept_stay_whole():
    text = as_text("layer", EXERCISES["layer"].handout(), ".py")
    assert "self.norm_2 = nn.LayerNorm(d_model)" in text
    assert "self.norm_2(x +" not in text
    assert text.count(BLANK) == 3


def test_lines_for_a_notebooks_kernel_are_left_out(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["# words"]},
        {"cell_type": "code", "source": "%matplotlib inline\n!pip list\nx = 5 \\\n  % 3"},
        {"cell_type": "code", "source": ["y = 1\n", "z = 0 / 0"]},
    ]
    path = tmp_path / "mine.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    first, second = read_submission(path)
    namespace = {}
    exec(first.text, namespace)
    assert namespace["x"] == 2
    assert (second.label, second.line(2)) == ("mine.ipynb, cell 2", "z = 0 / 0")


@pytest.mark.parametrize("text", ["", "[]", '{"cells": [1]}', '{"cells": [{"cell_type": "code"}]}'])
def test_what_is_no_notebook_is_refused(text, tmp_path):
    path = tmp_path / "mine.ipynb"
    path.write_text(text)
    with pytest.raises(DataError, match="not a notebook"):
        read_submission(path)


def test_a_blank_without_examples_is_refused(monkeypatch):
    part = EXERCISES["masks"].sheet().parts["causal_mask"]
    monkeypatch.setattr(part, "cases", tuple)
    with pytest.raises(ConfigError, match="causal_mask has no examples"):
        EXERCISES["masks"].sheet()


def test_a_file_without_blanks_is_no_exercise(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def double(x):\n    return 2 * x\n")
    with pytest.raises(ConfigError, match="no function marked as blank"):
        read_handout(path)
