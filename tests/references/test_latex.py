"""What we write for LaTeX, compiled by LaTeX itself; where there is none, nothing is tested."""

import dataclasses
import shutil
import subprocess

import pytest
from systems import untrained

from regard.data.records import Pair
from regard.data.splits import Data
from regard.runs.heads import head_measures
from regard.visual.heads import all_heads_table
from regard.visual.look_files import steps_file
from regard.visual.tables import latex_table

SOURCE = ("50%", "a_b", "x&y", "é", "œ", "∅", "\N{GRINNING FACE}", "<s>", "{~^\\}", "#$", "</s>")
TARGET = ("*star", "[z]", "--", "“q”", "→", "中文", "ß", "▁the", "«|»", "`Δ…", "</s>")
ENGINES = [name for name in ("pdflatex", "lualatex", "xelatex") if shutil.which(name)]


@pytest.fixture(scope="module")
def run():
    return untrained("transformer")


@pytest.fixture(scope="module")
def look(run):
    found = run.explain("a b c d e f g h a b", "a b c d e f g h a b")
    return dataclasses.replace(found, source_tokens=SOURCE, target_tokens=TARGET)


def compiled(folder, text, engine):
    """The log of a document with the text, which must not have stopped at an error."""
    begin = "\\documentclass{article}\n\\usepackage{tikz}\n\\begin{document}\n"
    document = begin + "\\listoftables\n%s\\end{document}\n"
    (folder / "it.tex").write_text(document % text)
    words = [engine, "-interaction=nonstopmode", "-halt-on-error", "it.tex"]
    for _ in range(2):  # the list of tables is read at the second time
        done = subprocess.run(words, cwd=folder, capture_output=True, timeout=120, check=False)
    log = done.stdout.decode(errors="replace")
    assert done.returncode == 0, log[-2000:]
    return log


@pytest.mark.skipif(not ENGINES, reason="no LaTeX is installed")
@pytest.mark.parametrize("engine", ENGINES)
def test_every_table_compiles_with_awkward_tokens(run, look, tmp_path, engine):
    look.save(tmp_path / "look.tex")
    steps = look.steps("中文", layer=1, head=2).as_json()
    pairs = (Pair("a b c", "c b", ((2, 0), (1, 1))), Pair("d e", "e d"))
    heads = head_measures(run, Data({"valid": pairs})).as_json()
    tables = [
        (tmp_path / "look.tex").read_text(),
        steps_file(look.as_json(), steps, "tex"),
        latex_table(all_heads_table(heads)),
    ]
    compiled(tmp_path, "\n".join(tables), engine)
