"""environment.json of a run folder: with what a run was trained, each time that it was started.

Settings say what was asked for; numbers depend on versions, threads and the code of plug-ins, too.
Nothing here decides how a run is loaded: who reads it is told what has changed since.
"""

from __future__ import annotations

import json
import platform
from contextlib import suppress
from typing import Any

import torch

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import CheckpointError
from regard.core.files import damage_told, read_json, write_whole
from regard.core.plugins import loaded_plugins, module_name, plugin_digests


def note_start(
    folder: RunFolder, *, step: int, version: str, device: torch.device, processes: int
) -> None:
    """Add a start at a step to what the folder holds; step 0 begins anew. ``version`` is ours."""
    start = {
        "step": step,
        "regard": version,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": device.type,
        "processes": processes,
        "threads": torch.get_num_threads(),
        "plugins": plugin_digests(),
    }
    earlier: list[dict[str, Any]] = []
    with suppress(CheckpointError):  # told by plugin_changes
        earlier = starts_of(folder) if step else []
    starts = [*earlier, start]
    write_whole(folder.environment, json.dumps({"starts": starts}, indent=2) + "\n")


def starts_of(folder: RunFolder) -> list[dict[str, Any]]:
    """Every start of a run, the first one first; none where an older version trained it."""
    if not folder.environment.exists():
        return []
    with damage_told(folder.environment):
        starts: list[dict[str, Any]] = read_json(folder.environment)["starts"]
        return [dict(one) for one in starts]


def plugin_changes(folder: RunFolder) -> list[str]:
    """A line for each plug-in that is loaded and was another when the run was last trained.

    Where that cannot be read it is told: the weights are none the worse for it.
    """
    try:
        with damage_told(folder.environment):
            trained = dict(starts_of(folder)[-1]["plugins"]) if folder.environment.exists() else {}
    except CheckpointError as error:
        return [f"{error}; whether plug-ins have changed since is not known"]
    now = plugin_digests()
    return [
        f"{name} has changed since this run was trained: {folder.path}"
        for name in loaded_plugins()
        if (module := module_name(name)) in trained and trained[module] != now.get(module)
    ]
