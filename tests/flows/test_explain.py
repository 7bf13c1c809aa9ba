"""Looking inside a run."""

import json

import numpy as np
import pytest
import torch

import regard
from regard.cli.main import main
from regard.inspection.capture import watch
from regard.runs.train import train
from regard.tasks.recipe import recipe_from


def test_a_look_has_the_tokens_and_the_weights_of_that_very_run(run_path):
    run = regard.load(run_path)
    look = run.explain("a b c", "c b")
    assert look.source_tokens == ("a", "b", "c", "</s>")
    assert look.target_tokens == ("c", "b", "</s>")
    assert look.translation == "c b"
    assert set(look.attentions) == {"encoder.self", "decoder.self", "decoder.cross"}
    source = torch.tensor([[*run.tokenizers.source.encode("a b c"), 2]])
    target = torch.tensor([[1, *run.tokenizers.target.encode("c b")]])
    with watch(run.model) as views:
        run.model(source, target)
    for name, shape in (
        ("encoder.self", (4, 4)),
        ("decoder.self", (3, 3)),
        ("decoder.cross", (3, 4)),
    ):
        weights = look.weights(name)
        assert weights.shape == (2, *shape)
        np.testing.assert_allclose(weights, views[name, 0].weights()[0].detach().numpy())
        rows, columns = look.tokens_of(name)
        assert (len(rows), len(columns)) == shape
    assert (np.triu(look.weights("decoder.self"), 1) == 0).all()


def test_without_a_target_the_model_writes_it(run_path):
    run = regard.load(run_path)
    look = run.explain("a b c")
    assert look.translation == run.translate("a b c")
    assert look.target_tokens == (*look.translation.split(), "</s>")
    assert not any(view for view in run.model.modules() if getattr(view, "watched", False))


@pytest.mark.parametrize(
    "preset", ["luong2015", "bahdanau2015", "cs224n2019", "sutskever2014", "cheng2016"]
)
def test_recurrent_systems_go_the_whole_way_and_can_be_looked_at(settings, tmp_path, preset):
    mixed = {**settings, "model": {"preset": preset, "d_model": 16}}
    mixed["train"] = {**settings["train"], "max_steps": 3, "eval_every": 3}
    trained = train(recipe_from(mixed), tmp_path / "run")
    run = regard.load(tmp_path / "run")
    assert run.translate(["a b", "c"], beam=2) == trained.run.translate(["a b", "c"], beam=2)
    look = run.explain("a b c", "c b")
    if preset == "sutskever2014":
        assert look.attentions == {}
    else:
        weights = look.weights("decoder.cross")
        assert weights.shape == (1, 3, 4)
        np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)


def test_the_command_prints_what_python_gives(run_path, capsys):
    assert main(["explain", str(run_path), "a b c", "--target", "c b", "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == regard.load(run_path).explain("a b c", "c b").as_json()
    cross = shown["attentions"]["decoder.cross"][0][1]  # layer 0, head 1
    assert len(cross) == len(shown["target_tokens"])
    assert all(len(row) == len(shown["source_tokens"]) for row in cross)


def test_the_command_draws_a_matrix(run_path, tmp_path, capsys):
    out = tmp_path / "look.svg"
    words = ["explain", str(run_path), "a b c", "--format", "svg", "--head", "1"]
    assert main([*words, "--out", str(out)]) == 0
    assert out.read_text().startswith("<svg")
    assert "head 1" in out.read_text()
    for wrong in (["--head", "9"], ["--layer", "4"], ["--attention", "decoder.crss"]):
        assert main([*words, *wrong]) == 2
    errors = capsys.readouterr().err
    for hint in ("heads 0 to 1, not 9", "layers 0 to 0, not 4", "did you mean 'decoder.cross'"):
        assert hint in errors


def test_a_look_is_saved_by_the_ending_of_the_name(run_path, tmp_path):
    look = regard.load(run_path).explain("a b")
    signs = {
        "html": "<!DOCTYPE html>",
        "svg": "<svg",
        "json": "{",
        "csv": '"decoder.cross, layer 0, mean of 2 heads",a,b,',
        "tex": "\\begin",
    }
    for form, sign in signs.items():
        look.save(tmp_path / f"look.{form}")
        assert (tmp_path / f"look.{form}").read_text(encoding="utf-8").startswith(sign)
    assert json.loads((tmp_path / "look.json").read_text()) == look.as_json()
    look.save(tmp_path / "look.png")
    assert (tmp_path / "look.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(regard.ConfigError, match="not as"):
        look.save(tmp_path / "look")


def test_a_look_shows_itself_in_a_notebook(run_path):
    look = regard.load(run_path).explain("a b")
    shown = look._repr_html_()
    assert shown.startswith("<iframe ")
    assert "&quot;steps&quot;:[{" in shown


def test_the_command_prints_the_terminal_view_by_default(run_path, tmp_path, capsys):
    words = ["explain", str(run_path), "a b c", "--target", "c b"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "decoder.cross, layer 0, mean of 2 heads" in text
    weights = regard.load(run_path).explain("a b c", "c b").weights("decoder.cross").mean(0)
    rows = [line.split() for line in text.splitlines()[-3:]]
    assert [row[0] for row in rows] == ["c", "b", "</s>"]
    digits = [[int(cell.replace("·", "0")) for cell in row[1:]] for row in rows]
    np.testing.assert_array_equal(digits, np.minimum(9, np.floor(weights * 10 + 1e-9)))
    assert "\x1b" not in text
    assert main([*words, "--out", str(tmp_path / "look.txt")]) == 0
    assert (tmp_path / "look.txt").read_text(encoding="utf-8").splitlines()[
        -3:
    ] == text.splitlines()[-3:]


def test_the_command_shows_the_steps_of_a_token(run_path, capsys):
    words = ["explain", str(run_path), "a b c", "--target", "c b", "--head", "1"]
    steps = regard.load(run_path).explain("a b c", "c b").steps("b", head=1, name="decoder.cross")
    assert main([*words, "--token", "b"]) == 0
    text = capsys.readouterr().out
    assert "b in decoder.cross, layer 0, head 1" in text
    for weight in steps.weights:
        assert f"{weight:.3f}" in text
    assert main([*words, "--token", "1", "--format", "json"]) == 0  # the row of that number
    assert json.loads(capsys.readouterr().out)["steps"] == steps.as_json()
    assert main([*words, "--token", "b", "--format", "csv"]) == 0
    assert f"weight,a,0,0,{steps.as_json()['weights'][0]!r}" in capsys.readouterr().out
    assert main([*words, "--token", "b", "--format", "html"]) == 0
    assert '"head":1,"token":1}' in capsys.readouterr().out
    assert main([*words, "--token", "zebra"]) == 2
    assert "zebra" in capsys.readouterr().err


def test_nothing_cannot_be_looked_at(run_path):
    with pytest.raises(regard.DataError, match="empty"):
        regard.load(run_path).explain(" ")


def test_a_text_that_never_ended_can_be_looked_at(settings, tmp_path):
    """An untrained model with few learned positions writes until they are used up."""
    raw = {**settings, "model": {**settings["model"], "positions": "learned", "max_len": 6}}
    raw["train"] = {**settings["train"], "max_steps": 1, "lr": 1e-9}
    run = train(recipe_from(raw), tmp_path / "run").run
    look = run.explain("a b c")
    assert look.weights("decoder.cross").shape[1] == len(look.target_tokens) <= 6


def test_a_notebook_shows_steps_and_tree(run_path):
    run = regard.load(run_path)
    steps = run.explain("a b").steps(0)
    assert "<table" in steps._repr_html_()
    assert "<svg" in run.beam("a b", n_beams=2)._repr_html_()
