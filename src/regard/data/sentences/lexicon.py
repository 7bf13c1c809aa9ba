"""What the words of this world are; which there are, the files beside this one say.

Entries compare by identity, so that the realiser may remember what it did with them. Within one
part of speech every English word has one French counterpart and back: nothing has to be guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.data.sentences import french

Person = Literal["je", "il", "nous", "ils"]
"""Whom a verb agrees with: *i*, one other, *we*, several others."""

Kind = Literal["animal", "human", "road", "place", "food", "load", "part"]
"""What sort of thing a noun names; it decides which verbs and adjectives make sense with it."""


@dataclass(frozen=True, eq=False, slots=True)
class Noun:
    """A common noun. No two numbers of it look alike in English."""

    kind: Kind
    en: str
    en_plural: str
    fr: str
    fr_plural: str
    feminine: bool
    owned: bool = True
    """Whether *my* may precede it: *ma femme* would be my wife, not my woman."""


@dataclass(frozen=True, eq=False, slots=True)
class Adjective:
    """An adjective, with the kinds of nouns that it makes sense with."""

    en: str
    fr: str
    fr_feminine: str
    about: frozenset[Kind]
    before: bool = False
    """Whether it stands before the French noun."""
    before_vowel: str | None = None
    """Masculine singular before a vowel, where it differs: *bel*, *vieil*, *nouvel*."""

    def french(self, *, feminine: bool, plural: bool, next_word: str = "") -> str:
        """The form that agrees with a noun and suits the word after it."""
        if self.before_vowel and next_word and not (feminine or plural):
            return self.before_vowel if french.begins_with_vowel(next_word) else self.fr
        return french.agreeing(
            self.fr, feminine_form=self.fr_feminine, is_feminine=feminine, is_plural=plural
        )


@dataclass(frozen=True, eq=False, slots=True)
class Verb:
    """A verb in the present and, unless it names a lasting state, in the past."""

    en: str
    en_third: str
    en_past: str | None
    """Nothing for states such as *love*, whose French past would be another tense."""
    fr: dict[Person, str]
    participle: str
    by_being: bool = False
    """Whether its past is made with *être*, so that the participle agrees with the subject."""
    preposition: str | None = None
    """A French preposition before what is the direct object in English: *entrer dans*."""


@dataclass(frozen=True, eq=False, slots=True)
class Determiner:
    """An article or its like. A number in which it does not exist has an empty form."""

    en: str
    en_plural: str
    masculine: str
    masculine_vowel: str
    feminine: str
    feminine_vowel: str
    plural: str
    """Several words where French needs them: *beaucoup de*."""

    def french(self, *, feminine: bool, plural: bool, next_word: str) -> str:
        """The form for a noun's gender and number, and for the word that follows."""
        if plural:
            return self.plural
        vowel = french.begins_with_vowel(next_word)
        if feminine:
            return self.feminine_vowel if vowel else self.feminine
        return self.masculine_vowel if vowel else self.masculine


@dataclass(frozen=True, eq=False, slots=True)
class Name:
    """A person's first name, the same in both languages."""

    text: str
    feminine: bool


@dataclass(frozen=True, eq=False, slots=True)
class Place:
    """A continent, a country or a city."""

    en: str
    fr: str
    article: str
    """*le* or *la* (*l'* follows from the spelling); empty for cities."""
    preposition: str
    """French for both *in* and *to*: *en france*, *au canada*, *à paris*."""


@dataclass(frozen=True, eq=False, slots=True)
class Profession:
    """What a person is; French gives it no article."""

    en: str
    fr: str
    fr_feminine: str


@dataclass(frozen=True, eq=False, slots=True)
class Preposition:
    """A preposition before a noun; French ones may end in *de* or *à* and then contract."""

    en: str
    fr: tuple[str, ...]
