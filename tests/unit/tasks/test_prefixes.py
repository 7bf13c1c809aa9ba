"""Translations that begin as somebody wants them to."""

import dataclasses
from itertools import product, takewhile

import pytest
import torch
from systems import ATTENDING, NOT_ATTENDING, untrained

import regard
from regard.tasks.opening import Tokenizers
from regard.text.settings import TextSettings
from regard.text.specials import UNKNOWN
from regard.text.tokenizer import Tokenizer

TEXTS = ["a b c", "", "h g", "d"]
MANY = [" ".join(pair) for pair in product("abcdefgh", repeat=2)]


def shaken(preset="transformer", **changes):
    """A run with random weights whose translations differ from sentence to sentence."""
    run = untrained(preset, **changes)
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in run.model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return run


@pytest.mark.parametrize("preset", [*ATTENDING, *NOT_ATTENDING])
def test_a_prefix_of_the_models_own_words_changes_nothing(preset):
    run = shaken(preset)
    own = run.translate(MANY)
    spelled = [[*takewhile(lambda word: word != UNKNOWN, text.split())] for text in own]
    assert max(map(len, spelled)) > 2
    for n in (1, 2, 9):
        assert run.translate(MANY, prefix=[" ".join(words[:n]) for words in spelled]) == own


@pytest.mark.parametrize("how", [{}, {"beam": 3}, {"temperature": 2.0, "seed": 1}], ids=str)
def test_translations_begin_with_the_prefix_and_are_scored_with_it(how):
    run = shaken()
    for prefix in ("h a", ["h a", "b", "", "c c c"]):
        found = run.translate(TEXTS, prefix=prefix, with_scores=True, **how)
        wanted = [prefix] * 4 if isinstance(prefix, str) else prefix
        assert found[1] == ("", 0.0)  # nothing is made of nothing
        for i in (0, 2, 3):
            text, score = found[i]
            assert text.split()[: len(wanted[i].split())] == wanted[i].split()
            alone = run.translate(TEXTS[i], prefix=wanted[i], with_scores=True, **how)
            if "seed" not in how:
                assert (text, pytest.approx(score, abs=1e-4)) == alone
    ids = run.hypotheses(["a b c"], prefix="h a")[0][0].ids
    judged = run.token_scores(["a b c"], [run.tokenizers.target.decode(ids)])[0].log_probs
    one = run.hypotheses(["a b c"], prefix="h a")[0][0]
    assert one.log_prob == pytest.approx(float(judged[: len(ids) + one.finished].sum()), abs=1e-4)


def test_every_one_of_several_begins_with_it():
    run = shaken()
    for how in ({"beam": 4}, {"temperature": 2.0}):
        found = run.translate("a b", n_best=4, prefix="h a", **how)
        assert [text.split()[:2] for text in found] == [["h", "a"]] * 4


def test_an_empty_prefix_is_none():
    run = shaken()
    assert (
        run.translate(TEXTS, prefix="")
        == run.translate(TEXTS)
        == run.translate(TEXTS, prefix=[""] * 4)
    )


def test_a_stream_begins_with_it():
    run = shaken()
    pieces = [*run.stream("a b c", prefix="h a")]
    assert "".join(pieces) == run.translate("a b c", prefix="h a")
    assert pieces[0] == "h"


def test_a_prefix_may_end_inside_a_word_where_words_have_pieces():
    letters = Tokenizer.train(["abcdefgh"], TextSettings(kind="char"))
    run = dataclasses.replace(shaken(), tokenizers=Tokenizers(letters, letters))
    assert run.translate("ab", prefix="ha").startswith("ha")
    with pytest.raises(regard.DataError, match="prefix: the model cannot write ' '"):
        run.translate("ab", prefix="h a")


@pytest.mark.parametrize(
    ("prefix", "words"),
    [
        ("a zebra", "prefix: the model cannot write 'zebra'; begin with words"),
        (["a", "zoo", "a", "a"], "prefix: the model cannot write 'zoo'"),
        (["a", "b"], "prefix: 2 texts for 4 sources; give one for all, or one for each"),
        ("a " * 12, "prefix: it has 12 tokens, but the translation of 'a b c' may have 12 with"),
        (3, "a text or a list of texts"),
    ],
)
def test_mistakes_are_told_in_one_line(prefix, words):
    with pytest.raises(regard.RegardError, match=words) as told:
        shaken().translate(TEXTS, prefix=prefix)
    assert "\n" not in str(told.value)


def test_what_is_too_long_depends_on_the_source():
    run = shaken(decode={"max_len": 40})
    assert run.translate("a b c", prefix="a " * 21).startswith("a " * 21)
    with pytest.raises(regard.DataError, match="the translation of 'a' may have 16 with"):
        run.translate(["a b c", "a"], prefix="a " * 21)
    assert run.translate("", prefix="a " * 99) == ""
