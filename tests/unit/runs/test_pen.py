"""What writes for a run: the form of its model that is made for it, in the numbers asked for."""

import torch
from language_models import language_model

from regard.checkpoints.run_folder import RunFolder
from regard.data.settings import DataSettings
from regard.inspection.capture import watch
from regard.models.static_decoder import StaticDecoder
from regard.recipes.recipe import recipe_from
from regard.runs.framing import framing_for
from regard.runs.writer import Writer
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer

TEXTS = ["the sea is open", "the sea was it"] * 3


def writer(**decode):
    raw = {
        "task": "language",
        "data": {"train": "texts.txt"},
        "text": {"kind": "word", "vocab_size": 300},
        "model": {"preset": "gpt"},
        "train": {"max_steps": 1},
        "decode": decode,
    }
    tokenizer = Tokenizer.train(TEXTS, TextSettings(kind="word", vocab_size=300))
    framing = framing_for(tokenizer, DataSettings(train="texts.txt"))
    model = language_model(n_vocab=tokenizer.n_vocab)
    return Writer(RunFolder("nowhere"), recipe_from(raw), framing, model, torch.device("cpu"))


def test_a_run_writes_in_place_unless_it_is_watched():
    run = writer()
    assert isinstance(run.pen.quick, StaticDecoder)
    text = run.generate("the sea", seed=3, max_new=8)
    assert "".join(run.stream("the sea", seed=3, max_new=8)) == text
    with watch(run.model) as views:
        assert run.pen.quick is run.model
        assert run.generate("the sea", seed=3, max_new=8) == text
    assert views


def test_numbers_are_those_that_the_recipe_asks_for():
    assert writer().pen.dtype is None  # on a CPU, as the weights are
    run = writer(precision="bf16")
    assert run.pen.dtype == torch.bfloat16
    assert len(run.generate("the sea", max_new=4, temperature=0.0)) > 0
