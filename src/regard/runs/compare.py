"""Systems side by side on the same data and budget: learning rates are tried first, then seeds.

Trainings are ordinary run folders: a finished run is read back, one that was stopped goes on. So a
comparison that was interrupted needs no memory of its own.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import yaml

from regard.checkpoints.run_folder import RunFolder, load_scores, load_settings
from regard.core.errors import CheckpointError, ConfigError, RegardError, TrainingError
from regard.core.files import write_whole
from regard.core.registry import did_you_mean
from regard.core.signals import Stop
from regard.data.settings import DataSettings
from regard.data.splits import load_records
from regard.data.worlds.registry import WORLDS
from regard.decoding.settings import DecodeSettings
from regard.models.presets import resolve
from regard.recipes.recipe import builtin_recipes, load_recipe, overrides_of
from regard.runs import comparison as results
from regard.runs.comparison import Comparison, Entry, FinishedTraining, Pairs, SystemRow, Trial
from regard.runs.estimate import Budget, changed, parse_budget, steps_within
from regard.runs.prepare import prepare
from regard.runs.train import settings_changes, train
from regard.tasks.base import Prepared
from regard.tasks.opening import pick_device
from regard.tasks.recipe import SECTIONS, Recipe, recipe_from
from regard.tasks.translation_scores import evaluate_pairs
from regard.tasks.translator import load_translator
from regard.text.settings import TextSettings
from regard.training.metrics import read_metrics
from regard.training.settings import TrainSettings

SHARED = ("data", "text", "decode")
"""Sections of a recipe that all systems have in common; model and train are a system's own."""
SPLITS = (results.SPLIT, "long")
"""What is translated where the data has it; ``long`` only counts in the scores by length."""
VALIDATIONS = 10
"""Of every training, so that each system has as many weights to choose the best from."""
WARM_UP = 0.2
"""Share of the steps that a warm-up may take, where the budget buys few."""
TRANSLATIONS = "translations.json"
GRID = (0.5, 1.0, 2.0)
"""Learning rates that are tried, as multiples of the recipe's own."""
GRID_SHARE = 0.25
"""Of the budget, for each of them."""

Watching = Callable[[TrainSettings], AbstractContextManager[Any]]
"""What watches a training: it is called with each line of metrics, and its ``say`` with words."""


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
    new, old = _settings(asked), _begun(out / results.SETTINGS)
    if changes := list(settings_changes(old, new, depth=3)):  # systems, a name, a section
        raise ConfigError(
            f"{out} was begun with other settings: {'; '.join(changes)}; choose another --out"
        )
    new["systems"] = {**old.get("systems", {}), **new["systems"]}
    write_whole(out / results.SETTINGS, yaml.safe_dump(new, sort_keys=False, allow_unicode=True))


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


class _Silent:
    """Watches a training and tells nobody."""

    def __call__(self, line: Mapping[str, Any]) -> None:
        pass

    def say(self, text: str) -> None:
        pass


def compare(
    systems: Sequence[str],
    *,
    data: str = "sentences",
    budget: str = "3e12flops",
    seeds: Sequence[int] = (1, 2, 3),
    out: Path = Path("runs/compare"),
    device: str | None = None,
    overrides: Sequence[str] = (),
    watching: Watching = lambda _settings: nullcontext(_Silent()),
    say: Callable[[str], None] = lambda _text: None,
) -> Comparison:
    """Train every system with every seed, and lay their scores and costs side by side.

    All share data, tokenizer, search and seeds; batch size, schedule and dropout are those of each
    system's recipe. The budget is that of one training; finding a learning rate comes on top, and
    is counted. Whatever stops a comparison, calling it again goes on where it was. A signal raises
    ``Stop``; a system that fails becomes a row that says why, unless all fail.
    """
    asked = contest(systems, data, parse_budget(budget), seeds, overrides)
    pick_device(device)  # what cannot be done at all is refused before a folder is taken
    splits = load_records(next(iter(asked.systems.values())).data, "pair").splits
    claim(out, asked)
    pairs = {name: splits[name] for name in SPLITS if name in splits}
    entries: dict[str, Entry] = {}
    rows: list[SystemRow] = []
    for name in asked.systems:
        try:
            entry = SystemTrainings(name, asked, pairs, out, device, watching, say).entry()
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
    )
    results.write_comparison(comparison, out)
    return comparison


@dataclass(frozen=True)
class SystemTrainings:
    """All trainings of a system: where and how, and the pairs that its models translate."""

    name: str
    asked: Contest
    pairs: Pairs
    out: Path
    device: str | None
    watching: Watching
    say: Callable[[str], None]

    def entry(self) -> Entry:
        """Try the rates for a short while with the first seed, then train every seed."""
        trials = tuple(map(self._tried, learning_rates(self.recipe)))
        lr = _chosen(trials)
        runs = tuple(self._trained(lr, seed, trial=False) for seed in self.asked.seeds)
        return Entry(trials, lr, runs)

    @property
    def recipe(self) -> Recipe:
        """The system's, before rate, seed and steps are set."""
        return self.asked.systems[self.name]

    def _tried(self, rate: float) -> Trial:
        try:
            run = self._trained(rate, self.asked.seeds[0], trial=True)
        except TrainingError as error:  # a rate can be too high for a system that is sound
            self.say(f"{self.name}: learning rate {rate:g}: {error}")
            lines = read_metrics(self.out / self.name / f"lr-{rate:g}" / "metrics.jsonl")
            spent = lines[-1] if lines else {"flops": 0.0, "seconds": 0.0}
            return Trial(rate, None, spent["flops"], spent["seconds"])
        best, measured = min(line["loss"] for line in run.metrics), run.facts["measured"]
        return Trial(rate, best, measured["flops"], measured["seconds"])

    def _trained(self, lr: float, seed: int, *, trial: bool) -> FinishedTraining:
        """Train into a folder of its own, unless that is done; then read it back."""
        path = self.out / self.name / (f"lr-{lr:g}" if trial else f"seed-{seed}")
        folder, pairs = RunFolder(path), {} if trial else self.pairs
        if not folder.finished():
            said = f"trying learning rate {lr:g}" if trial else f"learning rate {lr:g}, seed {seed}"
            self.say(f"{self.name}: {said}")
            recipe = self._planned(folder, lr, seed, trial)
            with self.watching(recipe.train) as watcher:
                trained = train(
                    recipe,
                    path,
                    resume=folder.exists(),
                    device=self.device,
                    test_sets=list(pairs),
                    observers=[watcher],
                    say=watcher.say,
                )
            assert trained is not None, "it was not finished a moment ago"
            if trained.outcome.signal is not None:
                raise Stop(trained.outcome.signal)
            _keep(path, {name: trained.evaluations[name].outputs for name in pairs})
        lines = [line for line in read_metrics(folder.metrics) if line["kind"] == "valid"]
        return FinishedTraining(load_scores(folder), lines, _translations(path, pairs, self.device))

    def _planned(self, folder: RunFolder, lr: float, seed: int, trial: bool) -> Recipe:
        """The recipe with as many steps as the budget buys, and nothing else that ends it.

        A run that was begun keeps its steps: a speed is never measured twice alike.
        """
        budget = self.asked.budget.share(GRID_SHARE if trial else 1.0)
        validations = 1 if trial else VALIDATIONS
        changes = {"lr": lr, "seed": seed, "patience": None, "max_minutes": budget.minutes}
        wanted = changed(self.recipe, **changes)
        if folder.settings.exists():
            steps = recipe_from(load_settings(folder)).train.max_steps or 1
        else:
            prepared = dataclasses.replace(self._prepared, recipe=wanted)
            steps = steps_within(budget, prepared, validations=validations)
        warmup = min(wanted.train.warmup_steps, max(1, int(WARM_UP * steps)))
        eval_every = math.ceil(steps / validations)
        return changed(wanted, max_steps=steps, warmup_steps=warmup, eval_every=eval_every)

    @cached_property
    def _prepared(self) -> Prepared:
        """Data and model, when first they are needed: a finished comparison needs neither."""
        place = pick_device(self.device)
        with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
            return prepare(self.recipe, place)


def _translations(path: Path, pairs: Pairs, device: str | None) -> dict[str, list[str]]:
    """As kept, or made once more where a kill came between the run's end and keeping them."""
    if not pairs:
        return {}
    try:
        kept: dict[str, list[str]] = json.loads((path / TRANSLATIONS).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        run = load_translator(path, device=device)
        kept = {name: evaluate_pairs(run, some, split=name).outputs for name, some in pairs.items()}
        _keep(path, kept)
    return kept


def _keep(path: Path, translations: Mapping[str, Sequence[str]]) -> None:
    if translations:
        write_whole(path / TRANSLATIONS, json.dumps(translations, ensure_ascii=False) + "\n")


def learning_rates(recipe: Recipe) -> list[float]:
    """The rates to try."""
    config = resolve(recipe.model, n_source_vocab=9, n_target_vocab=9, shared_vocab=True)
    centre = recipe.train.highest_rate(config.d_model)
    return [float(f"{factor * centre:.3g}") for factor in GRID]


def _chosen(trials: Sequence[Trial]) -> float:
    """The rate with the lowest loss on ``valid``."""
    sound = [(trial.loss, trial.lr) for trial in trials if trial.loss is not None]
    if not sound:
        tried = ", ".join(f"{trial.lr:g}" for trial in trials)
        raise TrainingError(f"no learning rate of {tried} led anywhere; lower train.lr")
    return min(sound)[1]
