"""``regard models`` and ``regard recipes``: what there is."""

from __future__ import annotations


def models() -> None:
    """List the systems that can be trained, with their sizes."""
    from regard.models.presets import PRESETS

    for name, preset in PRESETS.items():
        print(f"{name:16} {preset.summary}; sizes: {', '.join(preset.sizes)}")


def recipes() -> None:
    """List the built-in recipes."""
    from regard.recipes.recipe import builtin_recipes

    for name, headline in builtin_recipes().items():
        print(f"{name:16} {headline}")
