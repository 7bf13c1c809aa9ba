"""Worlds of labelled sentences: ``sentiment`` and ``topics``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from regard.core.registry import Registry
from regard.data.draw import Draw
from regard.data.labelled import Labelled
from regard.data.sentences.opinions import Opinions
from regard.data.sentences.topics import Topics

Drawing = Callable[[], tuple[str, str]]
"""Gives a sentence and its label."""

LABELLED_WORLDS: Registry[Callable[[Draw], Drawing]] = Registry("world of labelled sentences")
LABELLED_WORLDS.add("sentiment")(lambda draw: Opinions(draw).draw)
LABELLED_WORLDS.add("topics")(lambda draw: Topics(draw).draw)

N_TEST = 1000
"""Sentences of ``valid``, and of ``test``."""
_PATIENCE = 100  # draws for each sentence that is wanted


def build(
    world: str, *, seed: int = 0, n_train: int = 20_000
) -> Mapping[str, tuple[Labelled, ...]]:
    """``train``, ``valid`` and ``test``, which share no sentence; the same on every machine.

    Where fewer than ``n_train`` sentences seem to exist, there are fewer.
    """
    draw = Draw(seed)
    one = LABELLED_WORLDS[world](draw)
    known: set[str] = set()
    splits: dict[str, tuple[Labelled, ...]] = {}
    for name, n in (("test", N_TEST), ("valid", N_TEST), ("train", n_train)):
        found: list[Labelled] = []
        for _ in range(_PATIENCE * n):
            text, label = one()
            if text not in known:
                known.add(text)
                found.append(Labelled(text, label=label))
            if len(found) == n:
                break
        splits[name] = tuple(found)
    return {name: splits[name] for name in ("train", "valid", "test")}
