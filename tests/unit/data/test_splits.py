import pytest

from regard.core.errors import DataError
from regard.data.records import Pair
from regard.data.splits import hold_out, hold_out_linked


def numbered(n):
    return tuple(Pair(f"source {i}", f"target {i}") for i in range(n))


def test_holding_out_parts_the_pairs_and_keeps_their_order():
    pairs = numbered(50)
    kept, held = hold_out(pairs, 7, seed=0)
    assert len(held) == 7
    assert sorted((*kept, *held), key=pairs.index) == list(pairs)
    assert list(kept) == sorted(kept, key=pairs.index)
    assert list(held) == sorted(held, key=pairs.index)


def test_holding_out_depends_on_seed_and_sources_only():
    pairs = numbered(50)
    held = hold_out(pairs, 7, seed=0)[1]
    assert set(hold_out(pairs[::-1], 7, seed=0)[1]) == set(held)
    assert set(hold_out(pairs, 7, seed=1)[1]) != set(held)


def test_no_source_is_on_both_sides():
    pairs = tuple(Pair(f"source {i % 10}", f"target {i}") for i in range(50))
    for n in (1, 8, 20, 49, 50):
        kept, held = hold_out(pairs, n, seed=3)
        assert kept
        assert held
        assert len(held) <= max(n, 5)
        assert not {pair.source for pair in kept} & {pair.source for pair in held}


def test_one_source_cannot_be_parted():
    with pytest.raises(
        DataError, match=r"only 1 source sentence; give more, or name .*data\.valid"
    ):
        hold_out((Pair("a", "b"), Pair("a", "c")), 1, seed=0)


def test_a_source_that_is_more_than_enough_may_be_held_out_alone():
    pairs = tuple(Pair(f"source {i % 2}", f"target {i}") for i in range(10))
    kept, held = hold_out(pairs, 1, seed=0)
    assert (len(kept), len(held)) == (5, 5)


def linked():
    """200 pairs in which sentences of both languages come again and again."""
    return tuple(
        Pair(f"source {i * i % 61}", f"target {i * i * i % 83}") for i in range(40)
    ) + tuple(Pair(f"source {i // 2}", f"target {i // 3}") for i in range(300, 460))


@pytest.mark.parametrize("n", [1, 12, 30])
def test_no_sentence_of_either_language_is_on_both_sides(n):
    pairs = linked()
    kept, held = hold_out_linked(pairs, n, seed=0)
    assert sorted((*kept, *held), key=pairs.index) == list(pairs)
    assert 0.9 * n <= len(held) <= n
    for side in ("source", "target"):
        assert not {getattr(p, side) for p in kept} & {getattr(p, side) for p in held}


def test_linked_pairs_are_parted_alike_in_any_order_and_either_direction():
    pairs = linked()
    held = set(hold_out_linked(pairs, 30, seed=0)[1])
    assert set(hold_out_linked(pairs[::-1], 30, seed=0)[1]) == held
    reversed_pairs = tuple(pair.reversed() for pair in pairs)
    assert {pair.reversed() for pair in hold_out_linked(reversed_pairs, 30, seed=0)[1]} == held
    assert set(hold_out_linked(pairs, 30, seed=1)[1]) != held


def test_a_large_group_is_no_likelier_to_be_held_out_than_a_small_one():
    alone = tuple(Pair(f"a {i}", f"b {i}") for i in range(1000))
    together = tuple(Pair(f"c {i // 10}", f"d {i}") for i in range(1000))
    held = hold_out_linked(alone + together, 400, seed=0)[1]
    n_together = sum(pair.source.startswith("c") for pair in held)
    assert 100 < n_together < 300  # near a half; by the least hash alone it would be nearly all


def test_pairs_that_hang_together_cannot_be_parted():
    chain = tuple(Pair(f"source {(i + 1) // 2}", f"target {i // 2}") for i in range(20))
    with pytest.raises(DataError) as caught:
        hold_out_linked(chain, 5, seed=0)
    assert str(caught.value) == (
        "cannot hold out 5 of 20 pairs: only 0 leave no sentence on both sides; "
        "lower data.hold_out, or name files in data.valid and data.test"
    )


def test_not_everything_can_be_held_out():
    with pytest.raises(DataError, match="cannot hold out 60 of 50 pairs: only 49"):
        hold_out_linked(numbered(50), 60, seed=0)


def test_any_shared_text_may_link_and_the_smallest_family_is_held_out_at_least():
    mirrored = tuple(p for one in numbered(30) for p in (one, one.reversed()))
    kept, held = hold_out(mirrored, 1, seed=0, linked=True)
    assert (len(kept), len(held)) == (58, 2)
    assert held[0].reversed() == held[1]
    chain = tuple(Pair(f"c {i}", f"c {i + 1}") for i in range(40))
    for seed in range(9):  # whichever comes first
        assert len(hold_out((*chain, Pair("a", "b")), 1, seed=seed, linked=True)[1]) == 1


def test_pairs_that_all_hang_together_are_told():
    chain = tuple(Pair(f"c {i}", f"c {i + 1}") for i in range(40))
    with pytest.raises(DataError, match=r"the 40 pairs hang together.*name files in data\.valid"):
        hold_out(chain, 2, seed=0, linked=True)
