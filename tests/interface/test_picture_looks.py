"""Looking at a run that reads pictures: explain, heads and the report."""

import json
import math
import sys

import numpy as np
import pytest
from picture_runs import counting_run, png, scene

import regard
from regard.cli.main import main
from regard.inspection.heads import rollout
from regard.runs.heads import head_measures

PATCHES = [(r, c) for r in range(4) for c in range(4)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return counting_run(tmp_path_factory.mktemp("counting"))


@pytest.fixture(scope="module")
def run(folder):
    return regard.load(folder, device="cpu")


@pytest.fixture
def picture(tmp_path):
    (tmp_path / "scene.png").write_bytes(png(scene()))
    return tmp_path / "scene.png"


def test_the_terminal_shows_digits_where_there_are_no_colours(folder, picture, capsys):
    assert main(["explain", str(folder), str(picture)]) == 0
    out = capsys.readouterr().out
    assert "encoder.self, layer 1, mean of 2 heads, as shares of the largest weight\n" in out
    assert "<cls> (" in out
    assert [line[:2] for line in out.splitlines()[-4:]] == ["0 ", "1 ", "2 ", "3 "]


@pytest.mark.parametrize("form", ["svg", "png", "html"])
def test_files_are_written_by_their_ending(folder, picture, tmp_path, form):
    out = tmp_path / f"look.{form}"
    assert main(["explain", str(folder), str(picture), "--token", "1,2", "--out", str(out)]) == 0
    begins = {"svg": b"<svg", "png": b"\x89PNG", "html": b"<!DOCTYPE"}[form]
    assert out.read_bytes().startswith(begins)
    if form == "svg":
        assert "1,2 (" in out.read_text()
    if form == "html":
        assert '"token":7' in out.read_text()


@pytest.mark.parametrize("verb", ["translate", "explain"])
def test_a_picture_for_a_run_of_texts_is_refused(run_path, picture, verb, capsys):
    assert main([verb, str(run_path), str(picture)]) == 2
    told = f"regard: {picture} is a picture's file, and this run reads texts\n"
    assert capsys.readouterr() == ("", told)
    assert main([verb, str(run_path), "a nowhere.png"]) == 0


def test_a_text_for_a_run_of_pictures_is_refused(folder, capsys):
    assert main(["explain", str(folder), "a red square"]) == 2
    assert capsys.readouterr().err == (
        "regard: a red square: no picture a red square: No such file or directory\n"
    )
    assert main(["explain", str(folder), "a.png", "--question", "what?"]) == 2
    assert capsys.readouterr().err == (
        "regard: a run of the task image_classification answers no questions about pictures: leave "
        "out --question (question=)\n"
    )


def test_numbers_of_a_row_are_still_its_steps(folder, picture, capsys):
    assert main(["explain", str(folder), str(picture), "--token", "<cls>", "--format", "csv"]) == 0
    assert capsys.readouterr().out.startswith("quantity,token,position,index,value")


def test_the_rollout_is_drawn_of_the_class_token(folder, run, picture, capsys):
    arguments = ["explain", str(folder), str(picture), "--rollout", "--format", "json"]
    assert main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    wanted = rollout(run.explain(picture).attentions["encoder.self"])
    assert list(found["attentions"]) == ["rollout of encoder.self"]
    np.testing.assert_allclose(found["attentions"]["rollout of encoder.self"][0][0], wanted, 1e-5)
    assert main([*arguments[:-2], "--head", "1"]) == 2
    assert "leave out --layer and --head" in capsys.readouterr().err
    assert main([*arguments[:-2], "--token", "<cls>", "--format", "csv"]) == 2
    assert "a rollout has no steps" in capsys.readouterr().err


@pytest.mark.parametrize(
    "what", [["explain", "a b"], ["explain", "a b", "--token", "a"], ["heads"]]
)
@pytest.mark.parametrize(("form", "begin"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_texts_and_heads_are_drawn_as_figures(run_path, tmp_path, what, form, begin):
    verb, *words = what
    more = ["--sentences", "2"] if verb == "heads" else []
    out = tmp_path / f"a.{form}"
    assert main([verb, str(run_path), *words, *more, "--out", str(out)]) == 0
    assert out.read_bytes().startswith(begin)


def test_without_the_library_one_line_says_how_to_get_it(run_path, capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert main(["explain", str(run_path), "a b", "--out", str(tmp_path / "a.pdf")]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "pip install 'regard[figures]', or save it as .svg" in told


def test_heads_tell_how_many_pixels_away_they_look(run):
    found = head_measures(run, n=3)
    pictures = sorted((run.folder.path.parent / "data/valid/one").glob("*.png"))[:3]
    weights = [run.explain(one).attentions["encoder.self"] for one in pictures]
    for row in found.rows:
        far = []
        for layers in weights:
            head = layers[row["layer"]][row["head"]][1:, 1:]
            for i, a in enumerate(PATCHES):
                share = head[i] / head[i].sum()
                far.append(
                    sum(w * 8 * math.dist(a, b) for w, b in zip(share, PATCHES, strict=True))
                )
        assert row["pixel_distance"] == pytest.approx(np.mean(far), rel=1e-4)
        assert row["distance"] is row["previous"] is row["next"] is None
    alike = np.array(found.as_json()["position_similarities"])
    assert alike.shape == (4, 4, 4, 4)
    np.testing.assert_allclose([alike[r, c, r, c] for r, c in PATCHES], 1)
    assert "px: pixels to the patches it looks at" in " ".join(str(found).split())


def test_the_map_of_heads_has_both_figures_below_it(folder, tmp_path):
    out = tmp_path / "heads.svg"
    assert main(["heads", str(folder), "--sentences", "2", "--out", str(out)]) == 0
    text = out.read_text()
    assert text.count("Mean attention distance, encoder.self</text>") == 1
    assert text.count("Similarity of learned positions</text>") == 1


def test_the_report_shows_how_far_heads_look_and_which_positions_are_alike(folder):
    report = (folder / "report.html").read_text()
    assert "Mean attention distance, encoder.self" in report
    assert "Similarity of learned positions" in report
