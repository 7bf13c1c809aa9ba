"""The labels of a classifier: which there are, by number, and what they are given to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.errors import CheckpointError
from regard.core.files import write_whole
from regard.data.labelled import Labelled

LABELS = "labels.json"


@dataclass(frozen=True, slots=True)
class Labels:
    """Names in the order of their numbers."""

    names: tuple[str, ...]
    pairs: bool | None
    """Whether two texts together have a label; None where nobody told, and both are taken."""

    @classmethod
    def of(cls, examples: Iterable[Labelled]) -> Labels:
        """Those that training shows, in sorted order."""
        known, pairs = set(), False
        for one in examples:
            assert one.label is not None, "these examples were read without labels"
            known.add(one.label)
            pairs = one.other is not None
        return cls(tuple(sorted(known)), pairs)

    @property
    def numbers(self) -> Mapping[str, int]:
        """Name -> number."""
        return {name: number for number, name in enumerate(self.names)}

    def save(self, folder: Path) -> None:
        """Write labels.json."""
        facts = {"labels": list(self.names), "pairs": self.pairs}
        write_whole(folder / LABELS, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")


def load_labels(folder: Path) -> Labels:
    """What ``save`` wrote."""
    path = folder / LABELS
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError):
        facts = None
    known = facts if isinstance(facts, dict) else {}
    names, pairs = known.get("labels"), known.get("pairs", "untold")
    if names is None or not _are_names(names) or not (pairs is None or isinstance(pairs, bool)):
        raise CheckpointError(
            f'{path} is damaged: it holds no labels; expected {{"labels": ["…", "…"], "pairs": '
            "true, false or null}, no label twice"
        )
    return Labels(tuple(names), pairs)


def _are_names(names: Any) -> bool:
    strings = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return strings and len({*names}) == len(names) > 0
