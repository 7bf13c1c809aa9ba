"""BPE-dropout by its laws: what it gives at 0 and at 1, and how often a merge is skipped."""

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.text.bpe_dropout import BpeDropout, MergeGraph, derive, uniform
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer

TEXTS = [
    "the animal did not cross the street because it was too tired.",
    "l'animal n'a pas traversé la rue parce qu'il était trop fatigué.",
    "the other animals crossed another street, the wider one",
    "",
    "traversées, fatigués; 3,50 € 💡  </s>",
] * 3
BPE = Tokenizer.train(TEXTS, TextSettings(vocab_size=330))
A, B, C, AB, ABC, BC = range(10, 16)
MERGES = {(A, B): (0, AB), (AB, C): (1, ABC), (B, C): (2, BC)}


def keys(n, seed=0):
    return derive(np.array([seed], np.uint64), np.arange(n))


def segmenter(texts=TEXTS, share=0.1, room=1000, seed=0):
    return BpeDropout(BPE, texts, share=share, room=room, keys=keys(len(texts), seed))


def by_text(segmented):
    ids, lengths = segmented
    return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]


def ends(word, share, n=20000, merges=MERGES):
    """What becomes of a word, and how often."""
    graph = MergeGraph(merges)
    nodes = graph.walk(np.repeat(graph.add([word]), n), keys(n), share)
    pieces = np.split(graph.pieces(nodes), np.cumsum(graph.n_pieces(nodes))[:-1])
    return Counter(tuple(part.tolist()) for part in pieces)


def chi_squared(found, expected):
    n = sum(found.values())
    assert found.keys() <= expected.keys()
    assert sum(expected.values()) == pytest.approx(1)
    return sum((found[one] - n * p) ** 2 / (n * p) for one, p in expected.items())


@given(st.lists(st.text(max_size=40), max_size=5))
@settings(deadline=None)
def test_nothing_skipped_gives_the_ids_of_the_tokenizer(texts):
    found = segmenter(texts, share=0.0).segment(0)
    assert by_text(found)[: len(texts)] == BPE.encode_batch(texts)


@given(st.text(max_size=40))
@example("the animals crossed")
@settings(deadline=None)
def test_everything_skipped_gives_the_bytes(text):
    (ids,) = by_text(segmenter([text], share=1.0).segment(0))
    assert ids == [BPE.byte_ids(part)[0] for sign in BPE.unmerged(text) for part in sign]
    assert len(ids) == len(text.encode())


@given(st.lists(st.text(max_size=40), min_size=1, max_size=4), st.floats(0, 1), st.integers(0, 9))
@example(["the animals crossed"], 1 - 2**-53, 0)
@settings(deadline=None)
def test_the_pieces_of_any_epoch_spell_the_text(texts, share, epoch):
    found = by_text(segmenter(texts, share).segment(epoch))
    assert [BPE.decode(ids) for ids in found] == texts


def by_definition(word, share, merges, rng):
    """Algorithm 1 of the paper: of the merges that are not dropped, the first is made."""
    word = list(word)
    while True:
        possible = [
            (*merges[pair], place)
            for place, pair in enumerate(pairwise(word))
            if pair in merges and rng.random() >= share
        ]
        if not possible:
            return tuple(word)
        _, piece, place = min(possible, key=lambda one: (one[0], one[2]))
        word[place : place + 2] = [piece]


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_frequencies_are_those_of_the_definition(share):
    p = share
    expected = {
        (ABC,): (1 - p) * (1 - p),  # A B, then AB C
        (AB, C): (1 - p) * p,
        (A, BC): p * (1 - p),  # A B skipped, B C not
        (A, B, C): p * p,
    }
    assert chi_squared(ends((A, B, C), share), expected) < 16.3  # 3 degrees: one in a thousand


def test_equal_merges_at_two_places_are_skipped_one_by_one():
    p = 0.3
    stays = {(A, B, A, B): p * p, (AB, A, B): (1 - p) * p, (A, B, AB): p * (1 - p) * p}
    # After the second place was joined, the first may still be.
    expected = stays | {(AB, AB): (1 - p) ** 2 + p * (1 - p) * (1 - p)}
    assert chi_squared(ends((A, B, A, B), p), expected) < 16.3


def test_words_end_as_often_in_each_way_as_by_the_definition_drawn_one_by_one():
    word = BPE.byte_ids(BPE.unmerged(" animals")[0])
    merges = BPE.merges()
    rng = random.Random(0)
    drawn = Counter(by_definition(word, 0.2, merges, rng) for _ in range(5000))
    found = ends(word, 0.2, merges=merges)
    frequent = [one for one, count in drawn.items() if count >= 50]
    assert len(frequent) > 5
    for one in frequent:
        p = (drawn[one] + found[one]) / 25000
        error = (p * (1 - p) * (1 / 5000 + 1 / 20000)) ** 0.5
        assert abs(drawn[one] / 5000 - found[one] / 20000) < 4 * error


def test_an_epoch_can_be_had_again_in_any_order():
    one, other = segmenter(), segmenter()
    first = [by_text(one.segment(epoch)) for epoch in range(4)]
    assert [by_text(other.segment(epoch)) for epoch in (3, 1)] == [first[3], first[1]]
    assert first[0] != first[1] != first[2]


def test_a_text_is_cut_the_same_whatever_comes_with_it():
    others = ["something else", *TEXTS[1:3], "quite another text", *TEXTS[4:]]
    first, second = (by_text(segmenter(texts, share=0.4).segment(2)) for texts in (TEXTS, others))
    for number in (1, 2, *range(4, len(TEXTS))):
        assert first[number] == second[number]


def test_equal_texts_are_cut_differently_and_so_are_equal_words():
    found = by_text(segmenter(["another animal"] * 50, share=0.4).segment(0))
    assert len({tuple(ids) for ids in found}) > 10
    (ids,) = by_text(segmenter([" animal" * 50], share=0.4).segment(0))
    assert len(set(",".join(BPE.tokens(ids)).split("▁"))) > 3


def test_another_seed_gives_other_pieces():
    assert by_text(segmenter(seed=1).segment(0)) != by_text(segmenter(seed=0).segment(0))


def test_a_text_that_would_get_too_long_is_left_whole():
    plain = BPE.encode_batch(TEXTS)
    room = max(map(len, plain)) + 2
    for epoch in range(3):
        found = by_text(segmenter(share=0.5, room=room).segment(epoch))
        long = [max(len(ids), room) for ids in by_text(segmenter(share=0.5).segment(epoch))]
        assert any(length > room for length in long)
        for ids, was, free in zip(found, plain, long, strict=True):
            assert len(ids) <= room
            assert free <= room or ids == was


def test_a_graph_that_grew_too_large_is_begun_anew_and_nothing_changes(monkeypatch):
    grown = [by_text(segmenter(share=0.4).segment(epoch)) for epoch in range(3)]
    monkeypatch.setattr("regard.text.bpe_dropout.MOST_NODES", 1)
    small = segmenter(share=0.4)
    assert [by_text(small.segment(epoch)) for epoch in range(3)] == grown


@pytest.mark.parametrize("at_once", [1, 7, 40])
def test_texts_may_be_cut_some_at_a_time(monkeypatch, at_once):
    whole = by_text(segmenter(share=0.4).segment(1))
    monkeypatch.setattr("regard.text.bpe_dropout.AT_ONCE", at_once)
    assert by_text(segmenter(share=0.4).segment(1)) == whole


def test_draws_are_even_and_know_no_neighbour():
    drawn = uniform(keys(40000), 3)
    counts = np.bincount((drawn * 20).astype(int), minlength=20)
    assert ((counts - 2000) ** 2 / 2000).sum() < 43.8  # 19 degrees: one in a thousand
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 0.02
    assert abs(np.corrcoef(drawn, uniform(keys(40000), 4))[0, 1]) < 0.02
    assert 0 <= drawn.min() < drawn.max() < 1
