"""``/api/training``: how a run is trained, or was: its curves, and the film of one example.

All of it is read from the files that a training writes into its folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query

from regard.checkpoints.run_folder import RunFolder
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
    told = _read_once(folder.metrics, lambda path: _told(read_metrics(path), recipe))
    film = _read_once(folder.film, read_film)

    @router.get("", summary="How far the training is, its curves, and the steps of its film.")
    def training() -> dict[str, Any]:
        """``curves`` are SVG; ``steps`` are those of the film's frames."""
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


def _told(lines: Sequence[Mapping[str, Any]], recipe: Recipe) -> dict[str, Any]:
    """What metrics tell: the last step, how much of the training is done, and curves."""
    last: Mapping[str, Any] = lines[-1] if lines else {}
    done, total = last.get(counted_by(recipe.train), 0), ahead(recipe.train)
    logged = [line for line in lines if line["kind"] == "train"]
    every = -(-len(logged) // POINTS) or 1
    shown = [*logged[::every], *(line for line in lines if line["kind"] != "train")]
    return {
        "step": last.get("step", 0),
        "seconds": last.get("seconds", 0.0),
        "share": None if total is None else min(1.0, done / total),
        "curves": learning_curves(shown, recipe, TASKS[recipe.task]) if lines else [],
    }
