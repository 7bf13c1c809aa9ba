import pytest

from regard.core.errors import ConfigError
from regard.data.worlds import toys
from regard.data.worlds.stable_random import StableRandom
from regard.text import words

SIZES = {"n_train": 60, "n_test": 20, "max_symbols": 5, "n_symbols": 4}


class Script(StableRandom):
    """Draws what it was told to, as positions in whatever it is offered."""

    def __init__(self, *positions):
        self._positions = list(positions)

    def one(self, things):
        return things[self._positions.pop(0)]


def test_copy_repeats_and_aligns_straight():
    pair = toys.copy(Script(2, 2, 0, 1), "abc", 5)
    assert (pair.source, pair.target) == ("c a b", "c a b")
    assert pair.alignment == ((0, 0), (1, 1), (2, 2))


def test_reverse_turns_around_and_aligns_crosswise():
    pair = toys.reverse(Script(2, 2, 0, 1), "abc", 5)
    assert (pair.source, pair.target) == ("c a b", "b a c")
    assert pair.alignment == ((0, 2), (1, 1), (2, 0))


def test_sort_orders_and_equal_symbols_keep_their_order():
    pair = toys.sort(Script(3, 2, 0, 2, 0), "abc", 5)
    assert (pair.source, pair.target) == ("c a c a", "a a c c")
    assert pair.alignment == ((0, 2), (1, 0), (2, 3), (3, 1))


def test_recall_asks_for_the_fact_beyond_the_filler():
    # key b, value c, three symbols of filler from a and c
    pair = toys.recall(Script(1, 2, 3, 0, 1, 0), "abc", 5)
    assert (pair.source, pair.target) == ("fact b c a c a ask b", "c")
    assert pair.alignment == ((2, 0),)


def test_recall_never_repeats_its_key_in_the_filler():
    for pair in toys.build_toy("recall", **SIZES)["train"]:
        _, key, value, *filler, _, asked = pair.source.split()
        assert asked == key
        assert key not in filler
        assert pair.target == value


def test_filler_of_every_distance_occurs():
    pairs = toys.build_toy("recall", **SIZES)["train"]
    assert {len(p.source.split()) - 5 for p in pairs} == {0, 1, 2, 3, 4, 5}


@pytest.mark.parametrize("task", toys.TOYS)
def test_splits_have_their_sizes_and_share_no_source(task):
    splits = toys.build_toy(task, **SIZES)
    assert {name: len(pairs) for name, pairs in splits.items()} == {
        "train": 60,
        "valid": 20,
        "test": 20,
    }
    assert len({p.source for pairs in splits.values() for p in pairs}) == 100


@pytest.mark.parametrize("task", toys.TOYS)
def test_same_seed_same_pairs_and_another_seed_others(task):
    assert toys.build_toy(task, seed=1, **SIZES) == toys.build_toy(task, seed=1, **SIZES)
    assert toys.build_toy(task, seed=1, **SIZES) != toys.build_toy(task, seed=2, **SIZES)


@pytest.mark.parametrize("task", ["copy", "reverse", "sort"])
def test_aligned_words_are_equal_and_every_word_is_aligned_once(task):
    for pair in toys.build_toy(task, **SIZES)["train"]:
        source, target = words.split(pair.source), words.split(pair.target)
        assert all(source[i] == target[j] for i, j in pair.alignment)
        assert sorted(i for i, _ in pair.alignment) == list(range(len(source)))
        assert sorted(j for _, j in pair.alignment) == list(range(len(target)))


@pytest.mark.parametrize("task", ["copy", "reverse", "sort"])
def test_lengths_go_from_one_to_the_most(task):
    pairs = toys.build_toy(task, **SIZES)["train"]
    assert {len(p.source.split()) for p in pairs} == {1, 2, 3, 4, 5}


def test_splits_are_alike_in_length_even_when_short_sources_are_few():
    splits = toys.build_toy("copy", n_train=200, n_test=20, max_symbols=5, n_symbols=4)
    short = {name: sum(len(p.source) < 5 for p in pairs) for name, pairs in splits.items()}
    assert short["train"] > short["valid"] + short["test"] > 0


def test_more_symbols_than_letters_are_words_of_two_letters():
    pairs = toys.build_toy("sort", n_train=300, n_test=5, max_symbols=9, n_symbols=40)["train"]
    assert {w for p in pairs for w in p.source.split()} == {
        first + second for first in "ab" for second in "abcdefghijklmnopqrstuvwxyz"
    } - {"b" + second for second in "opqrstuvwxyz"}
    assert all(p.target.split() == sorted(p.source.split()) for p in pairs)


def test_an_unknown_task_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match=r"unknown toy task 'copi' \(did you mean 'copy'\?\)"):
        toys.build_toy("copi")


def test_too_few_possible_sources_are_told_with_the_remedy():
    # 2 + 4 + 8 sources exist
    with pytest.raises(ConfigError, match=r"needs 20 different sources.*about 14 exist.*raise one"):
        toys.build_toy("copy", n_train=10, n_test=5, max_symbols=3, n_symbols=2)


def test_all_impossible_sizes_are_told_at_once():
    with pytest.raises(ConfigError) as told:
        toys.build_toy("copy", n_train=0, n_test=0, max_symbols=0, n_symbols=1)
    for problem in ("n_train=0", "n_test=0", "max_symbols=0", "n_symbols=1 must be at least 2"):
        assert problem in str(told.value)
    with pytest.raises(ConfigError, match="n_symbols=677 must be at most 676"):
        toys.build_toy("copy", n_symbols=677)
