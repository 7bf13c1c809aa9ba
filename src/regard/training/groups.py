"""Which weights learn, and how fast: frozen parts, and layers that learn the slower the lower."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from regard.core.errors import ConfigError
from regard.training.settings import TrainSettings

_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")


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
    the one below it ``layer_decay``² times, and so on down to the embedding. Only what has rows
    and columns decays.
    """
    depths = [
        int(found[1]) for name, _ in model.named_parameters() if (found := _LAYER.search(name))
    ]
    n_layers = max(depths, default=-1) + 1
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            scale = settings.layer_decay ** _below(name, n_layers)
            decay = settings.weight_decay if parameter.dim() > 1 else 0.0
            groups.setdefault((scale, decay), []).append(parameter)
    return [
        {"params": groups[scale, decay], "scale": scale, "weight_decay": decay}
        for scale, decay in sorted(groups, reverse=True)
    ]


def _below(name: str, n_layers: int) -> int:
    """How many steps a weight lies below what is on top."""
    found = _LAYER.search(name)
    if found is not None:
        return n_layers - int(found[1])
    return n_layers + 1 if "embedding" in name.split(".")[0] else 0
