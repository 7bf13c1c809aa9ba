"""The mean of a run's last checkpoints, as a run of its own (Vaswani et al. 2017, section 6.1)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from torch import Tensor

from regard.checkpoints.run_folder import RunFolder, load_config, save_model
from regard.checkpoints.snapshots import Snapshot, SnapshotStore, load_snapshot
from regard.core.errors import CheckpointError, ConfigError
from regard.core.files import write_whole
from regard.core.numbers import counted
from regard.interop.folders import whole_folder
from regard.tasks.base import TASKS
from regard.tasks.recipe import recipe_in, remember_data

PAGE = ".html"
"""What such a file shows was made by other weights."""


def average(
    path: Path, last: int, out: Path, say: Callable[[str], None] = lambda _text: None
) -> list[int]:
    """Write the mean of the ``last`` checkpoints of a run into a new folder; -> their steps.

    Damaged ones are left out, and ``say`` is told of them.

    It is the mean of the weights as they were trained, whatever running average
    (``train.average``) was kept beside them. The folder is a run like any other, without data of
    its training and without scores: ``regard evaluate`` gives those.
    """
    folder = RunFolder(path)
    recipe, config = recipe_in(folder), load_config(folder)
    task = TASKS[recipe.task]
    there, read = _snapshots(folder.checkpoints, say)
    steps = _last_steps(folder, there, last)
    weights = mean_of(map(read, steps))
    with whole_folder(out) as inside:
        mean = RunFolder(inside)
        for name in (folder.settings.name, *task.files):
            if (path / name).exists() and not name.endswith(PAGE):
                shutil.copyfile(path / name, inside / name)
        save_model(mean, config, weights)
        ended = f"the mean of {counted(len(steps), 'checkpoint')} of {path}"
        facts = {"scores": {}, "ended": ended, "averaged": {"run": str(path), "steps": steps}}
        write_whole(mean.scores, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    if recipe.data.is_trusted:
        remember_data(out, recipe.data)
    return steps


def _snapshots(
    folder: Path, say: Callable[[str], None]
) -> tuple[list[int], Callable[[int], tuple[Path, Snapshot]]]:
    """The steps of all whole checkpoints, and how one is read; also where a model lay in parts."""
    if any(one.is_dir() for one in folder.glob("step-*")):
        from regard.checkpoints.sharded import complete_steps, read_snapshot

        return complete_steps(folder), lambda step: (folder, read_snapshot(folder, step))
    store = SnapshotStore(folder)
    return store.whole_steps(say), lambda step: (store.path(step), load_snapshot(store.path(step)))


def mean_of(named: Iterable[tuple[Path, Snapshot]]) -> dict[str, Tensor]:
    """The mean of the weights in some checkpoints, one in memory at a time, in float64.

    What is no floating-point number, such as a count, is the last one's.
    """
    total: dict[str, Tensor] = {}
    last: dict[str, Tensor] = {}
    first, n = Path(), 0
    for path, snapshot in named:
        last, n = snapshot.part("model/"), n + 1
        if n == 1:
            first, total = path, {name: tensor.double() for name, tensor in last.items()}
            continue
        _check_alike(first, total, path, last)
        for name, tensor in last.items():
            total[name] += tensor
    return {
        name: (total[name] / n).to(tensor.dtype) if tensor.is_floating_point() else tensor
        for name, tensor in last.items()
    }


def _check_alike(
    one: Path, ours: Mapping[str, Tensor], other: Path, theirs: Mapping[str, Tensor]
) -> None:
    """Refuse checkpoints of different models."""
    for name in sorted({*ours, *theirs}):
        shapes = [tuple(each[name].shape) if name in each else None for each in (ours, theirs)]
        if shapes[0] != shapes[1]:
            found = " and ".join("missing" if shape is None else str(shape) for shape in shapes)
            raise CheckpointError(
                f"{one} and {other} are of different models: {name} is {found}; leave only "
                "checkpoints of one training"
            )


def _last_steps(folder: RunFolder, steps: Sequence[int], last: int) -> list[int]:
    if last < 1:
        raise ConfigError(f"--last {last}: the mean of at least 1 checkpoint can be taken")
    if not steps and not folder.metrics.exists():
        raise CheckpointError(
            f"{folder.path} was not trained here (it was imported, or is a mean already): it has "
            "no checkpoints to average"
        )
    if len(steps) < last:
        there = f"{counted(len(steps), 'checkpoint')} (steps {', '.join(map(str, steps))})"
        raise ConfigError(
            f"{folder.path} has {there if steps else 'no checkpoints'}, and {last} are to be "
            f"averaged; a training keeps more with train.keep={last}"
            + (f", or take --last {len(steps)}" if steps else "")
        )
    return [*steps[-last:]]
