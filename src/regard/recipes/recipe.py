"""Recipes by name, from files, and with settings overridden."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.core.files import read_text
from regard.core.numbers import mentioned
from regard.core.plugins import load_plugins, loaded_plugins, module_name
from regard.core.registry import did_you_mean
from regard.core.settings import parse, setting_hint
from regard.core.yaml_text import MOST_BYTES, parse_yaml
from regard.models.presets import ModelSettings, resolve_for
from regard.recipes.recipe_files import builtin_names, check_there
from regard.tasks.base import TASKS
from regard.tasks.recipe import SECTIONS, Recipe, meant_task, recipe_from, recipe_in
from regard.tasks.rewards import check_objective
from regard.tasks.verb import Verb

_FOR_GPU = "# For a GPU."
"""How the comment of a recipe begins that would take hours on a CPU."""


def load_recipe(named: str | Path | Mapping[str, Any], overrides: Iterable[str] = ()) -> Recipe:
    """A built-in recipe by name, a YAML file, or the sections themselves as a mapping.

    One that has a ``base`` is that recipe with what it says itself put over it. Then
    ``section.key=value`` for each override. Its plug-ins are loaded; those that were loaded
    before become its own, for its run needs them.
    """
    given = isinstance(named, Mapping)
    raw, overrides = plain_data(named) if given else _read(str(named)), [*overrides]
    raw = _on_its_base(raw, () if given else (str(named),), _size_asked(overrides))
    if isinstance(plugins := raw.get("plugins"), list):  # anything else is told with the settings
        load_plugins(one for one in plugins if isinstance(one, str))
    problems: list[str] = []
    for override in overrides:
        with _noting(problems):
            override_setting(raw, override)
    raw |= meant_task(raw)
    with _noting(problems):
        recipe = recipe_from(raw, "the recipe" if given else f"recipe {named}")
    with _noting(problems):
        _check_model(raw)
    if problems:
        raise ConfigError("; ".join(problems))
    check_objective(recipe)
    known = {*map(module_name, recipe.plugins)}
    more = [one for one in loaded_plugins() if module_name(one) not in known]
    return recipe.model_copy(update={"plugins": (*recipe.plugins, *more)})


def recipe_of_run(path: Path, overrides: Iterable[str] = ()) -> Recipe:
    """What the run of a folder was asked for, with settings overridden, to go on with it.

    The plug-ins that it needs must have been loaded, and its data be known here.
    """
    folder = RunFolder(path)
    if not folder.settings.exists():
        raise CheckpointError(f"{path} holds no {folder.settings.name}: name its recipe as well")
    if not recipe_in(folder).data.is_trusted:
        raise DataError(
            f"{path} was not trained here, and its {folder.settings.name} names data outside its "
            f"folder: look at it, then give it as the recipe, {folder.settings}"
        )
    return load_recipe(str(folder.settings), overrides)


def _size_asked(overrides: Iterable[str]) -> str:
    names = (override.partition("=") for override in overrides)
    return next((v for k, _, v in names if k.strip() in ("size", "model.size")), "").strip('" ')


def _on_its_base(raw: dict[str, Any], chain: tuple[str, ...], size: str) -> dict[str, Any]:
    """A recipe in a size, put over the one that it names as ``base``, which may have a base too.

    The base is a built-in recipe or a file, whose name counts from the folder of the recipe that
    says it. ``chain`` are the recipes that led here. Where a ``size`` is asked for, each takes what
    it says under ``sizes`` of that one; a recipe that says its own asks its base for it.
    """
    base, own = raw.get("base"), {key: value for key, value in raw.items() if key != "base"}
    _resize(own, size)
    if "base" not in raw:
        return own
    if not isinstance(base, str):
        raise ConfigError(f"base={base!r}: give the name of a built-in recipe, or a YAML file")
    if base not in builtin_names():
        base = str(Path(chain[-1]).parent / base) if chain else base
        if Path(base).resolve() in {Path(one).resolve() for one in chain}:
            circle = " -> ".join((*chain, base))
            raise ConfigError(f"recipes build on one another in a circle: {circle}")
    try:
        below = _on_its_base(_read(base), (*chain, base), size or _own_size(own))
    except ConfigError as error:
        who = f"recipe {chain[-1]}" if chain else "the recipe"
        raise ConfigError(f"base of {who}: {error}") from None
    some, more = below.get("plugins"), own.get("plugins")
    if isinstance(some, list) and isinstance(more, list):
        own["plugins"] = [*some, *(one for one in more if one not in some)]
    return _put_over(below, own)


def _put_over(below: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in which those of ``own`` go before; sections are mixed, anything else replaced."""
    mixed = {
        key: _put_over(below[key], value)
        for key, value in own.items()
        if isinstance(value, dict) and isinstance(below.get(key), dict)
    }
    return {**below, **own, **mixed}


def _own_size(raw: Mapping[str, Any]) -> str:
    model = raw.get("model")
    return str(model.get("size") or "") if isinstance(model, dict) else ""


def _resize(raw: dict[str, Any], size: str) -> None:
    """Where another size is asked for, take what the recipe says under ``sizes`` of that one."""
    sizes = raw.pop("sizes", {})
    sections = sizes.get(size, {}) if isinstance(sizes, dict) else None
    if not isinstance(sections, dict) or not all(isinstance(x, dict) for x in sections.values()):
        raise ConfigError("the recipe's sizes must be sections of settings by the name of a size")
    for section, settings in sections.items():
        raw[section] = {**(raw.get(section) or {}), **settings}


def _check_model(raw: Mapping[str, Any]) -> None:
    """Whether the task is known, and the model's settings fit together and the task.

    Problems that the sections have by themselves are told elsewhere.
    """
    name = raw.get("task", "translation")
    if not isinstance(name, str):
        return
    if name not in TASKS:
        hint = did_you_mean(name, TASKS)
        raise ConfigError(f"task={name!r}{hint}: known are {', '.join(TASKS)}")
    task = TASKS[name]
    try:
        model = parse(ModelSettings, raw.get("model") or {}, "model")
    except ConfigError:
        return
    resolve_for(task.name, task.config, model, **task.stand_ins(raw))


def recipe_name(recipe: str | Path) -> str:
    """What the run of a recipe is called, where nobody says otherwise: as its file."""
    return Path(recipe).name.removesuffix(".yaml").removesuffix(".yml")


def as_overrides(settings: Mapping[str, Any]) -> list[str]:
    """Settings by name as overrides: what Python says by keywords and a command line by --set.

    >>> as_overrides({"lr": 0.001, "train.compile": False, "windows": ("block", "global")})
    ['lr=0.001', 'train.compile=false', 'windows=["block", "global"]']
    """
    told = {name: plain_data(value) for name, value in settings.items()}
    return [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in told.items()]


def plain_data(given: Any) -> Any:
    """What Python says, as YAML would have it: dicts, lists, numbers, and paths as texts."""
    if isinstance(given, Mapping):
        return {str(key): plain_data(value) for key, value in given.items()}
    if isinstance(given, list | tuple):
        return [plain_data(one) for one in given]
    if isinstance(given, Path):
        return str(given)
    if given is None or isinstance(given, bool | int | float | str):
        return given
    raise ConfigError(
        f"a setting is a number, a text, a list or a mapping, found {type(given).__name__}: "
        f"{given!r:.60}"
    )


def overrides_of(names: Collection[str], overrides: Iterable[str]) -> list[str]:
    """Those of the overrides that change one of these sections, or settings (``section.key``)."""
    found = []
    for override in overrides:
        section, key, _ = _parts(override)
        if section in names or f"{section}.{key}" in names:
            found.append(override)
    return found


@contextmanager
def _noting(problems: list[str]) -> Iterator[None]:
    """Inside the block, what is wrong is noted."""
    try:
        yield
    except ConfigError as error:
        problems.append(str(error))


def builtin_recipes() -> dict[str, str]:
    """The built-in recipes: name -> its first line."""
    folder = files("regard.recipes")
    texts = {name: (folder / f"{name}.yaml").read_text() for name in builtin_names()}
    first = {name: text.partition("\n")[0] for name, text in texts.items()}
    return {name: line.removeprefix("#").strip() for name, line in first.items()}


def recipe_text(name: str) -> str:
    """A recipe as it is written, with its comments: a built-in one, or a YAML file."""
    known = builtin_names()
    check_there(name)
    if name in known:
        return (files("regard.recipes") / f"{name}.yaml").read_text(encoding="utf-8")
    if not (path := Path(name)).is_file():
        hint = did_you_mean(name, known)
        all_of_them = f": neither a file nor one of {', '.join(known)}"
        remedy = f"{hint}; `regard recipes` lists all" if hint else all_of_them
        raise ConfigError(f"no recipe {name!r}{remedy}")
    try:
        return read_text(path, MOST_BYTES)
    except CheckpointError as error:
        raise ConfigError(f"recipe: {error}") from None


@dataclass(frozen=True, slots=True)
class RecipeFacts:
    """What a built-in recipe says of itself."""

    name: str
    headline: str
    task: str
    world: str | None
    """The built-in data; None where it needs a user's files."""
    steps: int
    """That it trains at most."""
    for_gpu: bool


def recipes_by_task() -> dict[str, list[RecipeFacts]]:
    """The built-in recipes of each task.

    Those of built-in worlds come first, and of these the default system's, then the shortest.
    """
    found: dict[str, list[RecipeFacts]] = {}
    for name, headline in builtin_recipes().items():
        text = (files("regard.recipes") / f"{name}.yaml").read_text(encoding="utf-8")
        raw = parse_yaml(text)
        task = meant_task(raw).get("task") or raw.get("task", "translation")
        world, steps = raw["data"].get("world"), raw["train"]["max_steps"]
        facts = RecipeFacts(name, headline, task, world, steps, for_gpu=_FOR_GPU in text)
        found.setdefault(TASKS[task].name, []).append(facts)
    default = ModelSettings.model_fields["preset"].default

    def order(one: RecipeFacts) -> tuple[bool, bool, bool, int, int]:  # names may end in a size
        return one.world is None, one.for_gpu, one.name != default, one.steps, len(one.name)

    return {task: sorted(found[task], key=order) for task in TASKS if task in found}


def recipe_for(verb: Verb) -> str | None:
    """The first built-in recipe whose runs answer a verb; None where there is none."""
    for task, some in recipes_by_task().items():
        if verb.name in {one.name for one in TASKS[task].verbs}:
            return some[0].name
    return None


def recipes_by_preset() -> dict[str, list[str]]:
    """The built-in recipes of each preset; one of the preset's own name first."""
    default = ModelSettings.model_fields["preset"].default
    found: dict[str, list[str]] = {}
    for name in builtin_names():
        text = (files("regard.recipes") / f"{name}.yaml").read_text(encoding="utf-8")
        preset = str((parse_yaml(text).get("model") or {}).get("preset", default))
        found.setdefault(preset, []).append(name)
    return {preset: sorted(some, key=lambda x: x != preset) for preset, some in found.items()}


def _read(name: str) -> dict[str, Any]:
    text = recipe_text(name)
    try:
        raw = parse_yaml(text)
    except ConfigError as error:
        raise ConfigError(f"recipe {name} is not YAML: {error}") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"recipe {name} must have the sections {', '.join(SECTIONS)}")
    return raw


def override_setting(raw: dict[str, Any], override: str) -> None:
    """Change one setting of a recipe that is not checked yet, as ``section.key=value``.

    Sections may lie in sections: ``data.augment.flip=true`` changes one setting of many.
    """
    section, name, value = _parts(override)
    try:
        found = parse_yaml(value)
    except ConfigError:
        raise ConfigError(f"--set {mentioned(override)}: no YAML value") from None
    *outer, key = section, *name.split(".")
    inside = raw
    for i, part in enumerate(outer, start=1):
        there = inside.get(part) or {}
        if not isinstance(there, dict):
            raise ConfigError(f"section {'.'.join(outer[:i])} of the recipe must hold settings")
        inside[part] = {**there}
        inside = inside[part]
    inside[key] = found


def setting_name(override: str) -> str:
    """``section.key`` of what an override changes.

    >>> setting_name("lr=1e-3"), setting_name("model.dropout=0")
    ('train.lr', 'model.dropout')
    """
    section, key, _ = _parts(override)
    return f"{section}.{key}"


def _parts(override: str) -> tuple[str, str, str]:
    """``section.key=value`` or, where only one section has it, ``key=value``."""
    name, equals, value = override.partition("=")
    if not equals:
        raise ConfigError(f"--set takes key=value, got {override!r}")
    section, dot, key = name.strip().partition(".")
    if not dot:
        section, key = _section_of(section), section
    if section not in SECTIONS:
        hint = did_you_mean(section, SECTIONS)
        raise ConfigError(f"no section {section!r}{hint}; known: {', '.join(SECTIONS)}")
    return section, key, value


def _section_of(key: str) -> str:
    keys = {
        section: set(Recipe.model_fields[section].annotation.model_fields)  # type: ignore[union-attr]
        for section in SECTIONS
    }
    keys["model"] = set(ModelSettings.names())
    keys["decode"].discard("seed")  # a bare seed is that of training
    homes = [section for section, inside in keys.items() if key in inside]
    if len(homes) == 1:
        return homes[0]
    if homes:
        choices = " or ".join(f"{section}.{key}" for section in homes)
        raise ConfigError(f"setting {key!r} is in several sections: say {choices}")
    everything = sorted(set().union(*keys.values()))
    raise ConfigError(f"unknown setting {key!r}{setting_hint(key, everything)}")
