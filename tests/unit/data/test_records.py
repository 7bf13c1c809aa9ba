from regard.data.records import Pair


def test_a_reversed_pair_swaps_all_that_has_a_side():
    pair = Pair(
        source="it slept",
        target="il a dormi",
        alignment=((0, 0), (1, 1), (1, 2)),
        antecedents=((0, 1),),
        target_antecedents=((2, 0),),
        tags=frozenset({"pronoun"}),
    )
    assert pair.reversed() == Pair(
        source="il a dormi",
        target="it slept",
        alignment=((0, 0), (1, 1), (2, 1)),
        antecedents=((2, 0),),
        target_antecedents=((0, 1),),
        tags=frozenset({"pronoun"}),
    )


def test_reversing_twice_changes_nothing():
    pair = Pair("a b", "c d", alignment=((0, 1), (1, 0)), antecedents=((1, 0),))
    assert pair.reversed() != pair
    assert pair.reversed().reversed() == pair


def test_links_are_sorted_by_the_new_source():
    pair = Pair("a b c", "x y", alignment=((0, 1), (1, 0), (2, 1)))
    assert pair.reversed().alignment == ((0, 1), (1, 0), (1, 2))


def test_what_is_unknown_stays_unknown():
    assert Pair("a", "b").reversed() == Pair("b", "a")
