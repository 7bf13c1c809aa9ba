"""Which verb of the command line a run is for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from regard.core.errors import ConfigError
from regard.models.settings import TaskName

VERBS: Mapping[TaskName, str] = {
    "translation": "translate",
    "language": "generate",
    "classification": "classify",
    "similarity": "embed",
    "masked": "fill",
    "answers": "answer",
}


def check_task(path: Path, found: TaskName, wanted: TaskName, called: str) -> None:
    """Refuse a run of another task, and name the verb that it is for."""
    if found == wanted:
        return
    verb = VERBS.get(found)
    remedy = "" if verb is None else f"; use `regard {verb}` with it"
    raise ConfigError(f"{path} holds a run of the task {found}, and this needs {called}{remedy}")
