"""The doors of Python: ``regard.train`` and ``regard.compare``, with their progress shown.

The command line goes through the same functions and adds words.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from regard.core.errors import ConfigError
from regard.core.plugins import load_plugins
from regard.core.signals import Stop
from regard.recipes.recipe import as_overrides, load_recipe, recipe_name
from regard.runs.compare import compare as run_comparison
from regard.runs.comparison import Comparison
from regard.runs.progress import Lines, watching
from regard.runs.side_by_side import Crew
from regard.runs.train import Trained
from regard.runs.train import train as train_run
from regard.runs.trainings import Work
from regard.tasks.base import TASKS
from regard.tasks.recipe import Recipe
from regard.training.distributed import launched_rank
from regard.training.settings import TrainSettings

Named = str | Path | Mapping[str, Any]
"""A recipe: a built-in name, a YAML file, or its sections."""


def train(
    recipe: Named,
    out: str | Path | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    device: str | None = None,
    plugins: Iterable[str | Path] | str | Path = (),
    **settings: Any,
) -> Any:
    """Train a recipe into the folder ``out``, by default ``runs/RECIPE`` -> the run, to be used.

    The recipe is a built-in name, a YAML file or a mapping of its sections. Settings are the keys
    of ``regard train --set``: ``max_steps=100``, or ``**{"train.lr": 1e-3}`` where several sections
    have one. Ctrl-C ends the training well: what was learned so far is what the run does, and
    ``resume=True`` goes on from there. ``plugins`` are files or modules with entries of your own.

    >>> import tempfile
    >>> tiny = {"n_layers": 1, "d_model": 16, "d_ff": 32, "n_heads": 2}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = train("copy", f"{folder}/run", max_steps=2, warmup_steps=1, **tiny)
    ...     run.recipe.train.max_steps, run.task
    (2, 'translation')
    """
    load_plugins(plugins)
    asked, folder = load_recipe(recipe, as_overrides(settings)), folder_for(recipe, out)
    trained = watched_training(asked, folder, resume=resume, overwrite=overwrite, device=device)
    stopped = None if trained is None else trained.outcome.signal
    if trained is not None and stopped is not None:
        step = trained.outcome.progress.step
        _tell(f"stopped after step {step}; all is saved in {folder}, go on with resume=True")
        if stopped is not signal.SIGINT:
            signal.raise_signal(stopped)  # the program is to end, not only the training
    if trained is not None and trained.run is not None:
        return trained.run
    return TASKS[asked.task].load(folder, device=device)


def folder_for(recipe: Named, out: str | Path | None) -> Path:
    """Where the run of a recipe goes."""
    if out is not None:
        return Path(out)
    if isinstance(recipe, Mapping):
        raise ConfigError("a recipe that is no file has no name: say where its run goes, out=…")
    return Path("runs") / recipe_name(recipe)


def watched_training(
    recipe: Recipe, out: Path, *, resume: bool, overwrite: bool, device: str | None
) -> Trained | None:
    """``train`` of ``regard.runs.train``, shown; of several processes, the first one shows it."""
    if resume and overwrite:
        raise ConfigError("--resume keeps a run and --overwrite replaces it: give one of them")
    how: dict[str, Any] = {"resume": resume, "overwrite": overwrite, "device": device}
    if launched_rank():
        return train_run(recipe, out, **how)
    with watching(recipe.train, TASKS[recipe.task].unit) as observer:
        return train_run(recipe, out, **how, observers=[observer], say=observer.say)


def compare(
    systems: Sequence[str | Path],
    *,
    data: str | Path = "sentences",
    budget: str = "3e12flops",
    seeds: int | Sequence[int] = 3,
    out: str | Path = "runs/compare",
    device: str | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    plugins: Iterable[str | Path] | str | Path = (),
    **settings: Any,
) -> Comparison:
    """Train systems on the same data, tokenizer, seeds and budget, and lay them side by side.

    Systems are recipes for translators: built-in names or YAML files. ``data`` is a built-in world,
    or a recipe whose data, text and decode to use; settings are those of ``--set``, for all
    systems. ``jobs`` trains several at once. ``plugins`` are files or modules with entries of your
    own. When it is interrupted, the same call goes on.
    """
    load_plugins(plugins)
    try:
        return run_comparison(
            [str(system) for system in systems],
            data=str(data),
            budget=budget,
            seeds=range(1, seeds + 1) if isinstance(seeds, int) else seeds,
            out=Path(out),
            device=device,
            overrides=as_overrides(settings),
            watching=_watching_one,
            say=_tell,
            crew=Crew(jobs, cluster),
        )
    except Stop as stop:
        _tell(f"stopped by {stop.signal.name}; all is saved in {out}, the same call goes on")
        raise KeyboardInterrupt from None


def _watching_one(settings: TrainSettings, _work: Work) -> AbstractContextManager[Lines]:
    return watching(settings)


def _tell(text: str) -> None:
    print(f"regard: {text}", file=sys.stderr, flush=True)
