"""``regard demo``: the first command of a new user."""

from __future__ import annotations

import shlex
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Device
from regard.cli.serve import Port, run_server
from regard.cli.train import run_training

if TYPE_CHECKING:
    from regard.runs.kinds.translator import Run

EXAMPLES = (
    "the animal did not cross the street because it was too tired",
    "the animal did not cross the street because it was too wide",
    "john loves mary",
    "mary loves john",
    "jane visits africa in september",
)


def demo(
    out: Annotated[Path, typer.Option(help="Run folder.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the training.")] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where it stopped.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a run.")] = False,
    no_serve: Annotated[
        bool, typer.Option("--no-serve", help="Stop after the translations.")
    ] = False,
    port: Port = 8000,
    device: Device = None,
) -> None:
    """Train the built-in English-French translator, print five translations and open the page.

    The page is served until Ctrl-C.
    """
    from regard.recipes.recipe import load_recipe
    from regard.server.listening import listen

    recipe = load_recipe("transformer", [f"train.seed={seed}"])
    # A port that is taken shows before the training, not two minutes later.
    with nullcontext() if no_serve else listen("127.0.0.1", port) as listening:
        run_training(recipe, out, resume=resume, overwrite=overwrite, device=device)
        run = _shown(out, device)
        if listening is not None:
            from regard.server.serve import open_page

            run_server(run, listening, then=open_page)
        else:
            print(f"see it: {_program()} serve {shlex.quote(str(out))}")


def _program() -> str:
    """What to type: the name alone where the shell would find it, else as it was typed."""
    typed = sys.argv[0]
    found = shutil.which("regard") is not None or Path(typed).name != "regard"
    return "regard" if found else typed


def _shown(out: Path, device: str | None) -> Run:
    """The run, after it has translated the examples."""
    from regard.runs.kinds.translator import load_translator

    run = load_translator(out, device=device)
    for source, translation in zip(EXAMPLES, run.translate(EXAMPLES), strict=True):
        print(f"{source}\n    {translation}")
    return run
