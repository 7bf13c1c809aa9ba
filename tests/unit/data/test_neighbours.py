"""Neighbours of words, and words that are none, against counts by hand."""

import math

import numpy as np
import pytest
import torch

from regard.core.errors import DataError
from regard.data.neighbours import (
    Neighbourhood,
    fixed_neighbours,
    kept_shares,
    neighbour_stream,
    neighbours,
    noise_shares,
    word_counts,
    word_table,
)

TEXTS = [[5, 6, 7], [8, 5, 6, 3, 9], [7, 3], [6, 8]]


def near(n_vocab=10, **how):
    settings = {"context": 2, "n_negatives": 3, "threshold": 1.0, **how}
    return Neighbourhood.of(word_counts(word_table(TEXTS, {3}), n_vocab), "train", **settings)


def test_words_that_are_not_near_come_by_frequency_to_the_power_of_three_quarters():
    assert noise_shares(np.array([81.0, 16.0, 1.0])) == pytest.approx([27 / 36, 8 / 36, 1 / 36])


def test_frequent_words_are_read_less_often_and_rare_ones_always():
    counts = np.array([90.0, 9.0, 1.0, 0.0])
    assert kept_shares(counts, 0.1) == pytest.approx([math.sqrt(0.1 / 0.9), 1, 1, 1])


def test_neighbours_are_all_pairs_within_a_width_that_is_drawn_for_each_word():
    ids = np.arange(7)
    everything = np.ones(7)
    seen = {}
    for seed in range(60):
        pairs = neighbours([ids], everything, 3, np.random.default_rng(seed)).tolist()
        assert len(pairs) == len({tuple(pair) for pair in pairs})
        reach = {here: max(abs(here - near) for a, near in pairs if a == here) for here in range(7)}
        expected = {(a, b) for a in range(7) for b in range(7) if 0 < abs(a - b) <= reach[a]}
        assert {tuple(pair) for pair in pairs} == expected
        seen.setdefault(reach[3], True)
    assert set(seen) == {1, 2, 3}


def test_no_word_is_a_neighbour_of_another_text():
    pairs = neighbours([np.array([0, 1]), np.array([2, 3])], np.ones(4), 3, np.random.default_rng())
    assert sorted(pairs.tolist()) == [[0, 1], [1, 0], [2, 3], [3, 2]]


def test_a_word_that_is_not_kept_leaves_no_gap():
    kept = np.array([1.0, 0.0, 1.0])
    pairs = neighbours([np.array([0, 1, 2])], kept, 1, np.random.default_rng(0))
    assert sorted(pairs.tolist()) == [[0, 2], [2, 0]]
    assert neighbours([np.array([1, 1])], kept, 1, np.random.default_rng(0)).shape == (0, 2)


def test_a_table_has_no_silent_ids_and_no_text_without_neighbours():
    table = word_table(TEXTS, {3})
    assert [table.source[i] for i in range(len(table))] == [[5, 6, 7], [8, 5, 6, 9], [6, 8]]
    assert table.numbers_of(np.array([1, 2])) == (1, 3)
    assert word_counts(table, 10).tolist() == [0, 0, 0, 0, 0, 2, 3, 1, 2, 1]


def test_a_batch_is_words_each_with_a_neighbour_and_with_drawn_ones():
    table = word_table(TEXTS, {3})
    batch = near().batch(table, np.array([0, 2]), np.random.default_rng(0))
    assert batch.numbers == (0, 3)
    assert batch.count == len(batch.words) == len(batch.contexts)
    assert batch.contexts.shape[1] == 1 + 3
    pairs = {*zip(batch.words.tolist(), batch.contexts[:, 0].tolist(), strict=True)}
    assert {(5, 6), (6, 5), (6, 7), (7, 6), (6, 8), (8, 6)} <= pairs
    assert pairs <= {(a, b) for text in ([5, 6, 7], [6, 8]) for a in text for b in text if a != b}
    assert {*batch.contexts[:, 1:].flatten().tolist()} <= {5, 6, 7, 8, 9}


def test_a_batch_whose_words_all_happen_to_be_left_out_has_them_all_the_same():
    table = word_table(TEXTS, {3})
    batch = near(threshold=1e-12).batch(table, np.array([2]), np.random.default_rng(0))
    assert sorted(batch.words.tolist()) == [6, 8]


def test_an_epoch_has_every_text_once_and_goes_on_where_it_stopped():
    table = word_table(TEXTS, {3})

    def stream():
        return neighbour_stream(table, near(), batch_tokens=5, seed=4)

    whole, again = stream(), stream()
    batches = [whole.next() for _ in range(7)]
    first = [number for batch in batches[: whole.n_batches] for number in batch.numbers]
    assert sorted(first) == [0, 1, 3]
    for _ in range(3):
        again.next()
    resumed = stream()
    resumed.restore(again.state())
    for batch in batches[3:]:
        other = resumed.next()
        assert other.numbers == batch.numbers
        assert torch.equal(other.words, batch.words)
        assert torch.equal(other.contexts, batch.contexts)


def test_what_is_scored_is_always_the_same():
    table = word_table(TEXTS, {3})
    once, again = (fixed_neighbours(table, near(), 5) for _ in range(2))
    assert [number for batch in once for number in batch.numbers] == [0, 1, 3]
    assert all(
        torch.equal(a.contexts, b.contexts) and torch.equal(a.words, b.words)
        for a, b in zip(once, again, strict=True)
    )


def test_one_word_has_no_neighbours():
    with pytest.raises(DataError, match="valid: there are no neighbours .* two different words"):
        Neighbourhood.of(np.array([0.0, 4.0]), "valid", context=1, n_negatives=1, threshold=1.0)
