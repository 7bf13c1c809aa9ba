"""The film of a training: one held-out example, looked at again at every validation.

A frame is what the model wrote and where it looked, with weights in steps of 1/255. Frames are
lines of ``film.jsonl`` in the run's folder, which is always written whole. A film has bounds: where
it would grow too long, the frame goes whose neighbours are nearest, so that the steps stay about
evenly apart.

Looks are taken of a copy of the model, never of the one that is trained: that one may be compiled,
in parts, or between two steps. So filming costs the memory of one more model, two short looks a
validation, and nothing a step; that is why it is done only where it is asked for (``train.film``).
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from torch import nn

from regard.checkpoints.run_folder import (
    RunFolder,
    fill,
    model_tensors,
    save_model,
    save_settings,
)
from regard.core.errors import RegardError
from regard.core.files import write_whole
from regard.tasks.base import TASKS, Prepared
from regard.tasks.film import read_film
from regard.visual.payload import packed

FRAMES = 200
"""Of a film, at most."""
BYTES = 2**24
"""Of a film, at most, so long as it has more than two frames."""
SAID = 300
"""Letters of what the model wrote that are kept: before it has learned to end, it does not."""
CANDIDATES = 50
"""Held-out records among which the example is chosen."""
Scene = Mapping[str, Any]
"""What is looked at again and again: arguments of a task's ``explain``."""


class Film:
    """Is shown the model at validations, and writes the frames."""

    def __init__(self, prepared: Prepared, folder: RunFolder, say: Callable[[str], None]) -> None:
        self._prepared, self._path, self._say = prepared, folder.film, say
        self._lines: dict[int, bytes] | None = None
        """Step -> its frame, once there is one."""
        self._run: Any = None
        self._scene: Scene | None = None

    def __call__(self, step: int, model: nn.Module) -> None:
        """Take a frame of the model as it is at this step.

        Frames of this step and of later ones are those of a training that was killed.
        """
        try:
            frame = self._frame(step, model)
        except RegardError as error:
            self._say(f"the film has no frame of step {step}: {error}")
            return
        if frame is None:
            return
        if self._lines is None:
            kept = (one for one in read_film(self._path) if one["step"] < step)
            self._lines = {one["step"]: _line(one) for one in kept}
        self._lines[step] = _line(frame)
        _shorten(self._lines)
        write_whole(self._path, b"".join(self._lines.values()))

    def _frame(self, step: int, model: nn.Module) -> dict[str, Any] | None:
        """What the model makes of the scene; None where nothing can be looked at."""
        if self._run is None:
            self._run = _copy_of(self._prepared, model)
            self._scene = next(self._scenes(), None)
            if self._scene is None:
                self._say("no film: none of the held-out examples is short enough to look at")
        else:
            fill(self._run.model, model_tensors(model), f"step {step}")
        if self._scene is None:
            return None
        look = self._look(self._scene)
        said = look if "target" not in self._scene else self._look(self._scene, target=None)
        payload = look.payload()
        arrays = {
            name: [packed(layer, bits=8) for layer in layers]
            for name, layers in look.attentions.items()
        }
        return {"step": step, "said": said.answer[:SAID], "look": {**payload, "attentions": arrays}}

    def _look(self, scene: Scene, **changed: Any) -> Any:
        with _without_warnings():
            return TASKS[self._run.task].explain(self._run, **{**scene, **changed})

    def _scenes(self) -> Iterator[Scene]:
        """Those that the run can look at, the longest first."""
        records = list(islice(self._prepared.held_out(), CANDIDATES))
        found = TASKS[self._run.task].scenes(self._run, records)
        for scene in sorted(found, key=lambda one: -len(one["source"])):
            try:
                self._look(scene)
            except RegardError:  # too long for the model, perhaps
                continue
            yield scene


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Inside the block nobody is told that a text was cut off: early in a training all are."""
    logger = logging.getLogger("regard")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _copy_of(prepared: Prepared, model: nn.Module) -> Any:
    """A run with a copy of the model, opened as any run is, from a folder that is gone then."""
    recipe = prepared.recipe
    with tempfile.TemporaryDirectory(prefix="regard-") as path:
        folder = RunFolder(Path(path))
        save_settings(folder, recipe.model_dump(mode="json"))
        save_model(folder, prepared.config, model_tensors(model))
        prepared.save(folder.path)
        return TASKS[recipe.task].load(path, device=str(prepared.device))


def _line(frame: Mapping[str, Any]) -> bytes:
    return (json.dumps(frame, ensure_ascii=False) + "\n").encode()


def _shorten(lines: dict[int, bytes]) -> None:
    """Take out frames until there is room, never the first nor the last."""
    while len(lines) > 2 and (len(lines) > FRAMES or _size(lines) > BYTES):
        steps = list(lines)
        apart = {here: after - before for before, here, after in _neighbours(steps)}
        del lines[min(apart, key=lambda step: apart[step])]


def _neighbours(steps: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    return zip(steps, steps[1:], steps[2:], strict=False)


def _size(lines: Mapping[int, bytes]) -> int:
    return sum(map(len, lines.values()))
