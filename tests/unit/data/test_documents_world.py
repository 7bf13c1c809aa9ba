"""Laws of the world ``documents``: gold positions hold the facts, and the last sentence wins."""

import re
from itertools import product

import pytest

from regard.core.errors import ConfigError
from regard.data.settings import DataSettings
from regard.data.splits import load_records
from regard.data.worlds import document_language as language
from regard.data.worlds import documents as documents_world
from regard.data.worlds.document_language import PLACES, RELATIONS, SECOND, TWO_HOP, stated_facts
from regard.data.worlds.documents import build_documents
from regard.data.worlds.stable_random import StableRandom
from regard.text import words

SMALL = {"n_train": 40, "n_test": 9}


@pytest.fixture(scope="module", params=[140, 700])
def splits(request):
    return build_documents(seed=3, length=request.param, **SMALL)


@pytest.fixture
def documents(splits):
    return [document for some in splits.values() for document in some]


def read(source):
    """What a reader finds, the last sentence being right: (who, relation) → (what, span).

    An oracle that shares only the templates with the world.
    """
    known, at = {}, 0
    templates = [
        (
            name,
            re.compile(f"^{template.format(who='(?P<who>[a-z]+)', what='(?P<what>[a-z0-9]+)')}$"),
        )
        for name, relation in [*RELATIONS.items(), *PLACES.items()]
        for template in (*relation.corrected, *relation.said)
    ]
    for sentence in source.removesuffix(".").split(". "):
        n = len(words.split(sentence)) + 1
        spaced = sentence.replace(",", " ,")
        for name, pattern in templates:
            if match := pattern.match(spaced):
                known[match["who"], name] = match["what"], (at, at + n)
                break
        at += n
    return known


def test_a_reader_finds_every_fact_where_the_gold_says(documents):
    for document in documents:
        known = read(document.source)
        for fact in document.facts:
            who, name, what = fact.statement
            if name in TWO_HOP:
                (first,) = (one for one, second in SECOND.items() if second == name)
                between, where = known[who, first]
                found, behind = known[between, first]
                assert (found, (where, behind)) == (what, fact.support)
            else:
                assert known[who, name] == (what, fact.support[0])
                assert len(fact.support) == 1


def test_gold_positions_hold_the_words_of_the_fact(documents):
    for document in documents:
        said, summary = words.split(document.source), words.split(document.target)
        for fact in document.facts:
            who, _, what = fact.statement
            support = [said[position] for position in fact.positions]
            assert {who, what} <= {*support}
            assert support.count(".") == len(fact.support)
            assert [summary[position] for position in fact.stated] == [what]


def test_a_later_sentence_wins(documents):
    """Some facts are said twice, with another value before; the gold is the last of them."""
    n_corrected = 0
    for document in documents:
        for fact in document.facts:
            who, name, what = fact.statement
            if name in TWO_HOP:
                continue
            before = words.join(words.split(document.source)[: fact.support[0][0]])
            n_corrected += read(before).get((who, name), (what,))[0] != what
    assert n_corrected > len(documents) / 3


def _texts(document, fact):
    said = words.split(document.source)
    return [words.join(said[begin:end]) for begin, end in fact.support]


def test_a_two_hop_fact_needs_both_sentences(documents):
    for document in documents:
        two_hop = [fact for fact in document.facts if fact.statement[1] in TWO_HOP]
        assert two_hop
        for fact in two_hop:
            first, second = _texts(document, fact)
            who, _, what = fact.statement
            assert (who in words.split(first), what in words.split(first)) == (True, False)
            assert (who in words.split(second), what in words.split(second)) == (False, True)


def test_the_summary_is_about_the_people_of_the_title_and_states_all_its_facts(documents):
    for document in documents:
        title = document.source.split(".")[0]
        subjects = title.removeprefix("about ").split(" and ")
        assert [*dict.fromkeys(fact.statement[0] for fact in document.facts)] == subjects
        assert stated_facts(document.target) == {fact.statement for fact in document.facts}
        assert len(document.facts) == len(subjects) * (len(RELATIONS) + len(SECOND))


def test_a_document_has_its_length_and_facts_lie_everywhere(splits):
    for name in ("valid", "test"):
        some = splits[name]
        lengths = [len(words.split(document.source)) for document in some]
        assert max(lengths) - min(lengths) <= 12
        thirds = {3 * fact.support[-1][0] // max(lengths) for one in some for fact in one.facts}
        assert thirds == {0, 1, 2}


def test_training_reads_as_many_short_documents_as_long_ones():
    some = build_documents(length=1920, n_train=3000, n_test=1)["train"]
    lengths = [len(words.split(one.source)) for one in some]
    assert 100 <= min(lengths) < max(lengths) <= 1920
    octaves = [(120 * 2**i, 240 * 2**i) for i in range(4)]
    counts = [sum(low < n + 6 <= high for n in lengths) for low, high in octaves]
    assert max(counts) < 1.5 * min(counts)


def test_the_same_seed_gives_the_same_documents_and_another_one_others():
    first, again = (build_documents(seed=5, length=140, **SMALL) for _ in range(2))
    other = build_documents(seed=6, length=140, **SMALL)
    assert {name: first[name] for name in first} == {name: again[name] for name in again}
    assert not {*first["train"]} & {*other["train"]}


def test_test_sets_do_not_depend_on_how_much_is_trained_on():
    few, many = (build_documents(length=140, n_train=n, n_test=9) for n in (3, 30))
    assert few["test"] == many["test"]
    assert many["train"][:3] == few["train"]


def test_splits_share_no_document_and_nobody_is_told_of_alike(splits):
    texts = {name: {one.source for one in some} for name, some in splits.items()}
    told = {name: {one for x in some for one in _people(x)} for name, some in splits.items()}
    for found in (texts, told):
        assert sum(map(len, found.values())) == len(set().union(*found.values()))


def test_what_was_told_in_one_split_is_not_told_in_another(monkeypatch):
    """Even where all of them are drawn by the same choices."""
    monkeypatch.setattr(documents_world, "_stream", lambda seed, split: StableRandom(seed))
    built = build_documents(length=140, n_train=9, n_test=9)
    assert not {*built["train"]} & {*built["valid"]}
    assert not {*built["test"]} & {*built["valid"]}


def _people(document):
    by_who = {}
    for fact in document.facts:
        by_who.setdefault(fact.statement[0], []).append(fact.statement)
    return map(tuple, by_who.values())


def test_shorter_lengths_are_test_sets():
    built = build_documents(length=600, n_train=1, n_test=2)
    assert [*built] == ["train", "valid", "test", "length_500"]
    assert all(488 <= len(words.split(one.source)) <= 500 for one in built["length_500"])


def test_names_are_of_one_kind():
    kinds = [
        getattr(language, kind)
        for kind in "PEOPLE TOWNS REGIONS COMPANIES PROFESSIONS THINGS YEARS".split()
    ]
    for one, other in product(kinds, kinds):
        assert one is other or not {*one} & {*other}
    assert all(len({*kind}) == len(kind) for kind in kinds)
    assert sum(map(len, kinds)) < 800


def test_the_parser_takes_other_words_for_nothing():
    assert stated_facts("mira is a good cook. is a cook. mira lives in a b c. mira owns a cat") == {
        ("mira", "property", "cat")
    }


def test_settings_choose_the_length():
    data = DataSettings(world="documents", document_length=150, n_train=2, world_seed=4)
    found = load_records(data, "summary").splits
    assert found["train"] == build_documents(seed=4, length=150, n_train=2)["train"]


def test_what_is_too_short_or_no_document_is_refused():
    with pytest.raises(ConfigError, match="document_length=119 must be at least 120 words"):
        build_documents(length=119)
    with pytest.raises(ValueError, match="only the world 'documents' draws documents"):
        DataSettings(world="copy", document_length=500)
