"""What is drawn when somebody asks for a run, a recipe or a preset by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.checkpoints.run_folder import RunFolder, load_config
from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean
from regard.core.settings import parse
from regard.models.presets import PRESETS, ModelSettings, presets_for, resolve_for
from regard.recipes.recipe import builtin_recipes, load_recipe, override_setting
from regard.tasks.base import TASKS
from regard.tasks.drawing import draw, run_title
from regard.tasks.recipe import recipe_in
from regard.text.settings import TextSettings
from regard.visual.drawing import Drawing


class Drawn(NamedTuple):
    """A drawing, and what was assumed for it."""

    drawing: Drawing
    assumed: Mapping[str, int]
    """Sizes that only data decide, such as that of the vocabulary; none of a run."""


def drawn(name: str, overrides: Sequence[str] = ()) -> Drawn:
    """The drawing of a run folder, of a recipe or of a preset, with settings overridden.

    Where there are no data yet, a vocabulary is as large as ``text.vocab_size`` lets it be.
    """
    folder = RunFolder(Path(name))
    if folder.exists():
        if overrides:
            raise ConfigError(f"{name} is a run, and what it is cannot be set: leave out --set")
        preset = recipe_in(folder).model.preset
        return Drawn(draw(load_config(folder), run_title(preset, folder.path)), {})
    if name in builtin_recipes() or Path(name).is_file():
        recipe = load_recipe(name, overrides)
        raw = recipe.model_dump(mode="json")
        return _resolved(name, recipe.task, recipe.model, recipe.text, raw)
    if name in PRESETS:
        return _of_preset(name, overrides)
    known = [*builtin_recipes(), *PRESETS]
    raise ConfigError(
        f"{name!r} is not a run folder, a recipe or a preset{did_you_mean(name, known)}; "
        "`regard recipes` and `regard models` list them"
    )


def _of_preset(name: str, overrides: Sequence[str]) -> Drawn:
    """A preset that no recipe is named after, as the first task that takes it would have it."""
    raw: dict[str, Any] = {"model": {"preset": name}}
    for override in overrides:
        override_setting(raw, override)
    task = next(task.name for task in TASKS.values() if name in presets_for(task.config))
    model = parse(ModelSettings, raw["model"], "model")
    text = parse(TextSettings, raw.get("text") or {}, "text")
    return _resolved(name, task, model, text, raw)


def _resolved(
    name: str, task_name: str, model: ModelSettings, text: TextSettings, raw: Mapping[str, Any]
) -> Drawn:
    task = TASKS[task_name]
    sizes = {
        key: text.vocab_size if key.endswith("vocab") and type(size) is int else size
        for key, size in task.stand_ins(raw).items()
    }
    config = resolve_for(task.name, task.config, model, **sizes)
    size = model.size or next(iter(PRESETS[model.preset].sizes))
    title = f"{model.preset} {size}" if name == model.preset else f"{name}: {model.preset} {size}"
    assumed = {key: size for key, size in sizes.items() if type(size) is int}
    return Drawn(draw(config, title), assumed)
