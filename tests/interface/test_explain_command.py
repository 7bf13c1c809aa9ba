"""``regard explain`` and ``regard heads``, as typed: what is wrong is told in one line."""

import json
import os
from xml.etree import ElementTree

import pytest
from systems import untrained

import regard
from regard.cli.main import main

WRONG = [
    ([""], "nothing to look at"),
    ([" \t"], "nothing to look at"),
    (["a b", "--layer", "9"], "decoder.cross has layers 0 to 0, not 9"),
    (["a b", "--layer", "-1"], "not -1"),
    (["a b", "--head", "all"], "--head all draws the heads side by side"),
    (["a b", "--head", "first"], "--head is a number from 0, or all, not 'first'"),
    (["a b", "--head", "2"], "decoder.cross has heads 0 to 1, not 2"),
    (["a b", "--format", "html", "--head", "7"], "decoder.cross has heads 0 to 1, not 7"),
    (["a b", "--format", "json", "--layer", "77"], "decoder.cross has layers 0 to 0, not 77"),
    (["a b", "--token", "a", "--head", "2"], "heads 0 to 1, not 2"),
    (["a b", "--attention", "decoder.cros"], "did you mean 'decoder.cross'?"),
    (["a b", "--attention", ""], "no attention ''; known: encoder.self"),
    (["a b", "--token", "nobody"], "no token is 'nobody'; the target has "),
    (["a b", "--token", "nobody"], "</s>, the source a b </s>"),
    (["a b", "--token", "x", "--attention", "encoder.self"], "is 'x'; its rows are a b </s>"),
    (["a b", "--token", "99"], "rows 0 to"),
    (["a b z \udcff", "--token", "\udcff"], "the source a b <unk> <unk> </s>"),
    (["a b", "--format", "gif"], "'gif' is not one of 'text'"),
    (["a b", "--out", ""], "--out is the name of a file"),
    (["a b", "--out", "."], "--out is the name of a file"),
    (["a b", "--out", "look.gif"], "no format is called .gif; take .text, .html"),
    (["a b", "--out", "look.html", "--format", "svg"], "are two formats: give one"),
    (["a b", "--out", "look.html", "--format", "text"], "are two formats: give one"),
    (["a b", "--device", "gpu"], "device 'gpu' is none of"),
]


@pytest.mark.parametrize(("words", "told"), WRONG, ids=str)
def test_what_is_wrong_is_told_in_one_line(run_path, words, told, capsys):
    assert main(["explain", str(run_path), *words]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("regard: ")
    assert err.count("\n") == 1
    assert told in err


@pytest.mark.parametrize(
    ("preset", "words", "told"),
    [
        ("bytenet2016", ["--token", "a"], "this system does not attend"),
        (
            "bytenet2016",
            ["--rollout"],
            "a rollout follows self-attention, and this system has none",
        ),
        ("gnmt2016", ["--rollout"], "a rollout follows self-attention, and this system has none"),
    ],
    ids=str,
)
def test_what_a_system_has_not_is_told(preset, words, told, run_path, refused, monkeypatch):
    monkeypatch.setattr("regard.tasks.opening.load", lambda *_args, **_more: untrained(preset))
    assert refused("explain", run_path, "a b", *words) == f"regard: {told}\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--split", "valdi"], "did you mean 'valid'"),
        (["--sentences", "0"], "--sentences"),
        (["--format", "html"], "'html' is not one of"),
        (["--json", "--format", "csv"], "two formats"),
        (["--json", "--out", "heads.csv"], "two formats"),
        (["--out", "heads.html"], "no format is called .html"),
        (["--out", ".."], "--out is the name of a file"),
    ],
    ids=str,
)
def test_what_is_wrong_with_heads_is_told_in_one_line(run_path, words, told, capsys):
    assert main(["heads", str(run_path), *words]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.count("\n") == 1
    assert told in err


def test_the_name_of_the_file_is_enough(run_path, tmp_path, capsys):
    begins = {
        "a.html": "<!DOCTYPE html>",
        "a.svg": "<svg",
        "a.JSON": "{",
        "a.csv": '"decoder.cross, layer ',
        "a.tex": "\\begin{tikzpicture}",
        "a.txt": "a b",
        "a": "a b",
    }
    for name, begin in begins.items():
        assert main(["explain", str(run_path), "a b", "--out", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_text().startswith(begin), name
    words = ["heads", str(run_path), "--sentences", "2"]
    for name, begin in (("h.csv", "name,layer"), ("h.svg", "<svg"), ("h.json", "{")):
        assert main([*words, "--out", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_text().startswith(begin)
    # A name that promises nothing may hold anything.
    assert (
        main(["explain", str(run_path), "a b", "--format", "json", "--out", f"{tmp_path}/x.y"]) == 0
    )
    assert json.loads((tmp_path / "x.y").read_text())["source"] == "a b"
    assert capsys.readouterr().out == ""


def test_a_pipe_is_written_to_and_never_replaced(run_path, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert main(["explain", str(run_path), "a b", "--format", "csv", "--out", str(pipe)]) == 0
    assert os.read(reader, 15) == b'"decoder.cross,'
    os.close(reader)
    assert pipe.is_fifo()


def test_words_that_the_model_has_never_seen_are_named(run_path, capsys):
    assert main(["explain", str(run_path), "a zzz b"]) == 0
    assert capsys.readouterr().err == "regard: 1 unknown word read as <unk>: zzz\n"


def test_bytes_that_are_no_text_can_be_looked_at_and_saved(run_path, tmp_path):
    out = tmp_path / "look.json"
    words = ["explain", str(run_path), "a \udcff", "--target", "b \udcfe", "--out", str(out)]
    assert main(words) == 0
    assert json.loads(out.read_text())["source"] == "a \N{REPLACEMENT CHARACTER}"


def test_of_a_long_sentence_not_every_row_is_named(run_path):
    look = regard.load(run_path).explain("a b c " * 30)
    for name in ("encoder.self", None):
        with pytest.raises(regard.ConfigError, match="a b c .* …$") as told:
            look.steps("nobody", name=name)
        assert len(str(told.value)) < 200


def test_a_picture_for_slides_has_numbers_axes_and_one_ground(run, run_path, tmp_path):
    assert run("explain", run_path, "a b c", "--out", tmp_path / "a.svg")[0] == 0
    shown = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "target ↓  looks at source →" in shown
    assert "1  weight" in shown
    assert "prefers-color-scheme" not in shown


def test_all_heads_stand_side_by_side(run, run_path, tmp_path):
    out = tmp_path / "all.svg"
    assert run("explain", run_path, "a b c", "--head", "all", "--out", out)[0] == 0
    root = ElementTree.parse(out).getroot()
    inner = [one for one in root.iter(root.tag) if one is not root]
    assert [one.get("x") for one in inner] == ["0", inner[1].get("x")]
    assert float(inner[1].get("x")) >= float(inner[0].get("width"))
    assert [one.get("aria-label") for one in inner] == [
        "decoder.cross, layer 0, head 0",
        "decoder.cross, layer 0, head 1",
    ]
