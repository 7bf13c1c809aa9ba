"""Optimisers and generators as plain tensors, by names that outlive the process."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


def optimiser_tensors(optimiser: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """``slot/parameter`` -> tensor, for every slot that the optimiser keeps."""
    return {
        f"{slot}/{name}": tensor
        for name, parameter in model.named_parameters()
        for slot, tensor in optimiser.state.get(parameter, {}).items()
    }


def load_optimiser(
    optimiser: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]
) -> None:
    """The reverse."""
    parameters = dict(model.named_parameters())
    for key, tensor in tensors.items():
        slot, name = key.split("/", 1)
        parameter = parameters[name]
        optimiser.state[parameter][slot] = tensor.to(parameter.device).clone()


def rng_tensors(device: torch.device) -> dict[str, Tensor]:
    """The state of torch's default generators, from which dropout draws."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def load_rng(states: Mapping[str, Tensor], device: torch.device) -> None:
    """The reverse."""
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
