"""Phrases that are written in both languages at once.

A word knows the nodes of the abstract phrase that it expresses. Words of the two languages that
express the same node translate each other: the gold alignment is nothing else. *did* and *a* of
*n'a pas traversé* express the auxiliary, *crossed* the auxiliary and the verb.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from regard.data.records import Links, Pair
from regard.data.worlds import inflection, lexicon
from regard.data.worlds.inflection import begins_with_vowel, with_elisions
from regard.data.worlds.lexicon import Adjective, Person

Word = tuple[str, tuple[str, ...]]
"""A form and the names of the nodes it expresses, none for a word without a counterpart."""

Position = tuple[int, int]
"""Where something stands: its English word and its French word, from 0."""

Relation = tuple[str, int, int]
"""Its kind (subject, object, determiner, preposition) and two English words: the one that depends,
and the one that it depends on. A noun depends on its preposition, as in the Stanford scheme."""


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
    links = tuple(
        (i, j)
        for i, (_, en_nodes) in enumerate(en)
        for j, (_, fr_nodes) in enumerate(fr)
        if any(node in fr_nodes for node in en_nodes)
    )
    en_head, fr_head = (
        next(i for i, (_, nodes) in enumerate(words) if head in nodes) for words in (en, fr)
    )
    en_forms = tuple(form for form, _ in en)
    return Phrase(en_forms, tuple(forms), links, (en_head, fr_head), begins_with_vowel(forms[0]))


@cache
def simple(en: str, fr: str) -> Phrase:
    """A phrase of one thought: every word translates every other.

    >>> simple("because", "parce que").links
    ((0, 0), (0, 1))
    """
    return phrase([word(w, "it") for w in en.split()], [word(w, "it") for w in fr.split()], "it")


@cache
def _moved(links: Links, n_en: int, n_fr: int) -> Links:
    """Links of a phrase that is preceded by so many words; few differ, so all sentences share."""
    return tuple((i + n_en, j + n_fr) for i, j in links)


class Draft:
    """A sentence in the making: phrases are added from left to right."""

    __slots__ = ("antecedents", "en", "fr", "links", "relations")

    def __init__(self) -> None:
        self.en: list[str] = []
        self.fr: list[str] = []
        self.links: list[Position] = []
        self.antecedents: list[tuple[Position, Position]] = []
        """(pronoun, head of what it refers to)."""
        self.relations: list[Relation] = []

    def add(self, phrase: Phrase) -> Position:
        """Append a phrase and say where its head has come to stand."""
        n_en, n_fr = len(self.en), len(self.fr)
        if phrase.before_vowel and n_fr:
            self.fr[-1] = inflection.ELIDED.get(self.fr[-1], self.fr[-1])
        self.en += phrase.en
        self.fr += phrase.fr
        self.links += _moved(phrase.links, n_en, n_fr)
        return phrase.head[0] + n_en, phrase.head[1] + n_fr

    def add_led(self, phrase: Phrase) -> None:
        """Append a phrase that may begin with a preposition, which then leads its head."""
        first = len(self.en)
        head, _ = self.add(phrase)
        if head > first:
            self.relations.append(("preposition", head, first))

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


def _finite(verb: Word, negated: bool) -> list[Word]:
    """A French verb with its negation around it."""
    return [word("ne", "not"), verb, word("pas", "not")] if negated else [verb]


@cache
def noun_group(
    noun: lexicon.Noun,
    determiner: lexicon.Determiner,
    plural: bool,
    before: Adjective | None,
    after: Adjective | None,
    negated: bool,
    preposition: lexicon.Preposition | None,
) -> Phrase:
    """*a big red house*: at most one adjective on either side of the French noun.

    ``negated``: it is the direct object of a negated verb, where *un* becomes *de*.
    """
    en = [word(a.en, a.en) for a in (before, after) if a]
    en.append(word(noun.en_plural if plural else noun.en, "noun"))
    article = determiner.en_plural if plural else determiner.en
    if determiner is lexicon.A:
        article = inflection.english_article(en[0][0])
    en.insert(0, word(article, "determiner"))

    form = noun.fr_plural if plural else noun.fr
    fr = [word(form, "noun")]
    if before:
        adjective = before.french(feminine=noun.feminine, plural=plural, next_word=form)
        fr.insert(0, word(adjective, before.en))
    if after:
        fr.append(word(after.french(feminine=noun.feminine, plural=plural), after.en))
    article = determiner.french(feminine=noun.feminine, plural=plural, next_word=fr[0][0])
    if (determiner is lexicon.A and negated) or (determiner is lexicon.SOME and before):
        article = "de"
    fr = [*(word(part, "determiner") for part in article.split()), *fr]
    if preposition:
        en.insert(0, word(preposition[0], "preposition"))
        fr = _led_by(preposition[1], fr)
    return phrase(en, fr, "noun")


def _led_by(preposition: str, group: list[Word]) -> list[Word]:
    """Put a preposition before a group and contract it with the article, unless that is elided."""
    *first, last = [word(part, "preposition") for part in preposition.split()]
    (article, nodes), *rest = group
    one = inflection.CONTRACTED.get((last[0], with_elisions([article, rest[0][0]])[0]))
    return [*first, word(one, "preposition", *nodes), *rest] if one else [*first, last, *group]


@cache
def verb_group(
    verb: lexicon.VerbForms,
    person: Person,
    feminine: bool,
    past: bool,
    negated: bool,
    agreeing_object: tuple[bool, bool] | None,
) -> Phrase:
    """*did not cross*; ``agreeing_object`` is (feminine, plural) of an object that comes before.

    The participle agrees with the subject after *être* and with a preceding object after *avoir*.
    """
    if negated:
        auxiliary = word("did", "auxiliary") if past else word("does" if person == "il" else "do")
        en = [auxiliary, word("not", "not"), word(verb.en, "verb")]
    elif past:
        assert verb.en_past, f"{verb.en} has no past here"
        en = [word(verb.en_past, "auxiliary", "verb")]
    else:
        en = [word(verb.en_third if person == "il" else verb.en, "verb")]

    if past:
        subject = (feminine, person in ("nous", "ils"))
        is_feminine, plural = subject if verb.by_being else agreeing_object or (False, False)
        form = inflection.french_feminine(verb.participle) if is_feminine else verb.participle
        auxiliary = word((_ETRE if verb.by_being else _AVOIR)[person], "auxiliary")
        participle = word(inflection.french_plural(form) if plural else form, "verb")
        fr = [*_finite(auxiliary, negated), participle]
    else:
        fr = _finite(word(verb.fr[person], "verb"), negated)
    if verb.preposition:
        fr.append(word(verb.preposition))
    return phrase(en, fr, "verb")


@cache
def state_group(
    adjective: Adjective,
    degree: str | None,
    person: Person,
    feminine: bool,
    past: bool,
    negated: bool,
) -> Phrase:
    """*was too tired*, *am a student*, in agreement with a subject of this person and gender."""
    plural = person in ("nous", "ils")
    en = [word(_BE[past][person], "be"), *([word("not", "not")] if negated else [])]
    fr = _finite(word((_IMPARFAIT if past else _ETRE)[person], "be"), negated)
    if degree:
        en.append(word(degree, "degree"))
        fr.append(word(_DEGREES[degree], "degree"))
    english = adjective.en
    if adjective.profession and plural:
        english = inflection.english_plural(english)
    elif adjective.profession:
        en.append(word(inflection.english_article(english)))
    en.append(word(english, "adjective"))
    fr.append(word(adjective.french(feminine=feminine, plural=plural), "adjective"))
    return phrase(en, fr, "be")


@cache
def proper_group(noun: lexicon.ProperNoun, preposition: str | None) -> Phrase:
    """*africa*, with its French article, or *in africa*, with the preposition that replaces it."""
    en, fr = [word(noun.en, "noun")], [word(noun.fr, "noun")]
    if preposition:
        en.insert(0, word(preposition, "preposition"))
        fr.insert(0, word(noun.preposition, "preposition"))
    elif noun.article:
        fr.insert(0, word(noun.article))
    return phrase(en, fr, "noun")
