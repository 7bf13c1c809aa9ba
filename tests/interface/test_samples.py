"""Every sample of the README and the site runs, or says why not.

Those of a page run one after another in a folder of their own, as a reader would type them. A short
run stands there as ``runs/demo``, and trainings are cut short.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from doc_samples import PAGES, ROOT, samples
from warm_python import warm_python

SECONDS = 300
DEMO = "regard train transformer --set n_train=300 --set max_steps=20 --out runs/demo"
SHORT = r"""
import re, sys
from regard.cli.main import main
words = [re.sub(r"max_steps=\d+", "max_steps=20", word) for word in sys.argv[1:]]
own = " ".join(words)
if "train" in words[:4] and "--dry-run" not in words and "max_steps" not in own:
    words += ["--set", "max_steps=2"] + ([] if ".yaml" in own else ["--set", "n_train=200"])
if __name__ == "__main__":  # workers import this file
    sys.exit(main(words))
"""
"""The program as samples find it: it trains for some steps, on little."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A folder with a short run of the demo's recipe, and a ``regard`` that trains briefly."""
    folder = tmp_path_factory.mktemp("samples")
    (folder / "bin").mkdir()
    (folder / "regard").write_text(SHORT)
    with warm_python(folder / "bin", python=[], regard=[str(folder / "regard")]):
        _shell(folder, folder, DEMO)
        yield folder


def _shell(folder, shared, code):
    found = (shared / "bin", Path(sys.executable).parent, os.environ["PATH"])
    path = os.pathsep.join(map(str, found))
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", code],
        cwd=folder,
        env={**os.environ, "PATH": path, "XDG_STATE_HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, f"{code}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", [page for page in PAGES if samples(page)])
def test_the_samples_of_a_page_run(page, shared, tmp_path):
    shutil.copytree(shared / "runs", tmp_path / "runs")
    python = []
    for one in samples(page):
        if one.not_run:
            continue
        if one.file is not None:
            (tmp_path / one.file).write_text(one.code)
        elif one.language == "python":
            python.append(one.code)
            (tmp_path / "sample.py").write_text("".join(python))
        elif one.language == "sh":
            _shell(tmp_path, shared, one.code)
    if python:
        shown = _shell(tmp_path, shared, "python sample.py")
        for told in re.findall(r"# (torch\.Size\(.*)", "".join(python)):
            assert told in shown


@pytest.mark.parametrize("page", PAGES)
def test_no_sample_goes_by_a_name_under_which_it_is_not_run(page):
    fences = re.findall(r"^```\s*\{?\.?(\w+)", (ROOT / page).read_text(), flags=re.MULTILINE)
    assert {"bash", "shell", "console", "py", "python3"}.isdisjoint(fences)


def test_most_samples_run():
    found = [one for page in PAGES for one in samples(page)]
    assert sum(one.not_run is None for one in found) > len(found) / 2 > 20
