"""Watching a model attend, without touching it.

with watch(model) as views:
    model(source, target)
views["decoder.cross", 0].weights()      # (B, H, T, S)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.inspection.recompute import weights_of
from regard.layers.viewpoint import Seen, Viewpoint

POOL = "encoder.head.pool"
"""The attention of a head that pools a text: it has one row, whatever the text."""
Place = tuple[str, int]
"""Which attention: its name, such as ``decoder.cross``, and its layer, from 0."""
Weights = NDArray[np.float32]
"""(H, T, S): row = who asks, column = who is looked at."""


@dataclass(slots=True)
class AttentionCalls:
    """What one attention was given, call after call."""

    calls: list[Seen] = field(default_factory=list)

    def weights(self) -> Tensor:
        """(B, H, T, S) of all calls, one after the other, from the very q and k of each.

        A decoder that goes step by step calls once a step; keys that came later have weight 0.
        """
        parts = [weights_of(call) for call in self.calls]
        n_keys = max(part.shape[-1] for part in parts)
        padded = [F.pad(part, (0, n_keys - part.shape[-1])) for part in parts]
        return torch.cat(padded, dim=-2)


@contextmanager
def watch(model: nn.Module) -> Iterator[dict[Place, AttentionCalls]]:
    """Collect what every attention of the model is given inside the block.

    Outputs stay the same to the bit, and no hook remains afterwards, whatever happens.
    """
    views: dict[Place, AttentionCalls] = {}
    handles = []
    for where, module in viewpoints(model):
        view = views.setdefault(where, AttentionCalls())
        handles.append(module.register_forward_hook(_keeping(view)))
    try:
        yield views
    finally:
        for handle in handles:
            handle.remove()


@torch.inference_mode()
def attentions(model: nn.Module, source: Tensor, target: Tensor) -> dict[str, tuple[Weights, ...]]:
    """Every attention's weights for one pair: source ids (1, S), target ids (1, T), begin first."""
    with watch(model) as views:
        model(source, target)
    found: dict[str, dict[int, Weights]] = {}
    for (name, layer), view in views.items():
        found.setdefault(name, {})[layer] = view.weights()[0].float().cpu().numpy()
    return {name: tuple(layers[i] for i in sorted(layers)) for name, layers in found.items()}


def viewpoints(model: nn.Module) -> list[tuple[Place, Viewpoint]]:
    """Every place of a model where one can look, in the order of its modules."""
    stack = stack_of(model)
    return [
        (place(path, stack), module)
        for path, module in model.named_modules()
        if isinstance(module, Viewpoint)
    ]


def stack_of(model: nn.Module) -> str:
    """What a model is that has one stack of layers alone: ``encoder`` or ``decoder``; else "".

    So its attention has the name that it would have in a model of both.
    """
    family = getattr(getattr(model, "config", None), "family", None)
    return family if family in ("encoder", "decoder") else ""


def place(path: str, stack: str = "") -> Place:
    """A module's path, in a stack or a whole model, as a stable name and a layer.

    >>> place("decoder.layers.2.cross_attention.view")
    ('decoder.cross', 2)
    >>> place("layers.0.self_attention.view", "encoder")
    ('encoder.self', 0)
    """
    parts = [stack, *re.sub(r"\.?view$", "", path).split(".")]
    layers = [int(part) for part in parts if part.isdigit()]
    names = [part.removesuffix("_attention") for part in parts]
    kept = [name for name in names if name and name != "layers" and not name.isdigit()]
    return ".".join(kept), layers[-1] if layers else 0


def _keeping(view: AttentionCalls) -> Callable[[nn.Module, object, Seen], None]:
    def keep(_module: nn.Module, _inputs: object, seen: Seen) -> None:
        view.calls.append(seen)

    return keep
