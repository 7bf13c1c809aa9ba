"""Which files recipes are read from. Nothing here imports torch: a wrong name answers at once."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean


def builtin_names() -> list[str]:
    """The built-in recipes."""
    names = (one.name for one in files("regard.recipes").iterdir())
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def check_there(name: str) -> str:
    """The name of a recipe; one that means a file must mean one that is there."""
    path, known = Path(name), builtin_names()
    means_file = path.suffix in (".yaml", ".yml") or len(path.parts) > 1
    if means_file and name not in known and not path.is_file():
        beside = [one.name for one in path.parent.glob("*.y*ml") if one.is_file()]
        hint = did_you_mean(path.name, beside) or did_you_mean(path.stem, known)
        raise ConfigError(
            f"there is no file {name}{hint}; `regard recipes` lists the built-in recipes"
        )
    return name
