"""The world ``questions``: short texts of facts, and a question about one of them.

A fact is a sentence that says one thing, written in parts; the answer to each of its questions is
one of them. Which sentences are for training and which for the tests, a hash of the sentence says:
no sentence of a test's texts stands in any text of training.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from regard.data.records import Question
from regard.data.worlds import lexicon
from regard.data.worlds.drawing import Parts
from regard.data.worlds.inflection import english_article
from regard.data.worlds.lexicon import ANIMALS, HUMANS, PLACES, THINGS, Noun, VerbForms
from regard.data.worlds.stable_random import StableRandom

N_TEST = 1000
"""Questions of ``valid``, and of ``test``."""
SIZES = (2, 3)
"""Facts of a text."""
ALIKE = 0.5
"""How many texts have facts of one kind only: there it is not enough to see what is asked for."""
_TENTHS = ("test", "valid", *["train"] * 8)
COLOURS = frozenset({"red", "black", "white", "green", "blue"})
_TRIPS = (lexicon.VISIT, lexicon.LEAVE)


@dataclass(frozen=True, slots=True)
class Thing:
    """Somebody or something that a fact is about."""

    text: str
    head: str
    """The noun or the name: no two facts of a text share one."""
    who: str
    """How it is asked for: *who*, *which animal*, *what*."""
    pronoun: str
    noun: Noun | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence in parts, and its questions: each with the number of the part that answers it."""

    parts: tuple[str, ...]
    heads: frozenset[str]
    asked: tuple[tuple[str, int], ...]

    @property
    def sentence(self) -> str:
        """All parts, without a full stop."""
        return " ".join(self.parts)

    def start(self, part: int) -> int:
        """Where a part begins in the sentence."""
        return sum(len(before) + 1 for before in self.parts[:part])


class Facts(Parts):
    """Draws one fact at a time, of any kind."""

    @property
    def kinds(self) -> tuple[Callable[[], Fact], ...]:
        """Each draws one fact of its kind."""
        return (self._deed, self._colour, self._trade, self._trip, self._errand, self._reasoned)

    def _deed(self) -> Fact:
        """*the old dog crossed the street*."""
        subject, (verb, thing), past = self._subject(), self._done(), self.draw.chance(0.5)
        said = _said(verb, past)
        return Fact(
            (subject.text, said, thing.text),
            frozenset({subject.head, thing.head}),
            (
                (f"{subject.who} {said} {thing.text}?", 0),
                (f"what {_did(past)} {subject.text} {verb.en}?", 2),
            ),
        )

    def _colour(self) -> Fact:
        """*the castle was red*."""
        nouns = self.draw.one((ANIMALS, PLACES, lexicon.LOADS, lexicon.PARTS))
        thing = self._thing(nouns, adorned=0.0)
        assert thing.noun is not None, "nothing with a name has a colour here"
        menu = self.collocations.stated[thing.noun]
        colour = self.draw.one([one for one in menu if one.en in COLOURS])
        be = _is(past=self.draw.chance(0.5))
        return Fact(
            (thing.text, be, colour.en),
            frozenset({thing.head}),
            ((f"what colour {be} {thing.text}?", 2),),
        )

    def _trade(self) -> Fact:
        """*my aunt is a lawyer*."""
        somebody = self._person(lexicon.FAMILY)
        profession = self.draw.one(lexicon.PROFESSIONS).en
        trade = f"{english_article(profession)} {profession}"
        be = _is(past=self.draw.chance(0.4))
        return Fact(
            (somebody.text, be, trade),
            frozenset({somebody.head}),
            ((f"what {be} the job of {somebody.text}?", 2), (f"who {be} {trade}?", 0)),
        )

    def _trip(self) -> Fact:
        """*jane visited africa in september*."""
        draw = self.draw
        somebody, verb, past = self._person(HUMANS), draw.one(_TRIPS), draw.chance(0.5)
        place, month = draw.one(lexicon.LANDS + lexicon.CITIES).en, draw.one(lexicon.MONTHS).en
        said, did = _said(verb, past), _did(past)
        return Fact(
            (somebody.text, said, place, "in", month),
            frozenset({somebody.head, place, month}),
            (
                (f"who {said} {place}?", 0),
                (f"which place {did} {somebody.text} {verb.en}?", 2),
                (f"when {did} {somebody.text} {verb.en} {place}?", 4),
            ),
        )

    def _errand(self) -> Fact:
        """*the frog slept near the church*, *paul danced with my sister*."""
        draw = self.draw
        subject, past = self._subject(), draw.chance(0.5)
        human = subject.who == "who"
        verb = draw.one(lexicon.ALONE + lexicon.PEOPLE_ALONE if human else lexicon.ALONE)
        said, did = _said(verb, past), f"{_did(past)} {subject.text} {verb.en}"
        if draw.chance(0.5):
            other = self._thing(lexicon.FAMILY, adorned=0.0, other_than=subject)
            where: tuple[str, ...] = ("with", other.text)
            asked, answer = f"with whom {did}?", 3
        else:
            other = self._thing(PLACES, adorned=0.0)
            place = f"{draw.one((lexicon.IN, lexicon.NEAR, lexicon.BEHIND))[0]} {other.text}"
            where, asked, answer = (place,), f"where {did}?", 2
        return Fact(
            (subject.text, said, *where),
            frozenset({subject.head, other.head}),
            ((asked, answer), (f"{subject.who} {said} {' '.join(where)}?", 0)),
        )

    def _reasoned(self) -> Fact:
        """*the animal did not cross the street because it was too tired*."""
        draw = self.draw
        subject, (verb, thing), past = self._subject(), self._done(), draw.chance(0.6)
        of_thing = draw.chance(0.5)
        about = thing if of_thing else subject
        fitting = self.collocations.decisive[about.noun or HUMANS[0]]
        state = f"{_is(past)} too {draw.one(fitting).en}"
        did = _did(past)
        why = ("because", f"{about.pronoun} {state}")
        return Fact(
            (subject.text, f"{did} not {verb.en}", thing.text, *why),
            frozenset({subject.head, thing.head}),
            (
                (f"why {did} {subject.text} not {verb.en} {thing.text}?", 4),
                (f"{about.who} {state}?", 2 if of_thing else 0),
                (f"what {did} {subject.text} not {verb.en}?", 2),
            ),
        )

    def _subject(self) -> Thing:
        """Somebody who acts: a person or an animal."""
        return self._person(HUMANS) if self.draw.chance(0.5) else self._thing(ANIMALS)

    def _person(self, nouns: tuple[Noun, ...]) -> Thing:
        """By name or by noun."""
        if self.draw.chance(0.5):
            name = self.draw.one(lexicon.NAMES)
            return Thing(name.text, name.text, "who", "she" if name.feminine else "he")
        return self._thing(nouns)

    def _done(self) -> tuple[VerbForms, Thing]:
        """What may be done, and what to."""
        nouns = self.draw.one(THINGS)
        return self.draw.one(lexicon.ON_THINGS[nouns[0].kind]), self._thing(nouns)

    def _thing(
        self, nouns: tuple[Noun, ...], *, adorned: float = 0.25, other_than: Thing | None = None
    ) -> Thing:
        """By noun."""
        phrase = self.noun_phrase(nouns, plural=False, adorned=adorned, definite=True)
        while other_than is not None and phrase.noun is other_than.noun:
            phrase = self.noun_phrase(nouns, plural=False, adorned=adorned, definite=True)
        noun = phrase.noun
        who = {"human": "who", "animal": "which animal"}.get(noun.kind, "what")
        pronoun = "it" if noun.kind != "human" else "she" if noun.feminine else "he"
        return Thing(" ".join(phrase.group().en), noun.en, who, pronoun, noun)


def _said(verb: VerbForms, past: bool) -> str:
    if not past:
        return verb.en_third
    assert verb.en_past is not None, f"{verb.en} has no past here"
    return verb.en_past


def _did(past: bool) -> str:
    return "did" if past else "does"


def _is(past: bool) -> str:
    return "was" if past else "is"


def build_questions(*, seed: int = 0, n_train: int = 40_000) -> Mapping[str, tuple[Question, ...]]:
    """``train``, ``valid`` and ``test``, which share no sentence; the same on every machine."""
    draw = StableRandom(seed)
    facts = Facts(draw)
    splits: dict[str, tuple[Question, ...]] = {}
    for name, n in (("test", N_TEST), ("valid", N_TEST), ("train", n_train)):
        found: list[Question] = []
        while len(found) < n:
            found += _asked(_text(facts, draw, name, seed), draw)
        splits[name] = tuple(found)
    return {name: splits[name] for name in ("train", "valid", "test")}


def _text(facts: Facts, draw: StableRandom, split: str, seed: int) -> list[Fact]:
    """Facts that may stand together: no two of them are about the same."""
    size = draw.one(SIZES)
    kinds = (draw.one(facts.kinds),) if draw.chance(ALIKE) else facts.kinds
    text: list[Fact] = []
    while len(text) < size:
        fact = draw.one(kinds)()
        apart = not any(fact.heads & one.heads for one in text)
        if apart and _split(fact.sentence, seed) == split:
            text.append(fact)
    return text


def _split(sentence: str, seed: int) -> str:
    number = blake2b(f"{seed} {sentence}".encode(), digest_size=8).digest()
    return _TENTHS[int.from_bytes(number, "big") % len(_TENTHS)]


def _asked(text: Sequence[Fact], draw: StableRandom) -> list[Question]:
    """One question about a text, which only one of its facts answers; none, where there is none."""
    times = Counter(question for fact in text for question, _ in fact.asked)
    about = draw.one(text)
    clear = [(question, part) for question, part in about.asked if times[question] == 1]
    if not clear:
        return []
    question, part = draw.one(clear)
    context = "".join(f"{fact.sentence}. " for fact in text).rstrip()
    before = sum(len(fact.sentence) + 2 for fact in text[: text.index(about)])
    return [Question.of(question, context, (about.parts[part],), before + about.start(part))]
