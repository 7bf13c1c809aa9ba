"""``regard VERB RUN --in FILES --out DIR``, as typed; what processes do is done here, at once."""

import json
from importlib.util import find_spec

import at_work
import pytest
from picture_runs import counting_run, png, scene
from text_runs import short_run

from regard.cli.main import main
from regard.core.numbers import counted
from regard.runs import bulk
from regard.tasks.base import verbs

COMMANDS = sorted(name for name, verb in verbs().items() if verb.command)


@pytest.fixture(autouse=True)
def _here(monkeypatch):
    monkeypatch.setattr(bulk, "Processes", at_work.Here)


@pytest.fixture
def lines(tmp_path):
    """Seven lines in two files; -> their glob."""
    (tmp_path / "a.txt").write_text("a b\nb c\nc d e\n")
    (tmp_path / "b.txt").write_text("d\ne f g h\na\nb\n")
    return str(tmp_path / "[ab].txt")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_verb_takes_files(name, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, shown, _ = run(name, "--help")
    assert code == 0
    for option in ("--in", "--out", "--workers", "--threads", "--part-lines", "--cluster"):
        assert option in shown


@pytest.mark.parametrize("flags", [(), ("--json",), ("--n-best", "2")])
def test_the_answers_are_those_of_standard_input(run_path, lines, tmp_path, run, flags):
    out = tmp_path / "out"
    code, shown, told = run(
        *("translate", run_path, *flags, "--in", lines, "--out", out, "--part-lines", "2")
    )
    assert (code, shown) == (0, "")
    assert told == f"regard: 7 lines of 2 files answered in {out}\n"
    ending = ".jsonl" if flags == ("--json",) else ""
    names = {f"a.txt{ending}", f"b.txt{ending}"}
    assert {one.name for one in out.iterdir()} == {"manifest.json", *names}
    for name in ("a.txt", "b.txt"):
        _, wanted, _ = run("translate", run_path, *flags, stdin=(tmp_path / name).read_text())
        found = (out / f"{name}{ending}").read_text()
        if flags == ("--json",):  # other batches: scores differ in their last digits
            texts = [
                [json.loads(x)["translation"] for x in y.splitlines()] for y in (found, wanted)
            ]
            assert texts[0] == texts[1]
        else:
            assert found == wanted

    code, _, told = run(
        *("translate", run_path, *flags, "--in", lines, "--out", out, "--part-lines", "2")
    )
    assert (code, told) == (0, f"regard: all is answered in {out} already\n")


def test_inputs_settings_and_runs_are_not_mixed(run_path, lines, tmp_path, run, refused):
    words = ["translate", run_path, "--in", lines, "--out", tmp_path / "out"]
    assert run(*words)[0] == 0
    assert "another command: options: beam is not the same; choose" in refused(*words, "--beam", 2)
    assert "json was False and is now True" in refused(*words, "--json")
    assert "part_lines was 1000 and is now 5" in refused(*words, "--part-lines", 5)
    assert "inputs: b.txt is not the same" in refused(*words[:3], tmp_path / "a.txt", *words[4:])
    (tmp_path / "a.txt").write_text("something else\n")
    assert "inputs: a.txt is not the same" in refused(*words)
    other = tmp_path / "other"
    other.mkdir()
    for path in run_path.iterdir():
        if path.is_file():
            (other / path.name).write_bytes(path.read_bytes())
    weights = bytearray((other / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (other / "model.safetensors").write_bytes(bytes(weights))
    assert "its weights have changed" in refused("translate", other, *words[2:])


def test_what_cannot_be_begun_is_refused_in_one_line(run_path, lines, tmp_path, refused):
    out = tmp_path / "out"
    words = ["translate", run_path, "--in", lines]
    assert "--out DIR" in refused(*words)
    words += ["--out", out]
    for option in ("--workers", "--threads", "--part-lines"):
        assert f"{option} 0: at least one must work" in refused(*words, option, 0)
    assert "leave out 'a text'" in refused("translate", run_path, "a text", *words[2:])
    assert "names no file" in refused("translate", run_path, "--in", "none*", "--out", out)
    assert "--workers is for the lines of files" in refused("translate", run_path, "--workers", 2)
    assert "--workers is for the lines of files" in refused("translate", run_path, "--workers", 0)
    assert "--out is for the lines of files" in refused("translate", run_path, "--out", out)
    why = "expected HOST:PORT" if find_spec("ray") else "--cluster needs Ray"
    assert why in refused(*words, "--cluster", "nowhere")
    assert "this needs a language model" in refused("generate", *words[1:])
    (tmp_path / "twice").mkdir()
    (tmp_path / "twice" / "a.txt").write_text("a\n")
    assert "would be called a.txt" in refused(*words, "--in", tmp_path / "twice" / "a.txt")
    assert "is a file; name a folder" in refused(*words[:-1], tmp_path / "a.txt")
    assert "holds something else, such as a.txt" in refused(*words[:-1], tmp_path)


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_line_that_cannot_be_answered_is_told_and_keeps_no_other_back(
    run_path, tmp_path, run, flags
):
    path, out = tmp_path / "lines.txt", tmp_path / "out"
    path.write_text("a\nb\nc\nzzz\nd\n")
    words = ["translate", run_path, "--in", path, "--out", out, "--part-lines", 2]
    assert run(*words, *flags)[0] == 0
    (note,) = (out / "notes.txt").read_text().splitlines()
    assert note.startswith(f"{path}, line 4: ")
    assert note.count("line 4") == 1
    name = "lines.txt" if not flags else "lines.txt.jsonl"
    answers = (out / name).read_text().splitlines()
    assert len(answers) == 5
    if flags:
        assert "error" in json.loads(answers[3])
    else:
        assert [bool(one) for one in answers] == [True, True, True, False, True]


def test_what_is_to_be_told_of_lines_is_kept_beside_the_answers(run_path, tmp_path, run):
    path, out = tmp_path / "lines.txt", tmp_path / "out"
    path.write_text("a\na zzz\nb\nyyy a\n")
    code, _, told = run("translate", run_path, "--in", path, "--out", out, "--part-lines", 2)
    assert code == 0
    assert told.endswith(f"regard: what is to be told of them is in {out / 'notes.txt'}\n")
    assert (out / "notes.txt").read_text().splitlines() == [
        f"{path}, lines {a} to {b}: 1 unknown word read as <unk>: {word}"
        for a, b, word in ((1, 2, "zzz"), (3, 4, "yyy"))
    ]


def test_parts_are_sampled_apart_and_again_alike(tmp_path, run):
    folder = short_run("language", tmp_path)
    path = tmp_path / "lines.txt"
    path.write_text("a\n" * 8)
    words = ["generate", folder, "--in", path, "--max-new", 8, "--seed", 3, "--part-lines", 2]
    for name in ("one", "two"):
        assert run(*words, "--out", tmp_path / name)[0] == 0
    (one, two) = ((tmp_path / name / "lines.txt").read_text() for name in ("one", "two"))
    assert one == two
    halves = one.splitlines()
    assert halves[:2] != halves[2:4]
    assert run(*words[:-4], "--part-lines", 2, "--out", tmp_path / "three")[0] == 0
    assert (tmp_path / "three" / "lines.txt").read_text() != one  # no seed: another one is drawn


def test_lines_may_name_pictures(tmp_path, run):
    folder = counting_run(tmp_path)
    names = [tmp_path / f"{n}.png" for n in range(3)]
    for n, path in enumerate(names):
        path.write_bytes(png(scene(n)))
    (tmp_path / "names.txt").write_text("".join(f"{path}\n" for path in names))
    words = ["--in", tmp_path / "names.txt", "--out", tmp_path / "out"]
    code, _, told = run("classify", folder, *words)
    assert (code, counted(3, "line") in told) == (0, True)
    _, wanted, _ = run("classify", folder, *names)
    assert (tmp_path / "out" / "names.txt").read_text() == wanted
    assert main(["classify", str(folder), *map(str, words), "--json"]) == 2


@pytest.mark.usefixtures("lines")
def test_the_same_files_in_another_order_are_refused(run_path, tmp_path, run, refused):
    a, b = (str(tmp_path / f"{name}.txt") for name in "ab")
    words = ("translate", run_path, "--out", tmp_path / "out")
    assert run(*words, "--in", a, "--in", b)[0] == 0
    assert "order was" in refused(*words, "--in", b, "--in", a)
