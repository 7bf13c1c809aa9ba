"""The world ``questions``: short texts of facts, and a question about one of them.

Which sentences are for training and which for the tests, a hash of the sentence says: no sentence
of a test's texts stands in any text of training.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b

from regard.data.draw import Draw
from regard.data.questions import Question
from regard.data.sentences.facts import Fact, Facts

QUESTION_WORLD = "questions"
N_TEST = 1000
"""Questions of ``valid``, and of ``test``."""
SIZES = (2, 3)
"""Facts of a text."""
ALIKE = 0.5
"""How many texts have facts of one kind only: there it is not enough to see what is asked for."""
_TENTHS = ("test", "valid", *["train"] * 8)


def build(*, seed: int = 0, n_train: int = 40_000) -> Mapping[str, tuple[Question, ...]]:
    """``train``, ``valid`` and ``test``, which share no sentence; the same on every machine."""
    draw = Draw(seed)
    facts = Facts(draw)
    splits: dict[str, tuple[Question, ...]] = {}
    for name, n in (("test", N_TEST), ("valid", N_TEST), ("train", n_train)):
        found: list[Question] = []
        while len(found) < n:
            found += _asked(_text(facts, draw, name, seed), draw)
        splits[name] = tuple(found)
    return {name: splits[name] for name in ("train", "valid", "test")}


def _text(facts: Facts, draw: Draw, split: str, seed: int) -> list[Fact]:
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


def _asked(text: Sequence[Fact], draw: Draw) -> list[Question]:
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
