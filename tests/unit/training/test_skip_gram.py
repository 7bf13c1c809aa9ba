"""Skip-gram with negative samples, against loops and counts by hand."""

import math

import numpy as np
import pytest
import torch

from regard.core.errors import ConfigError, DataError
from regard.training.skip_gram import (
    kept_shares,
    neighbours,
    noise_shares,
    skip_gram_loss,
    train_vectors,
)


def loss_by_loops(words, near, others):
    total = 0.0
    for w, c, rest in zip(words.tolist(), near.tolist(), others.tolist(), strict=True):
        products = [sum(a * b for a, b in zip(w, x, strict=True)) for x in (c, *rest)]
        right, *wrong = products
        total += math.log(1 + math.exp(-right)) + sum(math.log(1 + math.exp(x)) for x in wrong)
    return total / len(words)


def test_the_loss_is_that_of_the_paper(rng):
    words, near = torch.randn(2, 5, 3, generator=rng, dtype=torch.float64)
    others = torch.randn(5, 4, 3, generator=rng, dtype=torch.float64)
    assert skip_gram_loss(words, near, others).item() == pytest.approx(
        loss_by_loops(words, near, others)
    )


def test_negative_samples_come_by_frequency_to_the_power_of_three_quarters():
    assert noise_shares(np.array([81.0, 16.0, 1.0])) == pytest.approx([27 / 36, 8 / 36, 1 / 36])


def test_frequent_words_are_read_less_often_and_rare_ones_always():
    counts = np.array([90.0, 9.0, 1.0])
    assert kept_shares(counts, 0.1) == pytest.approx([math.sqrt(0.1 / 0.9), 1, 1])


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


def test_a_word_that_is_not_kept_leaves_no_gap():
    kept = np.array([1.0, 0.0, 1.0])
    pairs = neighbours([np.array([0, 1, 2])], kept, 1, np.random.default_rng(0))
    assert sorted(pairs.tolist()) == [[0, 2], [2, 0]]
    assert neighbours([np.array([1, 1])], kept, 1, np.random.default_rng(0)).shape == (0, 2)


def test_words_of_the_same_company_become_alike():
    texts = [["a", x, "b"] for x in ("m", "n")] * 60 + [["c", y, "d"] for y in ("s", "t")] * 60
    words, vectors = train_vectors(
        texts, d_model=8, threshold=1.0, batch=64, lr=0.03, n_epochs=15, seed=1
    )
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    at = {word: unit[words.index(word)] for word in words}
    assert at["m"] @ at["n"] > 0.9
    assert at["s"] @ at["t"] > 0.9
    assert at["m"] @ at["s"] < 0.5


def test_the_same_seed_gives_the_same_vectors_and_touches_no_other_generator():
    state = torch.random.get_rng_state()
    texts = [["a", "b", "c", "a"]] * 20
    first, again, other = (train_vectors(texts, d_model=4, seed=seed) for seed in (1, 1, 2))
    assert first.words == ("a", "b", "c")  # the most frequent first
    assert np.array_equal(first.vectors, again.vectors)
    assert not np.array_equal(first.vectors, other.vectors)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_too_little_is_refused():
    with pytest.raises(DataError, match="two different words"):
        train_vectors([["a", "a"], ["b"]])
    with pytest.raises(ConfigError, match="window must be at least 1, got 0"):
        train_vectors([["a", "b"]], window=0)
    with pytest.raises(ConfigError, match=r"threshold must be above 0, got 0\.0"):
        train_vectors([["a", "b"]], threshold=0.0)
    with pytest.raises(ConfigError, match=r"lr must be above 0, got -0\.1"):
        train_vectors([["a", "b"]], lr=-0.1)
