"""What writes for a run: the form of its model that is made for it, in the numbers asked for."""

from pathlib import Path

import pytest
import torch
from language_models import language_model

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import ConfigError
from regard.data.settings import DataSettings
from regard.decoding.sampling import seeded
from regard.fast.language_model import StaticLanguageModel
from regard.inspection.capture import watch
from regard.tasks.generation import framing_for
from regard.tasks.recipe import recipe_from
from regard.tasks.writer import Writer
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
    return Writer(RunFolder(Path("nowhere")), recipe_from(raw), framing, model, torch.device("cpu"))


def test_a_run_writes_in_place_unless_it_is_watched():
    run = writer()
    assert isinstance(run.generator.quick, StaticLanguageModel)
    text = run.generate("the sea", seed=3, max_new=8)
    assert "".join(run.stream("the sea", seed=3, max_new=8)) == text
    with watch(run.model) as views:
        assert run.generator.quick is run.model
        assert run.generate("the sea", seed=3, max_new=8) == text
    assert views


def test_numbers_are_those_that_the_recipe_asks_for():
    assert writer().generator.dtype is None  # on a CPU, as the weights are
    run = writer(precision="bf16")
    assert run.generator.dtype == torch.bfloat16
    assert len(run.generate("the sea", max_new=4, temperature=0.0)) > 0


def said(pieces):
    """The whole text, and whether it ended itself."""
    text = ""
    while True:
        try:
            text += next(pieces)
        except StopIteration as end:
            return text, end.value


def test_a_text_that_came_to_a_stop_has_ended_and_one_at_its_limit_has_not():
    run = writer()
    ids, config = run.prompt_ids("the sea", 8), run.generation(max_new=8)
    whole, ended = said(run.generator.pieces(ids, config, rng=seeded(3)))
    assert not ended
    stop = whole.split()[2]
    assert said(run.generator.pieces(ids, config, rng=seeded(3), stop=stop)) == (
        whole[: whole.index(stop)],
        True,
    )


def test_pieces_that_nobody_waits_for_come_to_an_end():
    run, asked = writer(), []
    pieces = run.generator.pieces(
        run.prompt_ids("the sea", 8),
        run.generation(max_new=8),
        rng=seeded(3),
        dropped=lambda: asked.append(1) or len(asked) > 2,
    )
    text, ended = said(pieces)
    assert len(asked) == 3
    assert not ended
    whole = run.generate("the sea", max_new=8, seed=3)
    assert whole.startswith(text)
    assert text != whole


def test_more_texts_than_memory_holds_are_refused_before_they_are_written():
    with pytest.raises(ConfigError, match="n must be at least 1 and at most 10,000: 100000000"):
        writer().generate("the sea", n=100_000_000)
