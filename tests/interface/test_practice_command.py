"""``regard practice``: the list, files with blanks, hints, solutions and checks."""

import csv
import io
import json
import subprocess
import sys

import pytest

from regard.core.errors import DataError
from regard.practice import process
from regard.practice.catalogue import EXERCISES
from regard.practice.findings import Finding, Report, State


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """A learner who begins, in a folder of their own; -> the file of progress."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return tmp_path / "state" / "regard" / "practice.json"


@pytest.fixture
def checked(monkeypatch):
    """Checks without processes: a file that ends in good passes, another fails in weights."""

    def check(path, name=None):
        if "lost" in path.name:
            raise DataError(f"{path} does not say which exercise it is")
        good = Finding("scores", State.PASSED)
        wrong = Finding(
            "weights",
            State.WRONG,
            "your weights sum to 1 over queries, not keys",
            example={"q": "[[1]]"},
            yours="[[1, 1]]",
            right="[[0.5, 0.5]]",
        )
        other = Finding("weights", State.PASSED)
        last = Finding("attention", State.PASSED)
        findings = (good, other if "good" in path.name else wrong, last)
        return Report(str(path), "attention", 3, findings, printed="hello\n")

    monkeypatch.setattr(process, "check_file", check)


def test_list_and_handout_need_no_torch(tmp_path):
    code = (
        "import sys; from regard.cli.main import main; main(['practice']); "
        "main(['practice', 'layer', '--out', 'layer.ipynb']); main(['practice', 'layer']); "
        "main(['practice', 'layer', '--hint']); sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    names = [line.split()[0] for line in done.stdout.splitlines()[: len(EXERCISES)]]
    assert names == list(EXERCISES)


def test_the_list_as_json(run, checked, state):
    run("practice", "--check", "bad.py")
    code, out, _ = run("practice", "--json")
    first = json.loads(out)[0]
    assert code == 0
    assert {"name": "attention", "passed": 2, "of": 3, "hints": 0}.items() <= first.items()


def test_a_file_is_written_once(run, refused):
    code, out, _ = run("practice", "masks", "--out", "masks.py")
    assert (code, out) == (0, "masks.py: 3 blanks. Then: regard practice --check masks.py\n")
    assert "is there already" in refused("practice", "masks", "--out", "masks.py")
    assert "ends in .py or .ipynb" in refused("practice", "masks", "--out", "masks.txt")


def test_a_check_tells_each_blank_and_keeps_progress(run, checked, state):
    code, out, err = run("practice", "attention", "--check", "bad.py")
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        "attention: bad.py",
        "  passed  scores",
        "  wrong   weights: your weights sum to 1 over queries, not keys",
        "          q = [[1]]",
        "          yours: [[1, 1]]",
        "          right: [[0.5, 0.5]]",
        "  passed  attention",
        "  Your code printed:",
        "hello",
        "2 of 3 passed",
    ]
    assert json.loads(state.read_text()) == {
        "attention": {"passed": ["attention", "scores"], "hints": {}}
    }
    _, listed, _ = run("practice")
    assert "attention    2 of 3" in listed
    assert str(state) in listed
    assert run("practice", "--check", "good.py")[0] == 0


def test_a_check_as_json(run, checked):
    code, out, _ = run("practice", "--check", "bad.py", "--json")
    facts = json.loads(out)
    assert code == 1
    assert (facts["exercise"], facts["passed"], facts["of"], facts["solved"]) == (
        "attention",
        2,
        3,
        False,
    )
    assert facts["first_failure"] == "weights: your weights sum to 1 over queries, not keys"
    assert facts["parts"][1]["example"] == {"q": "[[1]]"}


def test_a_class_is_checked_in_one_call(run, checked, state):
    code, out, _ = run("practice", "--check", "ann-good.py", "bob.py", "lost.py", "--csv")
    rows = [*csv.reader(io.StringIO(out))]
    assert code == 1
    assert rows == [
        ["file", "exercise", "passed", "of", "first failure"],
        ["ann-good.py", "attention", "3", "3", ""],
        ["bob.py", "attention", "2", "3", "weights: your weights sum to 1 over queries, not keys"],
        ["lost.py", "", "0", "0", "lost.py does not say which exercise it is"],
    ]
    assert run("practice", "--check", "ann-good.py", "bob.py")[0] == 1
    assert not state.exists()  # a teacher has not solved it
    assert run("practice", "--check", "ann-good.py", "--csv")[0] == 0


def test_hints_come_one_at_a_time_for_the_first_blank_that_is_left(run, checked, state):
    assert run("practice", "attention", "--hint")[1].startswith("scores, hint 1 of 2: ")
    second = run("practice", "attention", "--hint")[1].splitlines()
    assert [line.split(":")[0] for line in second] == ["scores, hint 1 of 2", "scores, hint 2 of 2"]
    assert "No more hints for scores" in run("practice", "attention", "--hint")[1]
    run("practice", "--check", "bad.py")
    assert run("practice", "attention", "--hint")[1].startswith("weights, hint 1 of 2: ")
    assert json.loads(state.read_text())["attention"]["hints"] == {"scores": 2, "weights": 1}


def test_a_solution_is_shown_when_it_is_solved_or_hints_are_used_up_or_anyway(
    run, refused, checked
):
    assert "there are hints left" in refused("practice", "attention", "--solution")
    assert "q @ k.mT" in run("practice", "attention", "--solution", "--anyway")[1]
    run("practice", "--check", "bad.py")
    run("practice", "attention", "--hint")
    assert "there are hints left" in refused("practice", "attention", "--solution")
    run("practice", "attention", "--hint")
    assert "q @ k.mT" in run("practice", "attention", "--solution")[1]
    run("practice", "--check", "good.py")
    assert "is solved" in run("practice", "attention", "--hint")[1]
    assert run("practice", "attention", "--solution", "--out", "mine.py")[0] == 0


def test_an_exercise_shows_its_statement_and_what_is_left(run, checked):
    run("practice", "--check", "bad.py")
    out = run("practice", "attention")[1]
    assert out.startswith("Dot-product attention")
    assert "  passed  scores\n  open    weights\n" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["atention"], "did you mean 'attention'"),
        (["--check", "."], "no exercise in a .py or .ipynb file in the folder ."),
        (["all"], "give --out DIR"),
        (["all", "--hint"], "--hint is for one exercise"),
        (["attention", "masks"], "one exercise at a time"),
        (["--out", "a.py"], "name an exercise: attention, masks"),
        (["--hint"], "name an exercise"),
        (["mine.py"], "give --check"),
        (["--check"], "--check needs a file"),
        (["attention", "--check", "--hint", "a.py"], "ask for one"),
        (["--check", "a.py", "--csv", "--json"], "ask for one"),
        (["--check", "a.py", "--out", "b.py"], "--check writes no file"),
        (["attention", "--hint", "--out", "b.py"], "--hint prints a hint"),
        (["attention", "--csv"], "--csv is for --check"),
        (["attention", "--anyway"], "--anyway is for --solution"),
        (["--check", "missing.py"], "cannot read missing.py"),
    ],
)
def test_wrong_usage_is_one_line(refused, words, message):
    assert message in refused("practice", *words)


def test_progress_that_is_damaged_is_told(run, refused, state):
    state.parent.mkdir(parents=True)
    state.write_text('{"attention": 3}')
    assert f"{state} is damaged" in refused("practice")


def test_a_check_is_told_where_progress_cannot_be_kept(run, checked, state):
    state.parent.parent.mkdir()
    state.parent.write_text("a file where a folder should be")
    code, out, err = run("practice", "--check", "good.py")
    assert code == 0
    assert "3 of 3 passed" in out
    assert err.startswith("regard: progress is not kept: ")


def test_a_teachers_exercise_comes_by_plug_in(tmp_path):
    (tmp_path / "sums.py").write_text(
        '"""Sums: add two numbers."""\n'
        "from pathlib import Path\n"
        "from regard.practice.catalogue import EXERCISES, Exercise\n"
        "from regard.practice.sheet import Sheet\n"
        'EXERCISES.add("sums")(Exercise(__name__, Path(__file__)))\n'
        "sheet = Sheet()\n"
        '@sheet.blank("a + b")\n'
        "def add(a: float, b: float) -> float:\n"
        '    """a + b."""\n'
        "    return a + b\n"
        "@sheet.cases(add)\n"
        "def _cases():\n"
        '    yield {"a": 1.0, "b": 2.0}\n'
        '@sheet.mistake(add, "you subtract")\n'
        "def _minus(a: float, b: float) -> float:\n"
        "    return a - b\n"
    )
    (tmp_path / "mine.py").write_text("# regard practice: sums\ndef add(a, b):\n    return a - b\n")
    words = ["practice", "--plugin", "sums.py", "--check", "mine.py", "--csv"]
    done = subprocess.run(
        [sys.executable, "-m", "regard", *words], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[1:] == ["mine.py,sums,0,1,add: you subtract,wrong"]


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t"])
def test_no_cell_of_the_table_is_a_formula(run, monkeypatch, first):
    failed = Report("=a.py", "sums", failure=f"{first}HYPERLINK()")
    monkeypatch.setattr(process, "check_file", lambda _file, _name: failed)
    (row,) = [*csv.reader(io.StringIO(run("practice", "--check", "a.py", "--csv")[1]))][1:]
    assert row == ["'=a.py", "sums", "0", "0", f"'{first}HYPERLINK()"]


def test_a_folder_is_checked_with_a_column_for_each_function(run, checked, tmp_path):
    handed_in = tmp_path / "class"
    for name in ("ann-good.py", "below/bob.py", "below/.ipynb_checkpoints/bob.py", "notes.txt"):
        (handed_in / name).parent.mkdir(parents=True, exist_ok=True)
        (handed_in / name).write_text("# regard practice: attention\n")
    code, out, err = run("practice", "--check", handed_in, "--csv")
    rows = [*csv.reader(io.StringIO(out))]
    assert code == 1
    assert rows[0][5:] == ["scores", "weights", "attention"]
    assert [row[5:] for row in rows[1:]] == [["passed"] * 3, ["passed", "wrong", "passed"]]
    assert err == "regard: 1 of 2 solved; most missed: weights\n"
    assert run("practice", "--check", handed_in)[1].endswith(
        "\n1 of 2 solved; most missed: weights\n"
    )


def test_programs_in_a_folder_that_are_no_exercises_are_not_run(run, tmp_path):
    handed_in = tmp_path / "class"
    for name in ("venv/lib/tool.py", "ann.py"):
        (handed_in / name).parent.mkdir(parents=True, exist_ok=True)
        (handed_in / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (handed_in / "folder.py").mkdir()
    handout = handed_in / "bob.py"
    run("practice", "attention", "--out", handout)
    code, out, err = run("practice", "attention", "--check", handed_in)
    assert (code, not (tmp_path / "ran").exists()) == (1, True)
    assert "2 files without a line '# regard practice: NAME' left out, " in err
    assert str(handout) in out


def test_all_solutions_are_written_or_none(refused, run, tmp_path):
    out = tmp_path / "week.1"
    assert "is not solved" in refused("practice", "all", "--solution", "--out", out)
    assert not out.exists()
    assert run("practice", "all", "--solution", "--anyway", "--out", out)[0] == 0


def test_all_exercises_are_written_into_a_folder_and_none_over_another(run, refused, tmp_path):
    assert run("practice", "all", "--out", tmp_path / "sheets")[0] == 0
    written = {path.name for path in (tmp_path / "sheets").iterdir()}
    assert written == {f"{name}.py" for name in EXERCISES}
    assert "is there already" in refused("practice", "all", "--out", tmp_path / "sheets")
