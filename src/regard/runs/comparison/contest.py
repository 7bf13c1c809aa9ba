"""Who competes, on what, and at what cost; and the folder that remembers it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import CheckpointError, ConfigError
from regard.core.files import write_whole
from regard.core.registry import did_you_mean
from regard.data.settings import DataSettings
from regard.data.worlds.registry import WORLDS
from regard.decoding.settings import DecodeSettings
from regard.recipes.recipe import builtin_recipes, load_recipe, overrides_of
from regard.runs.estimate import Budget
from regard.tasks.recipe import SECTIONS, Recipe
from regard.text.settings import TextSettings

SHARED = ("data", "text", "decode")
"""Sections of a recipe that all systems have in common; model and train are a system's own."""
SETTINGS = "settings.yaml"


@dataclass(frozen=True, slots=True)
class Contest:
    """All that decides what a comparison trains."""

    data: str
    """Its name, for people."""
    systems: Mapping[str, Recipe]
    """Equal in the sections that are shared."""
    budget: Budget
    """Of one training: one system with one seed."""
    seeds: tuple[int, ...]


def contest(
    systems: Sequence[str],
    data: str,
    budget: Budget,
    seeds: Sequence[int],
    overrides: Sequence[str] = (),
) -> Contest:
    """Systems are recipes by name or file; ``data`` is a world or such a recipe.

    ``overrides`` change what is shared, or a setting of every system.
    """
    if not systems:
        raise ConfigError("which systems? `regard recipes` lists the built-in ones")
    if not seeds or len(set(seeds)) < len(seeds):
        raise ConfigError(f"seeds must be given and differ, found {tuple(seeds)}")
    shared = _shared(data, overrides_of(SHARED, overrides))
    own = overrides_of(set(SECTIONS) - set(SHARED), overrides)
    recipes: dict[str, Recipe] = {}
    for system in systems:
        name = system_name(system)
        if name in recipes:
            raise ConfigError(f"two systems are called {name!r}; give one of them another name")
        recipe = load_recipe(system, own)
        if recipe.task != "translation":
            raise ConfigError(
                f"{name} is a recipe for {recipe.task}; only translators are compared"
            )
        if recipe.train.init is not None:
            raise ConfigError(
                f"{name} starts from train.init={recipe.train.init!r}, and the others from "
                "nothing; leave it out"
            )
        recipes[name] = recipe.model_copy(update=shared)
    return Contest(system_name(data), recipes, budget, tuple(seeds))


def system_name(system: str) -> str:
    """A recipe's name, without folder and ending."""
    name = Path(system).name
    return name.removesuffix(".yaml").removesuffix(".yml") or name


def claim(out: Path, asked: Contest) -> None:
    """Take a folder for a comparison, or go on with the one in it; any other use is refused.

    What was trained must be what would be trained now. More systems and more seeds only add to it.
    """
    if out.exists() and not out.is_dir():
        raise CheckpointError(f"{out} is a file; choose another --out")
    if RunFolder(out).exists():
        raise CheckpointError(f"{out} holds a run, not a comparison; choose another --out")
    new, old = _settings(asked), _begun(out / SETTINGS)
    changes = list(_changes(old, new))
    if changes:
        raise ConfigError(
            f"{out} was begun with other settings: {'; '.join(changes)}; choose another --out"
        )
    new["systems"] = {**old.get("systems", {}), **new["systems"]}
    write_whole(out / SETTINGS, yaml.safe_dump(new, sort_keys=False, allow_unicode=True))


def _shared(data: str, overrides: Sequence[str]) -> dict[str, Any]:
    """The sections that all systems have in common: a world's, or a recipe's."""
    if data in WORLDS and overrides:
        raise ConfigError(
            f"--set {overrides[0]} changes what all systems share, and the world {data!r} fixes "
            "that; name a recipe with --data"
        )
    if data in WORLDS:
        return {
            "data": DataSettings(world=data),
            "text": TextSettings(kind="word", shared=True),
            "decode": DecodeSettings(beam=1, max_len=64),
        }
    known = builtin_recipes()
    if data not in known and not Path(data).is_file():
        raise ConfigError(
            f"no data {data!r}{did_you_mean(data, [*WORLDS, *known])}: give one of "
            f"{', '.join(WORLDS)}, or a recipe that names your files"
        )
    recipe = load_recipe(data, overrides)
    asked = recipe.data
    if asked.world is None and asked.test is None and asked.hold_out is None:
        raise ConfigError(
            f"{data} has no data.test, and on valid the learning rates are chosen: give a test set"
        )
    return {section: getattr(recipe, section) for section in SHARED}


def _settings(asked: Contest) -> dict[str, Any]:
    """As plain data, a file's."""
    recipes = {name: recipe.model_dump(mode="json") for name, recipe in asked.systems.items()}
    one = next(iter(recipes.values()))
    return {
        "budget": str(asked.budget),
        **{section: one[section] for section in SHARED},
        "systems": {
            name: {key: value for key, value in recipe.items() if key not in SHARED}
            for name, recipe in recipes.items()
        },
    }


def _begun(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        begun = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from None
    if not isinstance(begun, dict) or not isinstance(begun.get("systems"), dict):
        raise CheckpointError(f"{path} is damaged: it holds no settings of a comparison")
    return begun


def _changes(old: Mapping[str, Any], new: Mapping[str, Any], where: str = "") -> Iterable[str]:
    """What both name and do not agree on."""
    for key in [key for key in new if key in old]:
        name = f"{where}{key}"
        if isinstance(new[key], dict) and isinstance(old[key], dict):
            yield from _changes(old[key], new[key], f"{name}.")
        elif old[key] != new[key]:
            yield f"{name} was {old[key]!r} and is now {new[key]!r}"
