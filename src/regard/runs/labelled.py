"""The texts that a task of an encoder learns from, whatever they are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regard.core.errors import ConfigError
from regard.data.labelled import Labelled, Wanted, read_labelled_splits
from regard.data.sentences import labelled_world
from regard.data.sentences import world as sentences
from regard.data.sentences.labelled_world import LABELLED_WORLDS
from regard.data.settings import DataSettings
from regard.runs.evaluation import test_sets_of
from regard.runs.splits import split_of

_WORLDS: Mapping[Wanted, tuple[str, ...]] = {
    "label": (*LABELLED_WORLDS,),
    "score": ("sentences",),
    "text": ("sentences", *LABELLED_WORLDS),
}
"""Built-in data that has what is wanted."""


@dataclass(frozen=True, slots=True)
class LabelledData:
    """Splits by name, and what a user should know about how they came about."""

    splits: Mapping[str, Sequence[Labelled]]
    notes: tuple[str, ...] = ()

    @property
    def test_sets(self) -> list[str]:
        """As ``test_sets_of``."""
        return test_sets_of(self.splits)

    def split(self, name: str) -> Sequence[Labelled]:
        """One of them; a wrong name is told."""
        return split_of(self.splits, name)


def load_labelled(settings: DataSettings, wanted: Wanted) -> LabelledData:
    """A built-in world, or files."""
    if settings.world is None:
        corpora = read_labelled_splits(settings, wanted)
        notes = [note for name, corpus in corpora.items() for note in corpus.notes(name)]
        return LabelledData({name: one.examples for name, one in corpora.items()}, tuple(notes))
    world = settings.world
    if world not in _WORLDS[wanted]:
        lacks = {"label": "labels", "score": "pairs that are alike", "text": "texts"}[wanted]
        raise ConfigError(
            f"world {world!r} has no {lacks}; choose {' or '.join(_WORLDS[wanted])}, or name files "
            "in data.train"
        )
    size = {} if settings.n_train is None else {"n_train": settings.n_train}
    if world != "sentences":
        return LabelledData(labelled_world.build(world, seed=settings.world_seed, **size))
    built = sentences.build(settings.direction, seed=settings.world_seed, **size)
    return LabelledData({name: _texts(built, name, wanted) for name in ("train", "valid", "test")})


def _texts(built: sentences.World, split: str, wanted: Wanted) -> list[Labelled]:
    """Sentences and their translations, or sentences alone."""
    pairs = built.splits[split]
    if wanted == "score":
        return [Labelled(pair.source, pair.target) for pair in pairs]
    return [Labelled(pair.source) for pair in pairs]
