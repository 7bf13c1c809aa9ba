from collections import Counter
from itertools import chain

import numpy as np
import pytest

from regard import lab
from regard.data.word_vectors import write_vectors
from regard.lab.claims import word2vec as module
from regard.lab.claims.word2vec import opposite, scattered
from regard.lab.translators import translator
from regard.layers.embeddings import token_tables

QUICK = {"n_texts": 300, "n_seeds": 2}
TEXTS = [["the", "dog", "sleeps"], ["le", "chien", "dort"], ["a", "dog"]]


@pytest.fixture
def losses(monkeypatch):
    """Of held-out sentences, without a training: ``drawn`` at random, and begun as vectors."""

    def use(drawn, begun):
        monkeypatch.setattr(
            module,
            "_losses",
            lambda _n, _steps, seed, *more: np.array(begun if more else drawn) + 0.01 * seed,
        )

    return use


def test_a_loss_that_falls_in_nearly_all_sentences_is_no_luck(losses):
    losses([2.0, 2.2, 2.4, 2.1], [1.5, 1.9, 2.0, 1.8])
    result = lab.word2vec(**QUICK)
    assert result.verdict
    assert result.numbers["loss saved"] == pytest.approx(0.375)
    assert len(result.numbers["loss by seed: begun as word2vec"]) == 2


@pytest.mark.parametrize("begun", [[2.4, 2.5], [1.0, 2.9]])  # worse; better by luck alone
def test_a_loss_that_rises_or_falls_by_luck_turns_the_verdict(losses, begun):
    losses([2.0, 2.2], begun)
    assert not lab.word2vec(**QUICK).verdict


def test_a_seed_that_saves_nothing_turns_the_verdict(losses, monkeypatch):
    losses([2.0, 2.2], [1.5, 1.9])
    even = module._losses
    monkeypatch.setattr(
        module,
        "_losses",
        lambda n, steps, seed, *more: even(n, steps, seed, *(more if seed == 1 else ())),
    )
    result = lab.word2vec(**QUICK)
    assert not result.verdict
    assert "but not in every seed" in result.finding


@pytest.mark.slow
def test_words_without_company_save_nothing():
    small = {"n_texts": 500, "n_pairs": 200, "steps": 25, "n_seeds": 1}
    told, broken = (lab.word2vec(company=one, **small) for one in (True, False))
    assert not broken.verdict
    assert told.numbers["loss saved"] > broken.numbers["loss saved"]


def test_scattered_texts_have_the_same_words_and_lengths():
    mixed = scattered(TEXTS, seed=1)
    assert [len(text) for text in mixed] == [3, 3, 2]
    assert Counter(chain.from_iterable(mixed)) == Counter(chain.from_iterable(TEXTS))
    assert mixed != TEXTS


def test_the_bootstrap_counts_draws_that_say_the_opposite():
    assert opposite(np.full(20, 0.1)) == pytest.approx(1 / 1001)
    assert opposite(np.full(20, -0.1)) == 1
    assert 0.3 < opposite(np.array([1.0, -1.0] * 50)) < 0.7


def test_a_translator_of_the_lab_begins_as_vectors(tmp_path):
    numbers = np.random.default_rng(0).normal(size=(2, 16)).astype(np.float32)
    write_vectors(tmp_path / "some.txt", ["dog", "chien"], numbers)
    shape = ("d_model=16", "d_ff=16", "n_layers=1", "n_heads=2", "n_train=300", "average=0.0")
    how = ("max_steps=1", "lr=1e-9", f"vectors={tmp_path / 'some.txt'}")
    run, _ = translator("transformer", *shape, *how)
    table = next(iter(token_tables(run.model).values())).weight.detach().numpy()
    (row,) = run.tokenizers.source.encode("dog")
    assert np.corrcoef(table[row], numbers[0])[0, 1] == pytest.approx(1, abs=1e-4)
