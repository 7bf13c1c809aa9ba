"""Models as drawings, from their configuration: one entry a family, which says what stands where.

A model is built without numbers (on torch's device ``meta``), its modules become blocks, and an
entry of ``DRAWINGS`` arranges them: columns, what goes from one to another, what is repeated. All
titles, shapes and counts are those of the modules (``drawing_parts``). A family that has no entry,
such as a plug-in's, is drawn as its modules in their order.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.models.bounds import skeleton
from regard.models.settings import ModelConfig
from regard.tasks import drawing_pictures, drawing_translators
from regard.tasks.drawing_blocks import DRAWINGS
from regard.tasks.drawing_parts import Sketch
from regard.visual.drawing import Block, Column, Drawing

__all__ = ["DRAWINGS", "draw", "drawing_of", "drawing_of_run", "run_title"]

ENTERED = (drawing_pictures, drawing_translators)
"""Modules that enter drawings when they are imported."""


def draw(config: ModelConfig, title: str) -> Drawing:
    """The drawing of a configuration; no weights are needed."""
    return drawing_of(skeleton(config), title)


def drawing_of(model: Any, title: str) -> Drawing:
    """The drawing of a model, which knows its configuration."""
    family = model.config.family
    arrange = DRAWINGS[family] if family in DRAWINGS else _in_order  # noqa: SIM401 - get() raises
    return arrange(Sketch(model), model.config, title)


def drawing_of_run(run: Any) -> Drawing:
    """The drawing of a loaded run."""
    return drawing_of(run.model, run_title(run.recipe.model.preset, run.folder.path))


def run_title(preset: str, folder: Path) -> str:
    """What the drawing of a run is called."""
    return f"{preset}, {folder.resolve().name}"


def _in_order(sketch: Sketch, config: Any, title: str) -> Drawing:
    """The modules of a model, in the order in which it lists them; nothing is said of the flow."""
    parts = [
        sketch.part(name, name)
        for name, module in sketch.model.named_children()
        if any(True for _ in module.parameters())
    ]
    return sketch.finished(title, [Column(title="Parts", items=tuple(parts), chained=False)])


@DRAWINGS.add("ensemble")
def _ensemble(sketch: Sketch, config: Any, title: str) -> Drawing:
    """Members side by side are too wide to be drawn: each is one block."""
    members = [
        sketch.own(f"members.{i}", f"member {i + 1}: {one.family}", f"members.{i}")
        for i, one in enumerate(config.members)
    ]
    mean = Block(key="mean", title="mean of probabilities", kind="output")
    column = Column(title="Ensemble", items=(*members, mean), chained=False)
    return sketch.finished(title, [column])
