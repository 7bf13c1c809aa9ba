"""Which weights learn, and how fast: frozen parts, and layers that learn the slower the lower."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from regard.core.errors import ConfigError
from regard.training.settings import TrainSettings

_LAYER = re.compile(r"(?P<stack>(?:^|.*?\.))layers\.(?P<number>\d+)\.")
_EMBEDDING = re.compile(r"(?P<stack>(?:^|.*?\.))embedding\.")


def freeze(model: nn.Module, settings: TrainSettings) -> None:
    """Weights whose names match a pattern of ``train.freeze`` learn nothing."""
    names = [name for name, _ in model.named_parameters()]
    for pattern in settings.freeze:
        if not any(fnmatchcase(name, pattern) for name in names):
            parts = sorted({name.split(".")[0] for name in names})
            raise ConfigError(
                f"train.freeze: {pattern!r} is the name of no weight; the parts are "
                f"{', '.join(parts)}, to be written as {parts[0]}.*"
            )
    for name, parameter in model.named_parameters():
        if any(fnmatchcase(name, pattern) for pattern in settings.freeze):
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError("train.freeze leaves nothing that learns; freeze less")


def parameter_groups(model: nn.Module, settings: TrainSettings) -> list[dict[str, Any]]:
    """What learns, by how fast and what it forgets: ``scale`` is the share of the learning rate.

    What is above the layers learns at the full rate, the last layer ``layer_decay`` times as fast,
    the one below it ``layer_decay``² times, and so on down to the embedding. An encoder and a
    decoder are two stacks, each counted from its own top. Only what has rows and columns decays.
    """
    heights = _heights(name for name, _ in model.named_parameters())
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            scale = settings.layer_decay ** _below(name, heights)
            decay = settings.weight_decay if parameter.dim() > 1 else 0.0
            groups.setdefault((scale, decay), []).append(parameter)
    return [
        {"params": groups[scale, decay], "scale": scale, "weight_decay": decay}
        for scale, decay in sorted(groups, reverse=True)
    ]


def _heights(names: Iterable[str]) -> dict[str, int]:
    """How many layers each stack has, by what the names of its weights begin with."""
    heights: dict[str, int] = {}
    for found in filter(None, map(_LAYER.match, names)):
        heights[found["stack"]] = max(heights.get(found["stack"], 0), int(found["number"]) + 1)
    return heights


def _below(name: str, heights: Mapping[str, int]) -> int:
    """How many steps a weight lies below what is on top of its stack."""
    if (layer := _LAYER.match(name)) is not None:
        return heights[layer["stack"]] - int(layer["number"])
    if (embedding := _EMBEDDING.match(name)) is not None:
        return heights.get(embedding["stack"], 0) + 1
    return 0
