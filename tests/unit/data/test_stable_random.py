from collections import Counter

from regard.data.worlds.stable_random import StableRandom


def test_the_same_seed_draws_the_same():
    first, second = StableRandom(7), StableRandom(7)
    assert [first.one("abcdef") for _ in range(9)] == [second.one("abcdef") for _ in range(9)]


def test_draws_are_those_of_every_python():
    draw = StableRandom(0)
    assert [draw.one(range(100)) for _ in range(5)] == [84, 75, 42, 25, 51]
    assert [draw.chance(0.5) for _ in range(5)] == [True, False, True, True, False]


def test_everything_is_drawn_about_equally_often():
    draw = StableRandom(0)
    counts = Counter(draw.one("abcd") for _ in range(4_000))
    assert set(counts) == set("abcd")
    assert all(900 < n < 1_100 for n in counts.values())


def test_chance_is_the_probability_of_true():
    draw = StableRandom(0)
    assert 250 < sum(draw.chance(0.3) for _ in range(1_000)) < 350


def test_shuffling_keeps_everything_and_changes_the_order():
    things = list(range(50))
    shuffled = StableRandom(0).shuffled(things)
    assert sorted(shuffled) == things
    assert shuffled != things
