"""``regard score``, as typed, where lines are too long for the model."""

import pytest
import yaml

import regard
from regard.cli.main import main
from regard.runs.train import train
from regard.tasks.recipe import recipe_from


@pytest.fixture(scope="module")
def few(settings, tmp_path_factory):
    """A run that reads seven words and an end."""
    raw = {**settings, "model": {**settings["model"], "positions": "learned", "max_len": 8}}
    raw["train"] = {**settings["train"], "max_steps": 2}
    out = tmp_path_factory.mktemp("few") / "run"
    train(recipe_from(yaml.safe_load(yaml.safe_dump(raw))), out, test_sets=())
    return out


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_line_that_is_too_long_is_named_after_the_scores_before_it(few, side, tmp_path, capsys):
    lines = {"source": ["a b", "c", "d"], "target": ["b a", "c", "d"]}
    lines[side][1] = "a b c d e f g a"
    for name, some in lines.items():
        (tmp_path / name).write_text("\n".join(some) + "\n")
    words = ["--source", str(tmp_path / "source"), "--target", str(tmp_path / "target")]
    assert main(["score", str(few), *words]) == 2
    out, err = capsys.readouterr()
    assert float(out) == pytest.approx(regard.load(few).score("a b", "b a"), abs=1e-5)
    assert err.splitlines()[-1] == (
        f"regard: {tmp_path / side}:2: 9 tokens with the end token, but the model's learned "
        "positions know 8; shorten the line, or train with a larger model.max_len or sinusoidal "
        "positions"
    )
