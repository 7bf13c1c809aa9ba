"""The built-in worlds by name, and what kinds of records each has.

A world is made when it is asked for; to know its name and what it has costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from regard.core.errors import ConfigError
from regard.core.registry import Registry
from regard.data.records import Labelled

Splits = Mapping[str, Sequence[Any]]
"""Records by the name of their split: ``train``, ``valid``, ``test`` and perhaps others."""


@dataclass(frozen=True, slots=True)
class WorldRequest:
    """Which world is asked for, and how large."""

    name: str
    direction: str
    size: Mapping[str, int]
    """``seed`` and, where that is said, ``n_train``; of pictures also ``size``, in pixels, and of
    documents ``length``, in words."""
    language: str = "en"
    """Of captions."""


Build = Callable[[WorldRequest], Splits]

RECORDS = {
    "pair": "pairs of source and target",
    "label": "labels",
    "score": "pairs that are alike",
    "text": "texts",
    "texts": "texts, or pairs of them",
    "question": "questions",
    "summary": "documents with summaries",
    "language": "texts to go on from",
    "image_label": "pictures with labels",
    "caption": "pictures with captions",
    "image_question": "questions about pictures",
    "boxes": "pictures with boxes",
}
"""The kinds of records that the built-in tasks learn from; a task of a plug-in may add its own."""


@dataclass(frozen=True, slots=True)
class World:
    """What a world has: how to make its records, by their kind."""

    records: Mapping[str, Build]
    directions: tuple[str, ...] = ()
    """Pairs of languages that it speaks; none where its texts are of no language."""
    plain: bool = False
    """Whether its texts have neither capitals nor signs: then a run that learned them reads what
    people type without them, too."""
    enough: int | None = None
    """Records of ``train`` that tell what it costs to train on more; None: only all of them do."""
    word_kinds: Callable[[str], Mapping[str, frozenset[str]]] | None = None
    """Of one of its languages: which kind of word each is; None where nobody knows."""


WORLDS: Registry[World] = Registry("world")


def world_records(asked: WorldRequest, kind: str) -> Splits:
    """The splits of a world, as records of a kind."""
    check_world(asked.name, kind)
    return WORLDS[asked.name].records[kind](asked)


def check_world(name: str, kind: str, remedy: str = "name files in data.train") -> None:
    """Refuse a world without records of a kind, and say which have them."""
    if kind not in WORLDS[name].records:
        others = [other for other, one in WORLDS.items() if kind in one.records]
        raise ConfigError(
            f"world {name!r} has no {RECORDS.get(kind, kind)}; choose {' or '.join(others)}, or "
            f"{remedy}"
        )


def _sentences(asked: WorldRequest) -> Splits:
    from regard.data.worlds.sentences import build_sentences

    return build_sentences(asked.direction, **asked.size)


def _sentence_texts(asked: WorldRequest) -> Splits:
    return {name: tuple(pair.source for pair in s) for name, s in _sentences(asked).items()}


def _plain_sentences(asked: WorldRequest) -> Splits:
    built = _sentences(asked)
    return {name: [Labelled(pair.source) for pair in built[name]] for name in _ORDINARY}


def _translations(asked: WorldRequest) -> Splits:
    built = _sentences(asked)
    return {name: [Labelled(p.source, p.target) for p in built[name]] for name in _ORDINARY}


def _labelled(asked: WorldRequest) -> Splits:
    from regard.data.worlds.labelled_sentences import build_labelled

    return build_labelled(asked.name, **asked.size)


def _questions(asked: WorldRequest) -> Splits:
    from regard.data.worlds.questions import build_questions

    return build_questions(**asked.size)


def _toy(asked: WorldRequest) -> Splits:
    from regard.data.worlds.toys import build_toy

    return build_toy(asked.name, **asked.size)


def _documents(asked: WorldRequest) -> Splits:
    return _drawn_documents(tuple(sorted(asked.size.items())))


@lru_cache(maxsize=1)  # minutes for the longest, and one training after the other asks for them
def _drawn_documents(size: tuple[tuple[str, Any], ...]) -> Splits:
    from regard.data.worlds.documents import build_documents

    return build_documents(**dict(size))


def _scenes(kind: str) -> Build:
    def build(asked: WorldRequest) -> Splits:
        from regard.data.worlds.scene_records import scene_records

        return scene_records(kind, asked.language, **asked.size)

    return build


def _everything(asked: WorldRequest) -> Splits:
    from regard.data.worlds.prompted import everything, texts_of

    found = everything(asked.direction, **asked.size)
    return {name: texts_of(some, asked.size["seed"]) for name, some in found.items()}


def _word_kinds(language: str) -> Mapping[str, frozenset[str]]:
    from regard.data.worlds.word_kinds import word_kinds

    return word_kinds(language)


EVERYTHING = "everything"
"""The world of tasks that are written as texts to go on from."""
_ORDINARY = ("train", "valid", "test")
_BOTH = ("en-fr", "fr-en")
_OF_SENTENCES: dict[str, Build] = {
    "pair": _sentences,
    "score": _translations,
    "text": _plain_sentences,
    "texts": _translations,
    "language": _sentence_texts,
}
WORLDS.add("sentences")(
    World(_OF_SENTENCES, _BOTH, plain=True, enough=60_000, word_kinds=_word_kinds)
)
for _name in ("copy", "reverse", "sort", "recall"):
    WORLDS.add(_name)(World({"pair": _toy}))
for _name in ("sentiment", "topics"):
    WORLDS.add(_name)(World(dict.fromkeys(("label", "text", "texts"), _labelled), plain=True))
WORLDS.add("questions")(World({"question": _questions}))
WORLDS.add("documents")(World({"summary": _documents}, enough=2_000))
WORLDS.add(EVERYTHING)(World({"language": _everything}, _BOTH))
WORLDS.add("scenes")(
    World({kind: _scenes(kind) for kind in ("image_label", "caption", "image_question", "boxes")})
)
