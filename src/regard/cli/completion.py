"""What a shell is told when somebody presses the tab key: recipes, run folders, settings, claims.

``regard --install-completion`` teaches the shell to ask. Nothing here imports torch, so that it
answers at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

WORDS = "COMP_WORDS"
"""The variable in which a shell hands over the line that is being typed."""
_RUNS = Path("runs")
"""Where runs lie unless somebody says otherwise."""


def asked_verb() -> str | None:
    """The verb of the line that is being typed, where a shell asks how it may go on."""
    if not any(name.endswith("_COMPLETE") and "REGARD" in name for name in os.environ):
        return None
    typed = os.environ.get(WORDS, "").split()[1:]
    return next((word for word in typed if not word.startswith("-")), None)


def recipe_names(incomplete: str) -> list[str]:
    """Built-in recipes, and YAML files here."""
    from regard.recipes.recipe_files import builtin_names

    own = sorted(str(path) for path in _beside(incomplete) if path.suffix in (".yaml", ".yml"))
    return [name for name in [*own, *builtin_names()] if name.startswith(incomplete)]


def run_names(incomplete: str) -> list[str]:
    """Folders that hold a run: below runs, here, or where the word leads; and the way to others."""
    places = {*_beside(incomplete), *(_RUNS.iterdir() if _RUNS.is_dir() else ())}
    folders = sorted(str(path) for path in places if (path / "config.yaml").is_file())
    return [name for name in folders if name.startswith(incomplete)]


def setting_names(incomplete: str) -> list[str]:
    """``section.key=`` of every setting of a recipe, and its bare key."""
    from regard.models.presets import ModelSettings
    from regard.tasks.settings import SECTIONS, Recipe

    names = []
    for section in SECTIONS:
        inside = Recipe.model_fields[section].annotation
        keys = ModelSettings.names() if section == "model" else inside.model_fields  # type: ignore[union-attr]
        names += [f"{prefix}{key}=" for key in keys for prefix in ("", f"{section}.")]
    return sorted({name for name in names if name.startswith(incomplete)})


def claim_names(incomplete: str) -> list[str]:
    """Experiments of the lab."""
    from regard.lab import NAMES

    return [name for name in ("all", *NAMES) if name.startswith(incomplete)]


def _beside(incomplete: str) -> Iterator[Path]:
    """What lies in the folder that an unfinished word leads to."""
    folder = Path(incomplete.rpartition("/")[0] or ("/" if incomplete.startswith("/") else "."))
    if folder.is_dir():
        yield from folder.iterdir()
