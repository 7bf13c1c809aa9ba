"""Questions about a scene: six kinds, each with its answer and the objects each word is about."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import NamedTuple

from regard.data.worlds.scene_language import (
    MOST_OBJECTS,
    RELATION_WORDS,
    Description,
    Word,
    clear_relation,
    english_noun,
    filled,
    noun_phrase,
)
from regard.data.worlds.scene_pixels import COLOURS, SHAPES, Scene, SceneObject
from regard.data.worlds.stable_random import StableRandom
from regard.text.words import join


class SceneQuestion(NamedTuple):
    """A question about a scene, its answer, and the objects each of its words is about."""

    kind: str
    text: str
    answer: str
    about: tuple[tuple[int, ...], ...]


def questions(scene: Scene, seed: int) -> list[SceneQuestion]:
    """One of each kind, of those that the scene allows."""
    draw = StableRandom(seed)
    asked = [ask(scene, draw) for ask in (_is_there, _how_many, _colour, _shape, _where, _more)]
    return [one for one in asked if one is not None]


ANSWERS = ("yes", "no", *(str(n) for n in range(MOST_OBJECTS + 1)), *COLOURS, *SHAPES)


def _asked(
    kind: str, template: str, answer: str, scene: Scene, **said: tuple[str, Description]
) -> SceneQuestion:
    """Slots are filled with a description each; its article is ``a``, ``the``, or none for many."""
    slots = {}
    for name, (article, one) in said.items():
        texts = noun_phrase(one, "en", article) if article else english_noun(one, 2)
        slots[name] = [Word(text, one.among(scene)) for text in texts]
    words = filled(template, "en", slots)
    about = tuple(word.about for word in words)
    return SceneQuestion(kind, join([word.text for word in words]), answer, about)


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def _is_there(scene: Scene, draw: StableRandom) -> SceneQuestion:
    """Half of the answers are no; then something there has the colour, or the shape, or both."""
    one, other = draw.one(scene.objects), draw.one(scene.objects)
    said = Description(one.shape, one.colour)
    if draw.chance(0.5):
        choices = [Description(one.shape, other.colour)]
        choices += [Description(one.shape, colour) for colour in draw.shuffled([*COLOURS])]
        said = next(one for one in choices if not one.among(scene))
    return _asked("is there", "is there {a} ?", _yes(bool(said.among(scene))), scene, a=("a", said))


def _how_many(scene: Scene, draw: StableRandom) -> SceneQuestion:
    one = draw.one(scene.objects)
    absent = Description(draw.one([*SHAPES]))
    choices = (Description(one.shape), Description(colour=one.colour), Description(), absent)
    said = draw.one(choices)
    answer = str(len(said.among(scene)))
    return _asked("how many", "how many {a} are there ?", answer, scene, a=("", said))


def _only(scene: Scene, one: SceneObject, *, without: str) -> Description | None:
    """The shortest description of an object that fits no other and leaves a property out."""
    known = {"shape": one.shape, "colour": one.colour, "big": one.big}
    del known[without]
    names = [name for name in known if name != "big"]
    for some in ((), ("big",)):
        said = Description(**{name: known[name] for name in (*names, *some)})  # type: ignore[arg-type]
        if len(said.among(scene)) == 1:
            return said
    return None


def _unique(
    scene: Scene, draw: StableRandom, *, without: str
) -> Iterator[tuple[SceneObject, Description]]:
    """Objects that a description tells from all others, in an order of chance."""
    for one in draw.shuffled(scene.objects):
        said = _only(scene, one, without=without)
        if said is not None:
            yield one, said


def _colour(scene: Scene, draw: StableRandom) -> SceneQuestion | None:
    for one, said in _unique(scene, draw, without="colour"):
        return _asked("colour", "what colour is {a} ?", one.colour, scene, a=("the", said))
    return None


def _shape(scene: Scene, draw: StableRandom) -> SceneQuestion | None:
    for one, said in _unique(scene, draw, without="shape"):
        return _asked("shape", "what shape is {a} ?", one.shape, scene, a=("the", said))
    return None


def _where(scene: Scene, draw: StableRandom) -> SceneQuestion | None:
    """Half of the answers are no: then it is the other way round."""
    told = [
        (one, Description(one.shape, one.colour))
        for one in draw.shuffled(scene.objects)
        if len(Description(one.shape, one.colour).among(scene)) == 1
    ]
    for (one, a), (other, b) in permutations(told, 2):
        relation = clear_relation(one, other)
        if relation is None:
            continue
        holds = draw.chance(0.5)
        first, second = (a, b) if holds else (b, a)
        template = f"is {{a}} {draw.one(RELATION_WORDS['en'][relation])} {{b}} ?"
        return _asked("relation", template, _yes(holds), scene, a=("the", first), b=("the", second))
    return None


def _more(scene: Scene, draw: StableRandom) -> SceneQuestion:
    """Of two shapes, or of two colours; as many of both is a no, and so is fewer."""
    one, other = draw.one(scene.objects), draw.one(scene.objects)
    a, b = Description(one.shape), Description(other.shape)
    if draw.chance(0.5):
        a, b = Description(colour=one.colour), Description(colour=other.colour)
    n_a, n_b = len(a.among(scene)), len(b.among(scene))
    if a == b or (n_a == n_b and draw.chance(0.6)):
        b = Description(draw.one([shape for shape in SHAPES if shape != a.shape]))
    if draw.chance(0.5):
        a, b = b, a
    holds = len(a.among(scene)) > len(b.among(scene))
    return _asked(
        "compare", "are there more {a} than {b} ?", _yes(holds), scene, a=("", a), b=("", b)
    )
