"""What tensors a model of a description has: built without numbers, so that any size is cheap."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property

import torch
from torch import Tensor, nn

from regard.core.errors import CheckpointError
from regard.interop.naming import Row, Shape, taken
from regard.models.base import ModelConfig
from regard.models.presets import build


def skeleton(config: ModelConfig) -> nn.Module:
    """The model with shapes and no numbers."""
    try:
        with torch.device("meta"):
            return build(config)
    except (RuntimeError, TypeError, OverflowError) as error:  # more than torch can count
        told = ", ".join(f"{name}={value}" for name, value in _sizes(config).items())
        reason = str(error).partition("\n")[0]
        raise CheckpointError(f"no model can have the sizes {told} ({reason})") from None


def shapes(config: ModelConfig, *, tied: bool = False) -> dict[str, Shape]:
    """What each parameter is called, and its shape; those that are ``tied`` under each name."""
    every = skeleton(config).named_parameters(remove_duplicate=not tied)
    return {name: tuple(one.shape) for name, one in every}


def fitted(
    config: ModelConfig,
    rows: Iterable[Row],
    tensors: Mapping[str, Tensor],
    of: str,
    *,
    passed_over: Collection[str] = (),
) -> dict[str, Tensor]:
    """Their tensors as the weights of our model, float32; tied ones may stand under each name."""
    check_layers(config, tensors, of)
    wanted = shapes(config, tied=True)
    return taken(
        rows, tensors, wanted, of, passed_over=passed_over, deciding=Deciding(config).settings
    )


def check_layers(config: ModelConfig, tensors: Collection[str], of: str) -> None:
    """A description may ask for any number of layers: one that cannot be there is not built."""
    n_layers = _sizes(config).get("n_layers", 0)
    if n_layers > len(tensors):
        raise CheckpointError(
            f"{of} does not fit its own description: it says {n_layers} layers, and holds "
            f"{len(tensors)} tensors"
        )


class Deciding:
    """Which settings decide the shape of a parameter: those with which it changes."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config

    @cached_property
    def _mine(self) -> dict[str, Shape]:
        return shapes(self.config, tied=True)

    @cached_property
    def _others(self) -> dict[str, dict[str, Shape]]:
        """For each size, the shapes where it is twice as large."""
        found = {}
        for name, value in _sizes(self.config).items():
            try:
                found[name] = shapes(self.config.model_copy(update={name: 2 * value}), tied=True)
            except Exception:  # a size that cannot change alone decides nothing alone
                continue
        return found

    def settings(self, names: Iterable[str]) -> list[str]:
        """As ``d_model=512``."""
        wanted, sizes = list(names), _sizes(self.config)
        return [
            f"{setting}={sizes[setting]}"
            for setting, others in self._others.items()
            if any(self._mine.get(name) != others.get(name) for name in wanted)
        ]


def _sizes(config: ModelConfig) -> dict[str, int]:
    settings = config.model_dump()
    return {name: value for name, value in settings.items() if type(value) is int and value > 0}
