"""Words that were never seen are carried over by attention."""

import dataclasses

import pytest
import torch

from regard.decoding.hypothesis import Hypothesis
from regard.runs.train import train
from regard.tasks.recipe import recipe_from
from regard.tasks.translator import copies
from regard.text.specials import UNKNOWN_ID


@pytest.fixture(scope="module")
def copying(settings, tmp_path_factory):
    """A system of ten steps whose attention is then made to look straight across."""
    raw = {**settings, "data": {"world": "copy", "n_train": 300}}
    raw["model"] = {"preset": "luong2015", "d_model": 8, "window": "local_m", "half_width": 1}
    raw["train"] = {**settings["train"], "max_steps": 2}
    raw["decode"] = {"replace_unknown": True}
    return train(recipe_from(raw), tmp_path_factory.mktemp("unknown") / "run").run


@pytest.fixture
def straight(copying, monkeypatch):
    def hard_across(_self, q, n_keys, mask, _causal, first):
        from regard.layers.window import Restriction

        at = first + torch.arange(q.shape[-2])
        return Restriction(at[:, None] == torch.arange(n_keys), causal=False)

    monkeypatch.setattr("regard.layers.window.MonotonicWindow.forward", hard_across)
    return copying


def written(run, text):
    ids = tuple(run.tokenizers.target.encode(text))
    return Hypothesis(ids=ids, log_prob=0.0, score=0.0, finished=True)


def test_an_unknown_word_is_the_one_that_was_looked_at(straight):
    hypothesis = written(straight, "a Zürich c Oslo")
    assert hypothesis.ids.count(UNKNOWN_ID) == 2
    assert straight.text("d Genève f Bern", hypothesis) == "a Genève c Bern"


def test_without_the_setting_it_stays_unknown(straight):
    plain = straight.recipe.model_copy(
        update={"decode": straight.recipe.decode.model_copy(update={"replace_unknown": False})}
    )
    run = dataclasses.replace(straight, recipe=plain)
    assert run.text("d Genève", written(run, "a Zürich")) == "a <unk>"


def test_the_end_token_is_never_copied(straight):
    said = copies(
        straight.model,
        straight.tokenizers.source,
        "d",
        written(straight, "a Zürich").ids,  # its second step looks at the end token
        straight.device,
    )
    assert said == ["d"]
