from regard.data.records import Pair
from regard.data.worlds.sentences import KnownSentences


def test_what_was_entered_is_new_no_more_in_either_language():
    ledger = KnownSentences()
    assert ledger.is_new([Pair("a", "x")])
    ledger.enter([Pair("a", "x")])
    assert not ledger.is_new([Pair("a", "x")])
    assert not ledger.is_new([Pair("b", "y"), Pair("a", "z")])
    assert not ledger.is_new([Pair("c", "x")])
    assert ledger.is_new([Pair("x", "a")])


def test_the_same_pair_again_is_no_ambiguity():
    ledger = KnownSentences()
    ledger.enter([Pair("a", "x")])
    ledger.is_new([Pair("a", "x")])
    assert ledger.is_clear([Pair("a", "x")])


def test_two_translations_of_one_source_spoil_the_source():
    ledger = KnownSentences()
    ledger.enter([Pair("a", "x"), Pair("b", "y")])
    ledger.is_new([Pair("a", "z")])
    assert not ledger.is_clear([Pair("a", "x")])
    assert ledger.is_clear([Pair("b", "y")])
    assert not ledger.is_clear([Pair("b", "y"), Pair("a", "x")])


def test_two_sources_of_one_translation_spoil_the_translation():
    ledger = KnownSentences()
    ledger.enter([Pair("a", "x"), Pair("b", "y")])
    ledger.is_new([Pair("c", "x")])
    assert not ledger.is_clear([Pair("a", "x")])
    assert ledger.is_clear([Pair("b", "y")])


def test_every_member_of_a_group_is_looked_at():
    ledger = KnownSentences()
    ledger.enter([Pair("a", "x"), Pair("b", "y")])
    ledger.is_new([Pair("a", "x"), Pair("b", "other")])
    assert not ledger.is_clear([Pair("b", "y")])
