"""What language models of others have that ours have not: rows without tokens, a begin token."""

from pathlib import Path

import pytest
import tokenizers
import torch
from language_models import language_model
from tokenizers import decoders, models, pre_tokenizers, processors

from regard.checkpoints.run_folder import RunFolder
from regard.data.settings import DataSettings
from regard.tasks.generation import framing_for
from regard.tasks.recipe import recipe_from
from regard.tasks.writer import Writer
from regard.text.pretrained import PretrainedTokenizer
from regard.text.specials import SpecialIds

GAP = 3
"""An id that no token has."""
MORE = 9
"""Rows behind the last token."""


def foreign_writer(*, unknown=None, begins=True, max_len=17):
    """One token a byte; the end is 0, the beginning 1."""
    names = ["<e>", "<s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    table = {name: number + (number >= GAP) for number, name in enumerate(names)}
    inner = tokenizers.Tokenizer(models.BPE(table, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(["<e>", "<s>"])
    if begins:
        inner.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 1)]
        )
    tokenizer = PretrainedTokenizer(inner, SpecialIds(0, 1, 0, unknown))
    raw = {
        "task": "language",
        "data": {"train": "texts.txt"},
        "text": {"kind": "bpe"},
        "model": {"preset": "gpt"},
        "train": {"max_steps": 1},
    }
    framing = framing_for(tokenizer, DataSettings(train="texts.txt"))
    model = language_model(n_vocab=tokenizer.n_vocab + MORE, max_len=max_len)
    return Writer(RunFolder(Path("nowhere")), recipe_from(raw), framing, model, torch.device("cpu"))


def test_rows_without_a_token_are_never_written():
    run = foreign_writer()
    n = run.tokenizer.n_vocab
    assert set(run.generation(max_new=1).control.suppressed) >= {GAP, *range(n, n + MORE)}
    with torch.no_grad():  # what has no name is what the model would say
        run.model.embedding.tokens.weight[[GAP, n + 2]] *= 50
    for seed in range(20):
        run.generate("tea", max_new=8, temperature=3.0, seed=seed)
    look = run.explain("tea", max_tokens=3)
    assert all(len(place.choices) == 5 for place in look.outcome.places)


@pytest.mark.parametrize(("max_new", "kept"), [(5, 13), (99, 8)])
def test_cutting_a_prompt_leaves_the_begin_token_where_it_is(max_new, kept):
    run = foreign_writer()
    ids = run.prompt_ids("abcdefghijklmnopqrstuvwxyz", max_new, "left")
    assert ids[0] == 1
    assert ids[1:] == run.framing.inside("abcdefghijklmnopqrstuvwxyz"[1 - kept :])
    plain = foreign_writer(begins=False).prompt_ids("abcdefghijklmnopqrstuvwxyz", max_new, "left")
    assert plain == run.framing.inside("abcdefghijklmnopqrstuvwxyz"[-kept:])


def test_an_end_that_is_called_unknown_as_well_is_an_end():
    texts = ["a tea", "no tea"]
    scores = foreign_writer(unknown=0).evaluate_texts(texts, split="all").scores
    assert scores == foreign_writer(unknown=None).evaluate_texts(texts, split="all").scores
    assert "unknown" not in scores
    assert scores["word_perplexity"] > 1
    assert foreign_writer(unknown=0).unknown_words("a tea") == []
