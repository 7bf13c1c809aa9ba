"""``regard demo``: the built-in translator, trained once and shown."""

from __future__ import annotations

import shlex
import shutil
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.checkpoints.lock import check_free
from regard.cli.serve import Port, run_server
from regard.cli.terminal import Device, note
from regard.cli.train import Overwrite, Settings, command, run_training, watched_at
from regard.core.errors import CheckpointError

if TYPE_CHECKING:
    import socket

    from regard.checkpoints.run_folder import RunFolder
    from regard.tasks.recipe import Recipe

RECIPE = "transformer"
OUT = Path("runs/demo")
EXAMPLES = (
    "the animal did not cross the street because it was too tired",
    "the animal did not cross the street because it was too wide",
    "john loves mary",
    "mary loves john",
    "jane visits africa in september",
)
NEXT = "my sister lives in paris"
"""A sentence to begin with, for somebody who has the program before them."""


def demo(
    out: Annotated[Path, typer.Option(help="Run folder.")] = OUT,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the training.", show_default="1")
    ] = None,
    settings: Settings = None,
    overwrite: Overwrite = False,
    no_serve: Annotated[
        bool, typer.Option("--no-serve", help="Stop after the translations.")
    ] = False,
    port: Port = 8000,
    device: Device = None,
) -> None:
    """Train the built-in English-French translator, print five translations and open the page.

    The page is served until Ctrl-C. A training that was stopped goes on, and one that is finished
    is shown again; --overwrite trains anew.
    """
    from regard.checkpoints.run_folder import RunFolder
    from regard.server.limits import listen

    check_free(out)
    folder = RunFolder(out)
    there = folder.settings.exists() and not overwrite
    asked = [*([] if seed is None else [f"train.seed={seed}"]), *(settings or [])]
    recipe = _recipe(out, asked, there=there, film=not no_serve)
    is_over = there and folder.finished() and not asked
    # A port that is taken shows before the training, not two minutes later.
    with nullcontext() if no_serve else listen("127.0.0.1", port) as listening:
        if is_over:
            _show_again(folder)
        else:
            if there and not folder.finished():
                note(f"{out} holds a training that goes on; --overwrite trains anew")
            with nullcontext() if listening is None else _watched(recipe, out, listening):
                again = command("demo", *_where(out), *(["--no-serve"] if no_serve else []))
                how = {"resume": there, "overwrite": overwrite}
                run_training(recipe, out, **how, device=device, again=again)
        _show_run(out, listening, device, opens=is_over)


def _recipe(out: Path, asked: list[str], *, there: bool, film: bool) -> Recipe:
    """What is trained: the built-in recipe, or what the run that is there was begun with."""
    from regard.recipes.recipe import load_recipe, recipe_of_run

    filmed = f"train.film={str(film).lower()}"
    built_in = load_recipe(RECIPE, ["train.seed=1", filmed, *asked])
    if not there:
        return built_in
    begun = recipe_of_run(out, [filmed, *asked])
    if (begun.task, begun.data.world) != (built_in.task, built_in.data.world):
        raise CheckpointError(
            f"{out} holds another run than the demo's; choose another --out, or replace it with "
            "--overwrite"
        )
    return begun


def _where(out: Path) -> list[str]:
    return [] if out == OUT else ["--out", str(out)]


def _show_again(folder: RunFolder) -> None:
    """The scores of a run that is finished."""
    from regard.checkpoints.run_folder import load_scores
    from regard.cli.evaluate import show_scores

    note(f"{folder.path} is finished and is not trained again; --overwrite trains anew")
    if scores := load_scores(folder).get("scores"):
        show_scores(scores)


def _show_run(
    out: Path, listening: socket.socket | None, device: str | None, *, opens: bool
) -> None:
    """Five translations, then the page until Ctrl-C, or what to type next.

    A page that was watched during the training becomes the run's; else one ``opens``.
    """
    from regard.server.serve import open_page
    from regard.tasks.translator import load_translator

    run = load_translator(out, device=device)
    for source, translation in zip(EXAMPLES, run.translate(EXAMPLES), strict=True):
        print(f"{source}\n    {translation}")
    if listening is not None:
        run_server(run, listening, then=open_page if opens else lambda _address: None)
        return
    path = shlex.quote(str(out))
    print(f"see it: {_program()} serve {path}")
    print(f'use it: {_program()} translate {path} "{NEXT}"')


def _watched(
    recipe: Recipe, folder: Path, listening: socket.socket
) -> AbstractContextManager[None]:
    """A page opens by itself and shows the training; it becomes that of the run."""
    from regard.server.limits import address_of
    from regard.server.serve import open_page

    note(f"watch it learn at {address_of(listening)}")
    return watched_at(recipe, folder, listening, open_page)


def _program() -> str:
    """What to type: the name alone where the shell would find it, else as it was typed."""
    typed = sys.argv[0]
    found = shutil.which("regard") is not None or Path(typed).name != "regard"
    return "regard" if found else typed
