"""How well vectors of pairs agree with what is known of them; and what can be learned from."""

import numpy as np
import pytest
import torch
from encoders import settings, texts

from regard.core.errors import ConfigError
from regard.runs.prepare import prepare
from regard.tasks import similarity as embedder
from regard.tasks.recipe import recipe_from
from regard.tasks.similarity import agreement

CPU = torch.device("cpu")


def units(n, d, seed):
    found = np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def test_another_text_that_says_the_same_is_as_good_as_the_partner():
    vectors = np.eye(4, dtype=np.float32)[[0, 0, 1, 1]]
    assert agreement(vectors, vectors, ["a", "a", "b", "b"], []) == {"accuracy": 1.0}
    assert agreement(vectors, vectors, ["a", "b", "c", "d"], []) == {"accuracy": 0.5}


def test_vectors_that_are_all_alike_find_nothing():
    same = np.ones((8, 2), np.float32)
    assert agreement(same, same, list("abcdefgh"), []) == {"accuracy": 1 / 8}


def test_some_rows_at_a_time_find_what_all_at_once_would(monkeypatch):
    first, second = units(50, 4, 0), units(50, 4, 1)
    second[::2] = first[::2]
    others = [str(i) for i in range(50)]
    right = sum(max(range(50), key=lambda j: first[i] @ second[j]) == i for i in range(50))
    for rows in (7, 50, 1024):
        monkeypatch.setattr(embedder, "ROWS", rows)
        assert agreement(first, second, others, []) == {"accuracy": right / 50}


@pytest.mark.parametrize("scores", [[0.5], [0.5, 0.5, 0.5]])
def test_where_scores_do_not_differ_there_is_nothing_to_tell(scores):
    vectors = units(len(scores), 3, 0)
    assert agreement(vectors, vectors[::-1], ["a"] * len(scores), scores) == {}


def test_cosines_that_do_not_differ_tell_nothing():
    same = np.ones((3, 2), np.float32)
    found = agreement(same, same, ["a"] * 3, [1.0, 2.0, 3.0])
    assert found == {"spearman": 0.0, "pearson": 0.0}


def pairs(n, seed, score=""):
    both = zip(texts(n, seed), texts(n, seed + 9), strict=True)
    return "".join(f"{a}\t{b}{score}\n" for a, b in both)


def test_scores_that_do_not_differ_are_told_before_training(tmp_path):
    raw = settings("similarity", tmp_path, lambda n, seed: pairs(n, seed, "\t3"))
    asked = recipe_from(raw)
    prepared = prepare(asked, CPU)
    assert "valid: all pairs have the same score, so there is no correlation to tell" in (
        prepared.notes
    )
    assert set(prepared.validation()(prepared.model.eval())) == {"loss"}


def test_one_pair_a_batch_cannot_be_told_apart(tmp_path):
    raw = settings("similarity", tmp_path, pairs, train={"batch_tokens": 2})
    with pytest.raises(ConfigError, match=r"batch_tokens=2 leaves one pair a batch.*raise it"):
        prepare(recipe_from(raw), CPU)
    raw = settings(
        "similarity", tmp_path, lambda n, s: pairs(n, s, f"\t{s}"), train={"batch_tokens": 2}
    )
    prepare(recipe_from(raw), CPU)  # with scores, each pair teaches something


def test_some_pairs_that_are_alone_in_their_batch_are_told(tmp_path):
    def some(n, seed):
        return pairs(n, seed) + "a b c d e f g\tb c d e f g h\n"

    raw = settings("similarity", tmp_path, some, train={"batch_tokens": 10})
    notes = "\n".join(prepare(recipe_from(raw), CPU).notes)
    assert "batches hold one pair, which teaches nothing; raise train.batch_tokens" in notes
    raw = settings("similarity", tmp_path, pairs, n=400, train={"batch_tokens": 2000})
    assert "one pair" not in "\n".join(prepare(recipe_from(raw), CPU).notes)
