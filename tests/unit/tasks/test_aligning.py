"""Alignments of real attention, against what a plain forward pass and a loop say."""

import numpy as np
import pytest
import torch
from systems import untrained

from regard.core.errors import DataError
from regard.data.alignments import Aligned
from regard.inspection.capture import watch
from regard.tasks.translation_scores import CHOOSING, alignment_scores, watched_aligned, word_ids
from regard.text import words
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer

SENTENCE = "l' animal , 3.5 fois aujourd'hui ( n' a ) pas ... dormi ?".split()


@pytest.mark.parametrize("kind", ["word", "char", "bpe"])
def test_each_token_is_given_the_word_of_its_first_letter(kind):
    text = words.join(SENTENCE)
    tokenizer = Tokenizer.train([text] * 3, TextSettings(kind=kind, vocab_size=300))
    found = word_ids(tokenizer, text, SENTENCE)
    tokens = tokenizer.tokens(tokenizer.encode(text))
    assert len(found) == len(tokens)
    spelled = {}
    for word, token in zip(found, tokens, strict=True):
        if word is not None:
            spelled[word] = spelled.get(word, "") + token.replace("▁", "")
    assert spelled == dict(enumerate(SENTENCE))


def test_letters_that_are_torn_into_bytes_stay_in_their_word():
    tokenizer = Tokenizer.train(["nothing"], TextSettings(kind="bpe", vocab_size=260))
    assert word_ids(tokenizer, "été, né", ["été", ",", "né"]) == [0] * 5 + [1, None] + [2] * 3


def aligned(source, target, sure=(), possible=()):
    return Aligned(tuple(source.split()), tuple(target.split()), tuple(sure), tuple(possible))


def plain_rows(run, source, target):
    """Heads of layer 0 (H, T, S): row t has read t tokens of the target."""
    read = torch.tensor([[*run.tokenizers.source.encode(source), 2]])
    written = torch.tensor([[1, *run.tokenizers.target.encode(target)]])
    with torch.no_grad(), watch(run.model) as views:
        run.model(read, written)
    return views["decoder.cross", 0].weights()[0].numpy()


def test_a_word_is_looked_for_as_it_is_written_and_as_it_is_read():
    run = untrained("transformer")
    found = watched_aligned(run, aligned("a b c d", "e f g", [(0, 0)])).weights
    heads = plain_rows(run, "a b c d", "e f g")
    assert heads.shape == (3, 4, 5)
    for h in range(3):
        written = found[f"decoder.cross layer 0 head {h}, as it is written"]
        np.testing.assert_allclose(written, heads[h, :3, :4], atol=1e-6)
        read = found[f"decoder.cross layer 0 head {h}, as it is read"]
        np.testing.assert_allclose(read, heads[h, 1:, :4], atol=1e-6)
    mean = found["decoder.cross layer 0 mean, as it is read"]
    np.testing.assert_allclose(mean, heads[:, 1:, :4].mean(axis=0), atol=1e-6)
    both = [found[f"decoder.cross layer {layer} mean, as it is read"] for layer in (0, 1)]
    np.testing.assert_allclose(found["decoder.cross mean, as it is read"], np.mean(both, axis=0))
    assert len(found) == 2 * (2 * (3 + 1) + 1)


@pytest.mark.parametrize("preset", ["bahdanau2015", "luong2015", "cheng2016"])
def test_recurrent_systems_are_aligned_too(preset):
    run = untrained(preset)
    found = watched_aligned(run, aligned("a b c d", "e f g")).weights
    heads = plain_rows(run, "a b c d", "e f g")
    one = found["decoder.cross layer 0 head 0, as it is written"]
    np.testing.assert_allclose(one, heads[0, :3, :4], atol=1e-6)


def by_loops(run, sentences, label):
    """Error rate of one candidate, from its definition."""
    hits = links = 0
    for one in sentences:
        matrix = watched_aligned(run, one).weights[label]
        predicted = [(max(range(len(row)), key=row.__getitem__), t) for t, row in enumerate(matrix)]
        for link in predicted:
            hits += (link in one.sure) + (link in one.sure or link in one.possible)
        links += len(predicted) + len(one.sure)
    return 1 - hits / links


def sentences(n):
    generator = np.random.default_rng(0)
    made = []
    for _ in range(n):
        source, target = (" ".join(generator.choice(list("abcdefgh"), k)) for k in (4, 3))
        sure = [(int(s), t) for t, s in enumerate(generator.integers(0, 4, 3))]
        made.append(aligned(source, target, sure[:2], [*sure[2:], (0, 0)]))
    return made


def test_the_head_is_chosen_on_the_first_and_scored_on_the_rest():
    run, some = untrained("transformer"), sentences(9)
    scores = alignment_scores(run, some)
    assert (scores["chosen_on"], scores["n"]) == (4, 5)
    candidates = watched_aligned(run, some[0]).weights
    rates = {label: by_loops(run, some[:4], label) for label in candidates}
    assert scores["aer_by"] == min(rates, key=rates.get)
    assert scores["chosen_on_aer"] == pytest.approx(min(rates.values()))
    assert scores["aer"] == pytest.approx(by_loops(run, some[4:], scores["aer_by"]))
    assert 0 < scores["aer_shuffled"] < 1


def test_no_more_than_a_hundred_choose():
    scores = alignment_scores(untrained("bahdanau2015"), sentences(2) * (CHOOSING + 5))
    assert (scores["chosen_on"], scores["n"]) == (100, 110)


def test_what_is_too_long_is_left_out_and_counted():
    run = untrained("transformer", positions="learned", max_len=6)
    scores = alignment_scores(run, [*sentences(4), aligned("a b c d e f g", "a b", [(0, 0)])])
    assert (scores["n"], scores["too_long"]) == (2, 1)


def test_one_sentence_cannot_choose_and_score():
    with pytest.raises(DataError, match="1 aligned sentences .* too few"):
        alignment_scores(untrained("transformer"), sentences(1))


def test_a_system_without_attention_is_refused():
    with pytest.raises(DataError, match="has no cross-attention to align words with"):
        alignment_scores(untrained("sutskever2014"), sentences(3))
