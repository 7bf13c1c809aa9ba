"""``/api/training``: how a run is trained, or was: its curves, and the film of one example.

All of it is read from the files that a training writes into its folder. They may come from
anybody: where a number is none, curves have a gap, and it is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import CheckpointError
from regard.core.numbers import counted
from regard.evaluation.metrics import METRICS
from regard.runs.progress import ahead, counted_by
from regard.tasks.base import TASKS
from regard.tasks.film import read_film
from regard.tasks.recipe import Recipe
from regard.tasks.report import learning_curves
from regard.training.metrics import read_metrics

POINTS = 300
"""Of a curve that is drawn while a training runs; the report has them all."""
FRAMES_AT_ONCE = 20
"""In one answer."""
T = TypeVar("T")
After = Annotated[int, Query(ge=-1, le=2**53, description="The last step that is known.")]


def training_routes(folder: RunFolder, recipe: Recipe, *, is_over: bool) -> APIRouter:
    """The curves, and the film. Both read files, in a thread beside the model's."""
    router = APIRouter(prefix="/api/training", tags=["look inside"])
    told = _read_once(folder.metrics, lambda path: _told(path, recipe))
    film = _read_once(folder.film, read_film)

    @router.get("", summary="How far the training is, its curves, and the steps of its film.")
    def training() -> dict[str, Any]:
        """``curves`` are SVG; ``steps`` are those of the film's frames; ``notes`` tell trouble."""
        steps = [frame["step"] for frame in film()]
        return {"name": folder.path.resolve().name, "over": is_over, **told(), "steps": steps}

    @router.get("/film", summary="One example, as the model saw it at every validation.")
    def frames(after: After = -1) -> dict[str, Any]:
        """The next frames: ``step``, what the model ``said``, and the ``look``, packed."""
        later = [frame for frame in film() if frame["step"] > after]
        return {"frames": later[:FRAMES_AT_ONCE]}

    return router


def _read_once(path: Path, read: Callable[[Path], T]) -> Callable[[], T]:
    """What ``read`` makes of a file, made again when the file is another."""
    kept: tuple[object, T] | None = None

    def current() -> T:
        nonlocal kept
        found = path.stat() if path.is_file() else None
        stamp = None if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)
        if kept is None or kept[0] != stamp:
            kept = stamp, read(path)
        return kept[1]

    return current


def _told(path: Path, recipe: Recipe) -> dict[str, Any]:
    """What metrics tell: the last step, how much of the training is done, and curves."""
    lines, notes = _read(path)
    done, total = _last(lines, counted_by(recipe.train)), ahead(recipe.train)
    logged = [line for line in lines if line["kind"] == "train"]
    every = -(-len(logged) // POINTS) or 1
    shown = [*logged[::every], *(line for line in lines if line["kind"] != "train")]
    return {
        "step": _last(lines, "step"),
        "seconds": _last(lines, "seconds"),
        "share": None if total is None else min(1.0, done / total),
        "curves": learning_curves(shown, recipe, TASKS[recipe.task]) if lines else [],
        "notes": notes,
    }


def _read(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The lines of metrics, with NaN in the place of what is no number; what is wrong, in words."""
    try:
        found = read_metrics(path)
    except CheckpointError:  # which names the folder
        return [], [f"{path.name} cannot be read: it is too large, or not a text file"]
    names = {*METRICS, "seconds"}
    lines = [
        {key: _number(value) if key in names else value for key, value in line.items()}
        for line in found
    ]
    n = sum(math.isnan(line[key]) for line in lines for key in names & line.keys())
    gaps = f"{path.name} has {counted(n, 'value')} that should be a finite number and is not"
    return lines, [f"{gaps}; curves have gaps there"] if n else []


def _number(value: Any) -> float:
    """A finite number as it is, all else as NaN."""
    return value if type(value) in (int, float) and math.isfinite(value) else math.nan


def _last(lines: Sequence[Mapping[str, Any]], name: str) -> float:
    """The number of that name in the last line that has one; 0 where none has."""
    return next((x for line in reversed(lines) if not math.isnan(x := line.get(name, math.nan))), 0)
