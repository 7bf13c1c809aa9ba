"""``regard demo``: the first command of a new user."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Device

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
    device: Device = None,
) -> None:
    """Train the built-in English-French translator, print its scores and five translations."""
    from regard.cli.train import run_training
    from regard.recipes.recipe import load_recipe
    from regard.runs.run import load

    recipe = load_recipe("transformer", [f"train.seed={seed}"])
    run_training(recipe, out, resume=resume, overwrite=overwrite, device=device)
    translations = load(out, device=device).translate(EXAMPLES)
    for source, translation in zip(EXAMPLES, translations, strict=True):
        print(f"{source}\n    {translation}")
