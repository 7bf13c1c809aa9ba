"""The groups that sentences are put together from, remembered because they come again and again."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from regard.data.sentences import english, french
from regard.data.sentences.lexicon import (
    Adjective,
    Determiner,
    Name,
    Noun,
    Person,
    Place,
    Preposition,
    Profession,
    Verb,
)
from regard.data.sentences.nouns import SOME, A
from regard.data.sentences.phrases import Phrase, Word, phrase, simple, word

_BE = {
    False: {"je": "am", "il": "is", "nous": "are", "ils": "are"},
    True: {"je": "was", "il": "was", "nous": "were", "ils": "were"},
}
_ETRE = {"je": "suis", "il": "est", "nous": "sommes", "ils": "sont"}
_IMPARFAIT = {"je": "étais", "il": "était", "nous": "étions", "ils": "étaient"}
_AVOIR = {"je": "ai", "il": "a", "nous": "avons", "ils": "ont"}
_DEGREES = {"too": "trop", "very": "très"}


def _negated_french(verb: Word, *rest: Word) -> list[Word]:
    return [word("ne", "not"), verb, word("pas", "not"), *rest]


@cache
def noun_group(
    noun: Noun,
    determiner: Determiner,
    plural: bool,
    before: Adjective | None,
    after: Adjective | None,
    negated: bool,
    preposition: Preposition | None,
) -> Phrase:
    """*a big red house*: at most one adjective on either side of the French noun.

    ``negated``: it is the direct object of a negated verb, where *un* becomes *de*.
    """
    adjectives = [a for a in (before, after) if a]
    en = [word(a.en, a.en) for a in adjectives]
    en.append(word(noun.en_plural if plural else noun.en, "noun"))
    article = determiner.en_plural if plural else determiner.en
    if determiner is A:
        article = english.article(en[0][0])
    en.insert(0, word(article, "determiner"))
    fr = _french_group(noun, determiner, plural, before, after, negated)
    if preposition:
        en.insert(0, word(preposition.en, "preposition"))
        fr = _led_by(preposition, fr)
    return phrase(en, fr, "noun")


def _french_group(
    noun: Noun,
    determiner: Determiner,
    plural: bool,
    before: Adjective | None,
    after: Adjective | None,
    negated: bool,
) -> list[Word]:
    form = noun.fr_plural if plural else noun.fr
    fr = [word(form, "noun")]
    if before:
        adjective = before.french(feminine=noun.feminine, plural=plural, next_word=form)
        fr.insert(0, word(adjective, before.en))
    if after:
        fr.append(word(after.french(feminine=noun.feminine, plural=plural), after.en))
    article = determiner.french(feminine=noun.feminine, plural=plural, next_word=fr[0][0])
    if (determiner is A and negated) or (determiner is SOME and before):
        article = "de"
    return [*(word(part, "determiner") for part in article.split()), *fr]


def _led_by(preposition: Preposition, group: list[Word]) -> list[Word]:
    """Put a preposition before a group and contract it with the article, unless that is elided."""
    *first, last = preposition.fr
    (article, nodes), *rest = group
    one = french.contracted(last, french.with_elisions([article, rest[0][0]])[0])
    middle = [word(one, "preposition", *nodes)] if one else [word(last, "preposition"), group[0]]
    return [*(word(part, "preposition") for part in first), *middle, *rest]


@cache
def verb_group(
    verb: Verb,
    person: Person,
    feminine: bool,
    past: bool,
    negated: bool,
    agreeing_object: tuple[bool, bool] | None,
) -> Phrase:
    """*did not cross*; ``agreeing_object`` is (feminine, plural) of an object that comes before.

    The participle agrees with the subject after *être* and with a preceding object after *avoir*.
    """
    fr = _french_past(verb, person, feminine, negated, agreeing_object) if past else []
    if not past:
        form = word(verb.fr[person], "verb")
        fr = _negated_french(form) if negated else [form]
    if verb.preposition:
        fr.append(word(verb.preposition))
    return phrase(_english_verb(verb, person, past, negated), fr, "verb")


def _english_verb(verb: Verb, person: Person, past: bool, negated: bool) -> list[Word]:
    third = person == "il"
    if past and negated:
        return [word("did", "auxiliary"), word("not", "not"), word(verb.en, "verb")]
    if negated:
        return [word("does" if third else "do"), word("not", "not"), word(verb.en, "verb")]
    if past:
        assert verb.en_past, f"{verb.en} has no past here"
        return [word(verb.en_past, "auxiliary", "verb")]
    return [word(verb.en_third if third else verb.en, "verb")]


def _french_past(
    verb: Verb,
    person: Person,
    feminine: bool,
    negated: bool,
    agreeing_object: tuple[bool, bool] | None,
) -> list[Word]:
    agreement = (False, False)
    if verb.by_being:
        agreement = (feminine, person in ("nous", "ils"))
    elif agreeing_object:
        agreement = agreeing_object
    participle = french.agreeing(
        verb.participle,
        feminine_form=french.feminine(verb.participle),
        is_feminine=agreement[0],
        is_plural=agreement[1],
    )
    auxiliary = word((_ETRE if verb.by_being else _AVOIR)[person], "auxiliary")
    last = word(participle, "verb")
    return _negated_french(auxiliary, last) if negated else [auxiliary, last]


def _being(
    person: Person, past: bool, negated: bool, en: Iterable[Word], fr: Iterable[Word]
) -> Phrase:
    """*is not* and what follows it."""
    be = word(_BE[past][person], "be")
    copula = word((_IMPARFAIT if past else _ETRE)[person], "be")
    start = [be, word("not", "not")] if negated else [be]
    return phrase([*start, *en], [*(_negated_french(copula) if negated else [copula]), *fr], "be")


@cache
def state_group(
    adjective: Adjective,
    degree: str | None,
    person: Person,
    feminine: bool,
    past: bool,
    negated: bool,
) -> Phrase:
    """*was too tired*, the adjective agreeing with a subject of this person and gender."""
    form = adjective.french(feminine=feminine, plural=person in ("nous", "ils"))
    en, fr = [word(adjective.en, "adjective")], [word(form, "adjective")]
    if degree:
        en.insert(0, word(degree, "degree"))
        fr.insert(0, word(_DEGREES[degree], "degree"))
    return _being(person, past, negated, en, fr)


@cache
def profession_group(
    profession: Profession, person: Person, feminine: bool, past: bool, negated: bool
) -> Phrase:
    """*am a student*: French has no article here."""
    plural = person in ("nous", "ils")
    form = french.agreeing(
        profession.fr,
        feminine_form=profession.fr_feminine,
        is_feminine=feminine,
        is_plural=plural,
    )
    if plural:
        en = [word(english.plural(profession.en), "profession")]
    else:
        en = [word(english.article(profession.en)), word(profession.en, "profession")]
    return _being(person, past, negated, en, [word(form, "profession")])


@cache
def place_group(place: Place, preposition: str | None) -> Phrase:
    """*africa*, with its French article, or *in africa*, with the preposition that replaces it."""
    en, fr = [word(place.en, "place")], [word(place.fr, "place")]
    if preposition:
        en.insert(0, word(preposition, "preposition"))
        fr.insert(0, word(place.preposition, "preposition"))
    elif place.article:
        fr.insert(0, word(place.article))
    return phrase(en, fr, "place")


@cache
def month_group(en: str, fr: str) -> Phrase:
    """*in september*."""
    return phrase(
        [word("in", "in"), word(en, "month")], [word("en", "in"), word(fr, "month")], "month"
    )


BECAUSE = simple("because", "parce que")
AND = simple("and", "et")
WHO = simple("who", "qui")
THAT_DOES = simple("that", "qui")
THAT_IS_DONE_TO = simple("that", "que")
YESTERDAY = simple("yesterday", "hier")
NOW = simple("now", "maintenant")
PRONOUNS = {
    ("i", "je"): simple("i", "je"),
    ("we", "nous"): simple("we", "nous"),
    ("he", "il"): simple("he", "il"),
    ("she", "elle"): simple("she", "elle"),
    ("it", "il"): simple("it", "il"),
    ("it", "elle"): simple("it", "elle"),
    ("they", "ils"): simple("they", "ils"),
    ("they", "elles"): simple("they", "elles"),
}


@cache
def name_group(name: Name) -> Phrase:
    """*john*."""
    return simple(name.text, name.text)
