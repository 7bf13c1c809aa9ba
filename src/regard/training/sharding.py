"""Models that do not fit: each process holds its part of weights, gradients and optimiser (FSDP2).

The weights of a block are gathered when it is needed and forgotten afterwards. To validate and to
write a model down, whole weights are gathered into a plain copy, which needs a quarter of what
training would need. Imported only where a model is sharded: torch takes a second to get ready.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.utils._pytree import register_pytree_node

from regard.checkpoints.run_folder import model_tensors
from regard.layers.blocks import TransformerBlock
from regard.layers.key_values import KeyValues

METHODS = ("first", "together", "after_prefix", "project_source")
"""By which blocks are called besides ``forward``."""


class Shards:
    """A model that was cut into parts, in place, and a plain copy of it."""

    def __init__(self, model: nn.Module, device: torch.device, n: int) -> None:
        mesh = init_device_mesh(device.type, (n,))
        self.plain = copy.deepcopy(model).requires_grad_(False)
        _look_inside_key_values()
        # Keys and values are views; nothing is ever added to them in place.
        warnings.filterwarnings("ignore", "FSDP2-wrapped module", UserWarning)
        for block in (one for one in model.modules() if isinstance(one, TransformerBlock)):
            fully_shard(block, mesh=mesh)
            for name in METHODS:
                if hasattr(block, name):
                    register_fsdp_forward_method(block, name)
        fully_shard(model, mesh=mesh)  # all else is one part
        for part in model.modules():
            if isinstance(part, FSDPModule):  # losses are divided by the tokens of all already
                part.set_gradient_divide_factor(1.0)
                part.set_force_sum_reduction_for_comms(True)  # gloo has no sums with a factor

    @torch.no_grad()
    def gathered(self, weights: Mapping[str, Tensor]) -> nn.Module:
        """The plain copy with whole weights; all processes must take part."""
        for name, tensor in model_tensors(self.plain).items():
            tensor.copy_(self.whole(weights[name]))
        return self.plain

    def whole(self, tensor: Tensor) -> Tensor:
        """All of a tensor of which a process may hold a part; all processes must take part."""
        return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

    def part_like(self, tensor: Tensor, value: Tensor) -> Tensor:
        """What this process holds of a whole tensor, if it holds a part of one like it."""
        if not isinstance(tensor, DTensor) or value.shape != tensor.shape:
            return value.to(tensor.device)
        mesh, placements = tensor.device_mesh, tensor.placements
        return distribute_tensor(value.to(tensor.device), mesh, placements, src_data_rank=None)


def _look_inside_key_values() -> None:
    """Let torch find the tensors of a block's keys and values: it must know when they are used."""
    if getattr(KeyValues, "_is_pytree", False):
        return

    def flatten(one: KeyValues) -> tuple[list[Tensor], Any]:
        return [one.k, one.v], one.cache

    def unflatten(tensors: Iterable[Tensor], cache: Any) -> KeyValues:
        k, v = tensors
        return KeyValues(k, v, cache)

    register_pytree_node(KeyValues, flatten, unflatten)
    KeyValues._is_pytree = True  # type: ignore[attr-defined]
