"""``regard prepare``: the training texts of a recipe become shards, for data that does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.terminal import note
from regard.core.errors import ConfigError


def prepare(
    recipe: Annotated[str, typer.Argument(help="A YAML file, or the name of a built-in recipe.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the shards; by default data.shards.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that tokenise; by default one a core.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a setting.")
    ] = None,
) -> None:
    """Tokenise training texts once, into shards that training reads a window at a time.

    A killed one goes on when it is called again; shards that are missing or damaged are made anew.
    """
    from regard.recipes.recipe import load_recipe
    from regard.runs.jobs import n_cores
    from regard.runs.prepare import shard

    here = [] if out is None else [f"data.shards={out}"]
    asked = load_recipe(recipe, [*(settings or []), *here])
    if asked.data.shards is None:
        raise ConfigError("where to? name a folder with --out, or in the recipe as data.shards")
    manifest = shard(asked, n_workers=workers or n_cores(), say=note)
    for line in manifest.notes:
        note(line)
    unit = {"pair": "pairs", "text": "tokens"}[manifest.kind]
    total = sum(one.units for one in manifest.shards)
    megabytes = sum(one.size for one in manifest.shards) / 2**20
    print(
        f"{asked.data.shards}: {total:,} {unit} in {len(manifest.shards):,} shards, "
        f"{megabytes:,.1f} MiB; train with data.shards={asked.data.shards}"
    )
