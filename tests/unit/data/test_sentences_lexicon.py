"""Laws of the word lists: nothing has to be guessed."""

import itertools
import unicodedata

import pytest

from regard.data.worlds import lexicon
from regard.data.worlds.drawing import Collocations, withheld_combinations
from regard.data.worlds.lexicon import VerbForms
from regard.data.worlds.stable_random import StableRandom
from regard.text import words

KINDS = {
    "animal": lexicon.ANIMALS,
    "human": lexicon.HUMANS,
    "road": lexicon.ROADS,
    "place": lexicon.PLACES,
    "food": lexicon.FOODS,
    "load": lexicon.LOADS,
    "part": lexicon.PARTS,
}
NOUNS = [noun for several in KINDS.values() for noun in several]
ADJECTIVES = lexicon.DECISIVE + lexicon.NEUTRAL
VERBS = [value for value in vars(lexicon).values() if isinstance(value, VerbForms)]


def one_to_one(entries):
    return len({en for en, _ in entries}) == len({fr for _, fr in entries}) == len(entries)


@pytest.mark.parametrize(
    "entries",
    [
        [(n.en, n.fr) for n in NOUNS],
        [(n.en_plural, (n.fr_plural, n.feminine)) for n in NOUNS],
        [(a.en, a.fr) for a in ADJECTIVES],
        [(v.en, v.fr["il"]) for v in VERBS],
        [(p.en, p.fr) for p in lexicon.LANDS + lexicon.CITIES],
        [(p.en, p.fr) for p in lexicon.PROFESSIONS],
        [(m.en, m.fr) for m in lexicon.MONTHS],
    ],
)
def test_every_word_has_one_counterpart(entries):
    assert one_to_one(entries)


def test_english_shows_the_number_of_every_noun():
    assert all(noun.en != noun.en_plural for noun in NOUNS)


def test_english_shows_the_tense_of_every_verb():
    assert all(verb.en_past not in (verb.en, verb.en_third) for verb in VERBS)


def test_no_verb_of_the_first_person_looks_like_to_be():
    assert all(verb.fr["je"] != "suis" for verb in lexicon.IN_FIRST_PERSON)


@pytest.mark.parametrize("kind", KINDS)
def test_half_the_nouns_of_each_kind_are_feminine(kind):
    several = KINDS[kind]
    assert all(noun.kind == kind for noun in several)
    assert sum(noun.feminine for noun in several) * 2 == len(several)


def test_a_decisive_adjective_fits_the_living_or_the_lifeless_but_never_both():
    living = {"animal", "human"}
    for adjective in lexicon.DECISIVE:
        assert adjective.about <= living or not adjective.about & living, adjective.en


def test_every_form_is_one_lower_case_word_in_composed_letters():
    forms = itertools.chain(
        *((n.en, n.en_plural, n.fr, n.fr_plural) for n in NOUNS),
        *((a.en, a.fr, a.fr_feminine) for a in ADJECTIVES),
        *((v.en, v.en_third, *v.fr.values(), v.participle) for v in VERBS),
    )
    for form in forms:
        assert words.split(form) == [form]
        assert form == unicodedata.normalize("NFC", form.lower())


def test_held_out_combinations_leave_every_noun_and_adjective_most_of_its_partners():
    held_out = withheld_combinations(StableRandom(0))
    known = Collocations(set(held_out))
    assert ("animal", "tired") in {(n.en, a.en) for n, a in held_out}
    assert ("street", "wide") in {(n.en, a.en) for n, a in held_out}
    for noun in NOUNS:
        if noun.kind not in ("human", "part"):
            assert len(known.decisive[noun]) > sum(held is noun for held, _ in held_out)
    for adjective in lexicon.DECISIVE:
        shown = sum(adjective in known.decisive[noun] for noun in NOUNS)
        assert shown > sum(held is adjective for _, held in held_out)


def test_collocations_hold_nothing_that_is_held_out():
    held_out = withheld_combinations(StableRandom(0))
    known = Collocations(set(held_out))
    assert held_out
    for noun, adjective in held_out:
        for menu in (known.decisive, known.stated, known.before, known.after):
            assert adjective not in menu[noun]


def test_an_old_girl_is_not_translated_as_a_spinster():
    known = Collocations(())
    (girl,) = (noun for noun in lexicon.HUMANS if noun.en == "girl")
    (woman,) = (noun for noun in lexicon.HUMANS if noun.en == "woman")
    assert "old" not in {a.en for a in known.before[girl] + known.stated[girl]}
    assert "old" in {a.en for a in known.before[woman]}
