"""Classes that learners write, given the parameters of the solution so that results compare."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regard.practice.sheet import ComplaintError

M = TypeVar("M", bound=nn.Module)


def randomised(module: M, seed: int = 0) -> M:
    """The module with every parameter drawn anew, gains and biases too: none can be left out."""
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=rng) / 2)
    return module


def with_parameters_of(reference: nn.Module, built: nn.Module) -> nn.Module:
    """What a learner built, with the parameters of the solution; a complaint where they differ."""
    if not isinstance(built, nn.Module):
        raise ComplaintError("your class is no nn.Module: class …(nn.Module)")
    wanted = dict(reference.named_parameters())
    found = dict(built.named_parameters(remove_duplicate=False))
    for name, parameter in wanted.items():
        if name not in found:
            raise ComplaintError(f"your module has no parameter {name!r}; it has {_few(found)}")
        if found[name].shape != parameter.shape:
            shapes = f"{tuple(found[name].shape)}, not {tuple(parameter.shape)}"
            raise ComplaintError(f"your parameter {name!r} has the shape {shapes}")
    if extra := [name for name in found if name not in wanted]:
        raise ComplaintError(f"your module has a parameter {extra[0]!r} that is not asked for")
    if len({*map(id, found.values())}) < len(wanted):
        raise ComplaintError(
            "some of your layers are one and the same module, so they share their weights: make a "
            "new one for each place, as by [Layer(…) for _ in range(n)]"
        )
    built.load_state_dict(reference.state_dict(), strict=False)
    return built.eval()


def at_words(result: Any, mask: Tensor, d_model: int) -> Tensor:
    """(words, D): a result (B, T, D) where the mask (B, T) is True; what padding gets is free."""
    shape = (*mask.shape, d_model)
    if not isinstance(result, Tensor):
        raise ComplaintError(f"forward returns a {type(result).__name__}, not a tensor {shape}")
    if result.shape != shape:
        raise ComplaintError(f"forward returns the shape {tuple(result.shape)}, not {shape}")
    return result[mask]


def _few(names: dict[str, nn.Parameter]) -> str:
    if not names:
        return "none: set its parts in __init__, after super().__init__()"
    return ", ".join([*names][:4]) + (", …" if len(names) > 4 else "")
