"""Systems side by side on the same data and budget: ``regard compare``.

What is trained of a system is in ``regard.runs.trainings``; what came of it becomes rows and files
in ``regard.runs.comparison``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import CheckpointError, ConfigError, RegardError, TrainingError
from regard.core.files import write_whole
from regard.core.registry import did_you_mean
from regard.core.settings import parse
from regard.core.yaml_text import read_yaml
from regard.data.settings import DataSettings
from regard.data.splits import load_records
from regard.data.worlds.registry import WORLDS
from regard.decoding.settings import DecodeSettings
from regard.models.presets import resolve_for
from regard.recipes.recipe import builtin_recipes, load_recipe, override_setting, overrides_of
from regard.runs import comparison as results
from regard.runs.claims import MAY_CHANGE, settings_changes
from regard.runs.comparison import Comparison, SystemRow
from regard.runs.estimate import Budget, parse_budget
from regard.runs.side_by_side import ALONE, Crew, Line, train_side_by_side
from regard.runs.trainings import Entry, SystemTrainings, Watching, untold, unwatched
from regard.tasks.base import TASKS
from regard.tasks.opening import pick_device
from regard.tasks.recipe import SECTIONS, Recipe
from regard.text.settings import TextSettings

SHARED = ("data", "text", "decode")
"""Sections of a recipe that all systems have in common; model and train are a system's own."""
SPLITS = (results.SPLIT, "long")
"""What is translated where the data has it; ``long`` only counts in the scores by length."""

RULES = 2
"""How FLOPs are counted and rates are chosen; trainings of other rules don't stand side by side."""
DECIDED = {*MAY_CHANGE, "lr", "seed", "init"}
"""Settings of ``train`` in which systems do not differ: the comparison decides them, or they change
no step."""
COMPARED = {"score", "family"}
"""Settings of a model that are its name."""


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


def differences(systems: Mapping[str, Recipe]) -> dict[str, list[Any]]:
    """Settings in which systems differ beside their names and scores -> the value of each system.

    Of models of one preset, every setting counts; those of others are other models, of which only
    dropout can be laid side by side.
    """
    trained = [recipe.train.model_dump(mode="json") for recipe in systems.values()]
    built = [_built(recipe) for recipe in systems.values()]
    names = set.intersection(*map(set, built)) - COMPARED
    if len({recipe.model.preset for recipe in systems.values()}) > 1:
        names &= {"dropout"}
    found = {f"train.{name}": [one[name] for one in trained] for name in trained[0]}
    found = {name: x for name, x in found.items() if name.removeprefix("train.") not in DECIDED}
    found |= {f"model.{name}": [one[name] for one in built] for name in built[0] if name in names}
    return {name: values for name, values in found.items() if values != values[:1] * len(values)}


def _built(recipe: Recipe) -> dict[str, Any]:
    """A model's whole configuration, as plain data; sizes that the data decides stand in."""
    task = TASKS[recipe.task]
    stand_ins = task.stand_ins(recipe.model_dump(mode="json"))
    return resolve_for(task.name, task.config, recipe.model, **stand_ins).model_dump(mode="json")


def claim(out: Path, asked: Contest) -> None:
    """Take a folder for a comparison, or go on with the one in it; any other use is refused.

    What was trained must be what would be trained now. More systems and more seeds only add to it.
    """
    if out.exists() and not out.is_dir():
        raise CheckpointError(f"{out} is a file; choose another --out")
    if RunFolder(out).exists():
        raise CheckpointError(f"{out} holds a run, not a comparison; choose another --out")
    new, old = _settings(asked), _begun(out / results.SETTINGS)
    if old and old.get("rules") != RULES:
        raise ConfigError(
            f"{out} was begun by a version that counts FLOPs or chooses rates otherwise; choose "
            "another --out"
        )
    if changes := list(settings_changes(old, new, depth=3)):  # systems, a name, a section
        raise ConfigError(
            f"{out} was begun with other settings: {'; '.join(changes)}; choose another --out"
        )
    new["systems"] = {**old.get("systems", {}), **new["systems"]}
    write_whole(out / results.SETTINGS, yaml.safe_dump(new, sort_keys=False, allow_unicode=True))


def _shared(data: str, overrides: Sequence[str]) -> dict[str, Any]:
    """The sections that all systems have in common: a world's, or a recipe's."""
    if data in WORLDS:
        return _of_world(data, overrides)
    known = builtin_recipes()
    if data not in known and not Path(data).is_file():
        raise ConfigError(
            f"no data {data!r}{did_you_mean(data, [*WORLDS, *known])}: give one of "
            f"{', '.join(WORLDS)}, or a recipe that names your files"
        )
    recipe = load_recipe(data, overrides)
    check_tested(data, recipe)
    return {section: getattr(recipe, section) for section in SHARED}


def _of_world(world: str, overrides: Sequence[str]) -> dict[str, Any]:
    raw: dict[str, Any] = {
        "data": {"world": world},
        "text": {"kind": "word", "shared": True},
        "decode": {"beam": 1, "max_len": 64},
    }
    check_one_world(world, overrides)
    for override in overrides:
        override_setting(raw, override)
    kinds: dict[str, type[BaseModel]] = {
        "data": DataSettings,
        "text": TextSettings,
        "decode": DecodeSettings,
    }
    return {section: parse(kind, raw[section], section) for section, kind in kinds.items()}


def check_one_world(named: str, overrides: Sequence[str]) -> None:
    """Refuse settings that put another world under the name of one."""
    if any(one.partition("=")[0].strip() in ("world", "data.world") for one in overrides):
        raise ConfigError(f"--data names the world {named!r}: leave out --set data.world")


def check_tested(data: str, recipe: Recipe) -> None:
    """Refuse data without a test set."""
    asked = recipe.data
    if asked.world is None and asked.test is None and asked.hold_out is None:
        raise ConfigError(
            f"{data} has no data.test, and on valid the learning rates are chosen: give a test set"
        )


def _settings(asked: Contest) -> dict[str, Any]:
    """As plain data, a file's."""
    recipes = {name: recipe.model_dump(mode="json") for name, recipe in asked.systems.items()}
    one = next(iter(recipes.values()))
    return {
        "rules": RULES,
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
        begun = read_yaml(path)
    except ConfigError as error:
        raise CheckpointError(f"{path} is damaged: {error}") from None
    if not isinstance(begun, dict) or not isinstance(begun.get("systems"), dict):
        raise CheckpointError(f"{path} is damaged: it holds no settings of a comparison")
    return begun


def compare(
    systems: Sequence[str],
    *,
    data: str = "sentences",
    budget: str = "3e12flops",
    seeds: Sequence[int] = (1, 2, 3),
    out: Path = Path("runs/compare"),
    device: str | None = None,
    overrides: Sequence[str] = (),
    watching: Watching = unwatched,
    say: Callable[[str], None] = untold,
    crew: Crew = ALONE,
) -> Comparison:
    """Train every system with every seed, and lay their scores and costs side by side.

    All share data, tokenizer, search and seeds; batch size, schedule and dropout are those of each
    system's recipe. The budget is that of one training; finding a learning rate comes on top, and
    is counted. Whatever stops a comparison, calling it again goes on where it was. A signal raises
    ``Stop``; a system that fails becomes a row that says why, unless all fail. A ``crew`` trains
    several at once, which only ``say`` is told of.
    """
    asked = contest(systems, data, parse_budget(budget), seeds, overrides)
    pick_device(device)  # what cannot be done at all is refused before a folder is taken
    splits = load_records(next(iter(asked.systems.values())).data, "pair").splits
    claim(out, asked)
    pairs = {name: splits[name] for name in SPLITS if name in splits}
    entries: dict[str, Entry] = {}
    rows: list[SystemRow] = []
    lines = {
        name: Line(
            SystemTrainings(
                name, recipe, asked.budget, asked.seeds, tuple(pairs), out / name, device
            )
        )
        for name, recipe in asked.systems.items()
    }
    came = train_side_by_side(list(lines.values()), crew, device=device, say=say)
    for name, line in lines.items():
        found = came.searches.get(line.search)
        try:
            came.check(line)
            entry = replace(line.system, watching=watching, say=say, found=found).entry()
            rows.append(results.system_row(name, entry, asked.seeds, pairs))
            entries[name] = entry
        except Exception as error:  # hours of the others' work must not go with it
            kind = "" if isinstance(error, RegardError) else f"{type(error).__name__}: "
            rows.append(SystemRow(system=name, error=f"{kind}{error}"))
            say(f"{name} failed: {rows[-1].error}")
    if not entries:
        reasons = "; ".join(f"{one.system}: {one.error}" for one in rows)
        raise TrainingError(f"no system could be trained: {reasons}")
    rows = results.compared(rows, entries, pairs)
    scores = next(iter(entries.values())).runs[0].facts["scores"][results.SPLIT]
    comparison = Comparison(
        data=asked.data,
        budget=str(asked.budget),
        seeds=asked.seeds,
        n_sentences=len(pairs[results.SPLIT]),
        bleu_signature=scores["bleu_signature"],
        chrf_signature=scores["chrf_signature"],
        best=results.best(rows),
        rows=tuple(rows),
        differences=differences(asked.systems),
    )
    results.write_comparison(comparison, out)
    return comparison
