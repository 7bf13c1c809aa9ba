"""``regard.load``: a run folder as one object, whatever its task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import ConfigError
from regard.tasks.base import TASKS, Verb
from regard.tasks.recipe import recipe_in


def load(path: str | Path, *, device: str | None = None) -> Any:
    """Open a run folder: a ``Run`` that translates, or what its task makes of it.

    Nothing in it is executed.
    """
    return TASKS[recipe_in(RunFolder(Path(path))).task].load(path, device=device)


def load_for(verb: Verb, path: str | Path, *, device: str | None = None) -> Any:
    """Open a run that a verb can be asked of; the verb of any other is named."""
    task = TASKS[recipe_in(RunFolder(Path(path))).task]
    if verb.name not in {one.name for one in task.verbs}:
        raise ConfigError(
            f"{path} holds a run of the task {task.name}, and this needs {verb.wants}; use "
            f"`regard {task.verb.name}` with it"
        )
    return task.load(path, device=device)
