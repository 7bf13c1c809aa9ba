"""``regard train``: a recipe becomes a run folder; ``regard average``: so do some checkpoints."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.completion import setting_names
from regard.cli.run_paths import RunPath
from regard.cli.serve import Port, run_server
from regard.cli.terminal import Device, RecipeName, note
from regard.core.errors import ConfigError
from regard.core.plugins import loaded_plugins

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from regard.runs.estimate import Estimate
    from regard.tasks.recipe import Recipe

Resume = Annotated[bool, typer.Option("--resume", help="Go on where it stopped.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a run.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Override a setting.", autocompletion=setting_names
    ),
]


def train(
    recipe: Annotated[str | None, RecipeName] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; by default runs/RECIPE.")] = None,
    settings: Settings = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it will cost.")] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of recipes.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(help="Processes of this machine that share the work; torchrun for several."),
    ] = None,
    serve: Annotated[
        bool,
        typer.Option(
            "--serve", help="Show it in the browser while it trains, then the run's page."
        ),
    ] = False,
    port: Port = 8000,
    device: Device = None,
) -> None:
    """Train a model as a recipe says.

    --resume --out RUN finds the recipe in the folder, and --set may then say anew when training
    ends (max_steps, max_minutes, patience) and how often it saves, validates and logs.

    --serve shows curves and a film: one held-out example as the model sees it at every validation
    (train.film=true). It is kept in the run folder. Ctrl-C ends training and page; all is saved.
    """
    from regard.recipes.recipe import load_recipe, recipe_name, recipe_of_run
    from regard.tasks.recipe import Recipe

    if schema:
        print(json.dumps(Recipe.model_json_schema(), indent=2))
        return
    overrides = [*(["train.film=true"] if serve else ()), *(settings or ())]
    if recipe is not None:
        asked = load_recipe(recipe, overrides)
        folder = out or Path("runs") / recipe_name(recipe)
    elif resume and out is not None:
        asked, folder = recipe_of_run(out, overrides), out
    else:
        raise ConfigError(
            "which recipe? `regard recipes` lists the built-in ones; --resume --out RUN finds it "
            "in the folder"
        )
    if dry_run:
        show_estimate(asked, device, workers)
        return
    flags = {"--resume": resume, "--overwrite": overwrite}
    on = () if device is None else ("--device", device)
    words = (
        *(word for name in loaded_plugins() for word in ("--plugin", name)),
        *("train", *([] if recipe is None else [recipe]), "--out", str(folder)),
        *(word for one in overrides for word in ("--set", one)),
        *(name for name, given in flags.items() if given),
        *on,
    )

    def learn() -> None:
        if workers is not None:
            _launch(workers, *words)
        else:
            from regard.runs.launch import launched_flags

            run_training(
                asked,
                folder,
                resume=resume,
                overwrite=overwrite,
                device=device,
                again=command("train", "--resume", "--out", str(folder), *on, *launched_flags()),
            )

    with _shown(asked, folder, port if serve else None, device):
        learn()


@contextmanager
def _shown(recipe: Recipe, folder: Path, port: int | None, device: str | None) -> Iterator[None]:
    """Inside the block a training is shown at a port; after it, the run is, until Ctrl-C.

    Without a port nothing is shown; of several processes the first one shows it.
    """
    if port is None:
        yield
        return
    from regard.server.limits import address_of, listen
    from regard.training.distributed import launched_rank

    if launched_rank():
        yield
        return
    with listen("127.0.0.1", port) as listening:
        note(f"watch it at {address_of(listening)}")
        with watched_at(recipe, folder, listening):
            yield
        from regard.tasks.opening import load

        run_server(load(folder, device=device), listening)


def watched_at(
    recipe: Recipe,
    folder: Path,
    listening: socket.socket,
    then: Callable[[str], None] = lambda _address: None,
) -> AbstractContextManager[None]:
    """Inside the block a page shows how a training goes; ``then`` gets its address."""
    from regard.checkpoints.run_folder import RunFolder
    from regard.server.watching import watched

    return watched(RunFolder(folder), recipe, listening, then)


def _launch(workers: int, *words: str) -> None:
    """Run these words in several processes of this machine, the first of which prints."""
    from regard.runs.launch import launch

    launch(words, workers, note)


def command(*words: str) -> str:
    """What to type, with the plug-ins that were loaded."""
    plugins = (word for name in loaded_plugins() for word in ("--plugin", name))
    return shlex.join(["regard", *words, *plugins])


def run_training(
    recipe: Recipe, out: Path, *, resume: bool, overwrite: bool, device: str | None, again: str
) -> None:
    """Train with progress shown, then show the scores; an interrupted training ends the program.

    ``again`` is the command that goes on with it.
    """
    from regard.cli.evaluate import show_scores
    from regard.runs.doors import watched_training
    from regard.runs.launch import leave_stop
    from regard.training.distributed import is_launched, launched_rank

    trained = watched_training(recipe, out, resume=resume, overwrite=overwrite, device=device)
    if trained is not None and trained.outcome.signal is not None:
        leave_stop()
    if launched_rank():  # the first process tells
        return
    if trained is None:
        print(f"{out} is finished; nothing is left to resume; for more steps, --set max_steps=…")
        return
    progress, signal = trained.outcome.progress, trained.outcome.signal
    if signal is not None:
        saved = f"all is saved in {out}; go on with: {again}"
        note(f"stopped by {signal.name} after step {progress.step}; {saved}")
        raise typer.Exit(0 if is_launched() else 128 + signal)  # torchrun starts others again
    print(
        f"{trained.outcome.reason} after {progress.seconds:.0f} s and {progress.flops:.2e} FLOPs; "
        f"the run is in {out}"
    )
    if trained.evaluations:
        show_scores({name: one.scores for name, one in trained.evaluations.items()})


def show_estimate(recipe: Recipe, device: str | None, workers: int | None = None) -> None:
    """Print what a recipe will cost, and what it would on several devices; nothing is written."""
    import torch

    from regard.core.numbers import about
    from regard.runs.estimate import enough_to_estimate, estimate
    from regard.runs.prepare import prepare
    from regard.tasks.opening import pick_device

    enough, times = enough_to_estimate(recipe)
    with torch.random.fork_rng():
        prepared = prepare(enough, pick_device(device))
        if times > 1:
            drawn, whole = enough.data.n_train, recipe.data.n_train
            note(f"{drawn:,} of the {whole:,} records of train are drawn, and stand for all")
        note("measuring some steps of training; this can take a minute …")
        cost = estimate(prepared, times)
    for line in prepared.notes:
        print(line, file=sys.stderr)
    facts = {
        **{
            name: f"{round(times * number if name.startswith('training') else number):,}"
            for name, number in prepared.size.items()
        },
        "parameters": f"{cost.parameters:,}",
        f"FLOPs per {prepared.unit}": f"{cost.flops_per_token:.3g}",
        "steps": "until patience ends" if cost.steps is None else cost.steps,
        "training FLOPs": "unknown" if cost.flops is None else f"{cost.flops:.3g}",
        "memory": f"{cost.memory_bytes / 2**30:.2f} GiB",
        "time": "unknown" if cost.seconds is None else about(cost.seconds),
    }
    if workers is not None:
        facts |= _on_several(cost, recipe, workers)
    for name, value in facts.items():
        print(f"{name:18} {value}")


def _on_several(cost: Estimate, recipe: Recipe, workers: int) -> dict[str, str]:
    """What each of several devices would hold, and how long they would take: projections."""
    from regard.bench.scale import measured_network, projected_seconds
    from regard.core.numbers import about
    from regard.training.distributed import Ranks, check_processes

    if workers < 1:
        raise ConfigError(f"--workers={workers}: at least one process must train")
    if (line := check_processes(recipe.train, Ranks(0, workers))) is not None:
        note(line)
    memory = float(cost.memory_bytes)
    if recipe.train.parallel == "shard":  # a part of 16 bytes a weight, and a plain copy
        memory += cost.parameters * (4 - 16 * (1 - 1 / workers))
    facts = {f"memory of {workers}": f"{memory / 2**30:.2f} GiB each (projected)"}
    if cost.seconds is not None and cost.steps:
        note("measuring what messages between two processes cost …")
        each = cost.seconds / cost.steps
        step = projected_seconds(each, workers, 4 * cost.parameters, measured_network())
        facts[f"time of {workers}"] = f"{about(step * cost.steps)} on devices like this (projected)"
    return facts


# ------------------------------------------------------------------ average


def average(
    path: RunPath,
    last: Annotated[int, typer.Option(help="Checkpoints whose mean is taken.")] = 5,
    out: Annotated[
        Path | None, typer.Option(help="Run folder, new or empty; by default RUN-average.")
    ] = None,
) -> None:
    """Make a run of the mean of a run's last checkpoints.

    train.keep says how many a training keeps; train.save_every says how far apart they are. The
    weights are those that were trained, whatever running average (train.average) was kept.
    """
    from regard.runs.average import average as write_mean

    whole = path.resolve()
    folder = out or whole.with_name(f"{whole.name}-average")
    steps = write_mean(path, last, folder, note)
    print(f"{folder}: the mean of steps {', '.join(map(str, steps))}")
