"""Phrases that are written in both languages at once.

A word knows the nodes of the abstract phrase that it expresses. Words of the two languages that
express the same node translate each other: the gold alignment is nothing else. *did* and *a* of
*n'a pas traversé* express the auxiliary, *crossed* the auxiliary and the verb.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from regard.data.records import Links, Pair
from regard.data.worlds.inflection import (
    agreeing,
    begins_with_vowel,
    contracted,
    elided,
    english_article,
    english_plural,
    french_feminine,
    with_elisions,
)
from regard.data.worlds.lexicon import (
    SOME,
    A,
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

Word = tuple[str, tuple[str, ...]]
"""A form and the names of the nodes it expresses, none for a word without a counterpart."""

Position = tuple[int, int]
"""Where something stands: its English word and its French word, from 0."""


def word(form: str, *nodes: str) -> Word:
    """A word and the nodes that it expresses."""
    return form, nodes


@dataclass(frozen=True, slots=True)
class Phrase:
    """A piece of a sentence in both languages; pieces follow each other in the same order."""

    en: tuple[str, ...]
    fr: tuple[str, ...]
    links: Links
    head: Position
    before_vowel: bool
    """Whether a French word before this phrase is elided."""


def phrase(en: Sequence[Word], fr: Sequence[Word], head: str) -> Phrase:
    """Align the words by their nodes and write the elisions; ``head`` names the main node."""
    forms = with_elisions([form for form, _ in fr])
    return Phrase(
        en=tuple(form for form, _ in en),
        fr=tuple(forms),
        links=tuple(
            (i, j)
            for i, (_, en_nodes) in enumerate(en)
            for j, (_, fr_nodes) in enumerate(fr)
            if any(node in fr_nodes for node in en_nodes)
        ),
        head=(_where(en, head), _where(fr, head)),
        before_vowel=begins_with_vowel(forms[0]),
    )


def simple(en: str, fr: str) -> Phrase:
    """A phrase of one thought: every word translates every other.

    >>> simple("because", "parce que").links
    ((0, 0), (0, 1))
    """
    return phrase([word(w, "it") for w in en.split()], [word(w, "it") for w in fr.split()], "it")


def _where(words: Sequence[Word], node: str) -> int:
    return next(i for i, (_, nodes) in enumerate(words) if node in nodes)


@cache
def _moved(links: Links, n_en: int, n_fr: int) -> Links:
    """Links of a phrase that is preceded by so many words; few differ, so all sentences share."""
    return tuple((i + n_en, j + n_fr) for i, j in links)


class Draft:
    """A sentence in the making: phrases are added from left to right."""

    __slots__ = ("antecedents", "en", "fr", "links")

    def __init__(self) -> None:
        self.en: list[str] = []
        self.fr: list[str] = []
        self.links: list[Position] = []
        self.antecedents: list[tuple[Position, Position]] = []
        """(pronoun, head of what it refers to)."""

    def add(self, phrase: Phrase) -> Position:
        """Append a phrase and say where its head has come to stand."""
        n_en, n_fr = len(self.en), len(self.fr)
        if phrase.before_vowel and n_fr:
            self.fr[-1] = elided(self.fr[-1], before_vowel=True)
        self.en += phrase.en
        self.fr += phrase.fr
        self.links += _moved(phrase.links, n_en, n_fr)
        return phrase.head[0] + n_en, phrase.head[1] + n_fr

    def refer(self, pronoun: Position, antecedent: Position) -> None:
        """Note what a pronoun, both already added, refers to."""
        self.antecedents.append((pronoun, antecedent))

    def pair(self, tags: frozenset[str] = frozenset()) -> Pair:
        """The finished example, English to French."""
        return Pair(
            source=" ".join(self.en),
            target=" ".join(self.fr).replace("' ", "'"),
            alignment=tuple(self.links),
            antecedents=tuple((p[0], a[0]) for p, a in self.antecedents),
            target_antecedents=tuple((p[1], a[1]) for p, a in self.antecedents),
            tags=tags,
        )


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
        article = english_article(en[0][0])
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
    one = contracted(last, with_elisions([article, rest[0][0]])[0])
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
    participle = agreeing(
        verb.participle,
        feminine_form=french_feminine(verb.participle),
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
    form = agreeing(
        profession.fr, feminine_form=profession.fr_feminine, is_feminine=feminine, is_plural=plural
    )
    if plural:
        en = [word(english_plural(profession.en), "profession")]
    else:
        en = [word(english_article(profession.en)), word(profession.en, "profession")]
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
