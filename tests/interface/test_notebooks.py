"""Notebooks: what a real kernel shows while it trains, and the course of ``docs/notebooks``."""

import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

DOCS = Path(__file__).parents[2] / "docs"
COURSE = sorted((DOCS / "notebooks").glob("*.py"))


def test_there_are_eight_in_an_order():
    assert [path.name[0] for path in COURSE] == [str(number) for number in range(1, 9)]


@pytest.mark.parametrize("path", COURSE, ids=lambda path: path.stem)
def test_each_says_what_to_expect_and_asks_the_reader_to_change_something(path):
    text = path.read_text(encoding="utf-8")
    first = text.split("\n\n")[0]
    assert first.startswith("# %% [markdown]\n# # ")
    assert "# **What to expect.** " in first
    assert re.search(r"seconds|minute", first)
    assert "# ## Change something\n#\n# 1. " in text
    compile(text, path.name, "exec")


def runner():
    """``docs/run_notebooks.py``, which is a script."""
    for needed in ("jupytext", "nbclient", "ipykernel"):
        pytest.importorskip(needed)
    spec = importlib.util.spec_from_file_location("run_notebooks", DOCS / "run_notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_page_has_the_code_what_was_printed_and_frames_beside_it():
    cells = [
        SimpleNamespace(cell_type="markdown", source="# A title"),
        SimpleNamespace(
            cell_type="code",
            source="look",
            outputs=[
                SimpleNamespace(output_type="stream", text="one\n"),
                SimpleNamespace(output_type="stream", text="two\n"),
                SimpleNamespace(
                    output_type="execute_result",
                    data={
                        "text/html": '<iframe srcdoc="&lt;p&gt;it&lt;/p&gt;" title="a"></iframe>'
                    },
                ),
            ],
        ),
    ]
    files = {}

    def beside(content, ending):
        files[f"1.{ending}"] = content
        return f"1.{ending}"

    page = runner().page(SimpleNamespace(cells=cells), "mine", beside)
    assert page.startswith("# A title\n\n[Get this notebook](mine.ipynb)")
    assert "```python\nlook\n```\n\n```text\none\ntwo\n```\n\n" in page
    assert page.endswith('<div class="output"><iframe src="1.html" title="a"></iframe></div>\n')
    assert files == {"1.html": b"<p>it</p>"}


def test_a_real_kernel_shows_one_bar_that_moves_and_no_lines_of_steps(
    settings, tmp_path, monkeypatch
):
    notebooks = runner()
    drawn = []

    class Client(notebooks.NotebookClient):
        def process_message(self, message, *where):
            if message["msg_type"] in ("display_data", "update_display_data"):
                drawn.append(message["content"]["data"]["text/html"])
            return super().process_message(message, *where)

    monkeypatch.setattr(notebooks, "NotebookClient", Client)
    few = {**settings, "train": {**settings["train"], "log_every": 1}}
    file = tmp_path / "training.py"
    file.write_text(
        "# %%\nimport regard\nfrom regard.runs import progress\n\nprogress.APART = 0.0\n"
        f'_ = regard.train({few!r}, "run")\n'
    )
    (cell,) = notebooks.run(file).cells
    (output,) = (one for one in cell.outputs if one["output_type"] == "display_data")  # one bar
    assert not any("step" in one.get("text", "") for one in cell.outputs)
    steps = [int(found) for one in drawn for found in re.findall(r'value="(\d+)" max="30"', one)]
    assert steps == sorted(steps)
    assert {1, 15, 30} <= {*steps}
    assert output["data"]["text/html"] == drawn[-1]
    assert "step 30  validation loss" in drawn[-1]
