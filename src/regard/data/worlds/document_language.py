"""The language of the world ``documents``: relations, their sentences, and summaries both ways.

People, towns, regions and companies have invented names of two syllables, from closed lists. What
is said of them is a relation: *mira lives in lomwick*. A later sentence may correct an earlier one:
*mira moved to tesburg*. A summary states each relation of its subjects once, and ``stated_facts``
reads from any text what it states in this grammar.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from regard.data.worlds.stable_random import StableRandom

Statement = tuple[str, str, str]
"""Who, which relation, what: ``("mira", "home", "lomwick")``."""


def _names(first: str, last: str = "") -> tuple[str, ...]:
    """All that begin with one of some words and end with one of others, if there are others."""
    return tuple(a + b for a, b in product(first.split(), last.split() or ("",)))


PEOPLE = _names(
    "mi ta lo ke sa ru ne vi do be fa ju hel bran ol ti",
    "ra vo lin den mas rik sel nia gar bet wyn lo tha mo",
)
TOWNS = _names(
    "lom tes kor bir wes ash nor hol gren mel stan rad fen cal thorn",
    "wick burg ford ham dale port by stead field",
)
REGIONS = _names("vel tar mor sol gal ber lan ost rim dun", "mark land shire onia")
COMPANIES = _names("tri pol zen max nov kel arc lux vek dyn", "corp tex rail gas works bank steel")
PROFESSIONS = _names(
    "baker weaver doctor teacher painter sailor farmer lawyer singer writer miner potter smith "
    "tailor nurse judge cook guard pilot printer brewer dancer hunter butcher barber clerk mason "
    "joiner glover tanner plumber gardener porter shepherd builder jeweller chemist poet"
)
THINGS = _names(
    "boat horse garden violin clock lamp mill bakery cottage carpet piano wagon camera telescope "
    "ring painting forest vineyard bicycle sword mirror trumpet kettle goat donkey parrot library "
    "stable tractor hammock cellar balloon compass drum flute harp kite lantern meadow pond"
)
YEARS = tuple(map(str, range(1900, 1960)))


@dataclass(frozen=True, slots=True)
class Relation:
    """What may be said of somebody or something, in which sentences, and what may stand there."""

    values: tuple[str, ...]
    said: tuple[str, ...]
    """Sentences that say it, ``{who}`` and ``{what}`` being one word each."""
    corrected: tuple[str, ...]
    """Sentences that say it against an earlier one."""


RELATIONS: Mapping[str, Relation] = {
    "profession": Relation(
        PROFESSIONS,
        ("{who} is a {what}", "{who} earns money as a {what}"),
        ("in fact {who} is a {what}", "{who} became a {what}"),
    ),
    "birth": Relation(
        YEARS,
        ("{who} was born in {what}", "the birth of {who} was in {what}"),
        ("in fact {who} was born in {what}", "no , the year when {who} was born is {what}"),
    ),
    "property": Relation(
        THINGS,
        ("{who} owns a {what}", "{who} has a {what}"),
        ("in fact {who} owns a {what}", "{who} sold it all and bought a {what}"),
    ),
    "home": Relation(
        TOWNS,
        ("{who} lives in {what}", "the house of {who} stands in {what}"),
        ("in fact {who} lives in {what}", "{who} moved to {what}"),
    ),
    "employer": Relation(
        COMPANIES,
        ("{who} works for {what}", "{who} is paid by {what}"),
        ("in fact {who} works for {what}", "{who} went over to {what}"),
    ),
}
"""Of people."""
PLACES: Mapping[str, Relation] = {
    "home": Relation(
        REGIONS,
        ("{who} lies in {what}", "{who} is a town of {what}"),
        ("in fact {who} lies in {what}", "{who} now belongs to {what}"),
    ),
    "employer": Relation(
        TOWNS,
        ("{who} has its office in {what}", "the office of {who} is in {what}"),
        ("in fact {who} has its office in {what}", "{who} took its office to {what}"),
    ),
}
"""Of a town and of a company, by the relation that leads there: the second hop."""
SECOND = {"home": "region", "employer": "office"}
"""What a relation and the second hop behind it say of somebody, taken together."""
TWO_HOP = frozenset(SECOND.values())
SUMMARY = {
    "profession": "{who} is a {what} .",
    "birth": "{who} was born in {what} .",
    "property": "{who} owns a {what} .",
    "home": "{who} lives in {what} in {second} .",
    "employer": "{who} works for {what} of {second} .",
}
"""A sentence of a summary for each relation of people, in this order."""
_STATED = {
    name: re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>\\w+)", template.removesuffix(" .")))
    for name, template in SUMMARY.items()
}


def summary_words(
    people: Mapping[str, Mapping[str, str]],
) -> Iterator[tuple[str, Statement | None]]:
    """The words of a summary, each with the statement that it completes, if it does.

    ``people`` are what is true of each subject, by relation, second hops included.
    """
    for who, values in people.items():
        for name, template in SUMMARY.items():
            for word in template.split():
                if word == "{what}":
                    yield values[name], (who, name, values[name])
                elif word == "{second}":
                    second = SECOND[name]
                    yield values[second], (who, second, values[second])
                else:
                    yield (who if word == "{who}" else word), None


def stated_facts(text: str) -> set[Statement]:
    """What a text states by sentences of a summary; where it contradicts itself, nothing.

    >>> sorted(stated_facts("mira is a cook. mira lives in lomham in velmark. so be it."))
    [('mira', 'home', 'lomham'), ('mira', 'profession', 'cook'), ('mira', 'region', 'velmark')]
    >>> stated_facts("mira is a cook. mira is a poet.")
    set()
    """
    found: dict[tuple[str, str], set[str]] = {}
    for sentence in text.split("."):
        for name, pattern in _STATED.items():
            if match := pattern.fullmatch(" ".join(sentence.split())):
                said = match.groupdict()
                found.setdefault((said["who"], name), set()).add(said["what"])
                if "second" in said:
                    found.setdefault((said["who"], SECOND[name]), set()).add(said["second"])
    return {(*about, min(values)) for about, values in found.items() if len(values) == 1}


_NOUNS = "dog cat bird bridge market river church school street cart wall tree field road tower"
_ADJECTIVES = "old grey small tall quiet broken green narrow empty dark wet wooden"
_VERBS = "stood waited slept rested shone vanished"
_TIMES = "often once again today yesterday early late"
_FILLER: Sequence[tuple[str, ...]] = (
    ("the", "{adjective}", "{noun}", "{verb}", "near the", "{noun}"),
    ("{time}", "the rain fell on the", "{adjective}", "{noun}"),
    ("nobody knew why the", "{noun}", "{verb}", "so", "{time}"),
    ("{time}", "{person}", "saw a", "{adjective}", "{noun}", "by the", "{noun}"),
    ("{person}", "met", "{person}", "at the", "{adjective}", "{noun}"),
    ("the road to", "{town}", "passed a", "{adjective}", "{noun}"),
    ("people told stories about the", "{noun}", "of", "{town}"),
)
_WORDS: Mapping[str, Sequence[str]] = {
    "{noun}": _NOUNS.split(),
    "{adjective}": _ADJECTIVES.split(),
    "{verb}": _VERBS.split(),
    "{time}": _TIMES.split(),
    "{person}": PEOPLE,
    "{town}": TOWNS,
}


def filler_sentence(draw: StableRandom) -> str:
    """A sentence that states nothing of use, perhaps about a person or a town."""
    parts = draw.one(_FILLER)
    return " ".join(draw.one(_WORDS[part]) if part in _WORDS else part for part in parts)
