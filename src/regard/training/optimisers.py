"""Optimisers by name, and which weights learn how fast.

A new optimiser is a class of options and a function that builds it. Torch is imported only when
one is built: settings, which name an optimiser, are read by the command line too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from regard.core.errors import CheckpointError, ConfigError
from regard.core.registry import Registry

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn
    from torch.optim import Optimizer


class OptimiserOptions(BaseModel):
    """Base of every optimiser's options: names that are not there are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class OptimiserKind:
    """An entry of the registry."""

    options: type[OptimiserOptions]
    build: Callable[[list[dict[str, Any]], Any, bool], Sequence[Optimizer]]
    """(groups, options, on a GPU) -> one optimiser, or several that share the weights. A group has
    ``params``, their ``names``, and ``lr`` and ``weight_decay`` of its own."""
    capturable: bool = False
    """Whether a step can be recorded as a CUDA graph: the rate is then a tensor on the GPU."""


OPTIMISERS: Registry[OptimiserKind] = Registry("optimiser")


class AdamOptions(OptimiserOptions):
    """Of ``adamw`` and ``adam``; by default those of Vaswani et al. 2017."""

    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = Field(1e-9, gt=0)


class SgdOptions(OptimiserOptions):
    """Of ``sgd``."""

    momentum: float = Field(0.9, ge=0, lt=1)
    nesterov: bool = False


class AdafactorOptions(OptimiserOptions):
    """Of ``adafactor`` (Shazeer & Stern 2018), which keeps a row and a column of each matrix."""

    beta2_decay: float = Field(-0.8, le=0)
    eps: tuple[float | None, float] = (None, 1e-3)
    d: float = Field(1.0, ge=1)


class MuonOptions(AdamOptions):
    """Of ``muon`` (Jordan et al. 2024), and of the AdamW beside it."""

    momentum: float = Field(0.95, ge=0, lt=1)
    nesterov: bool = True
    ns_steps: int = Field(5, ge=1)
    adjust_lr_fn: Literal["original", "match_rms_adamw"] = "match_rms_adamw"


def _muon(groups: list[dict[str, Any]], options: MuonOptions, _on_gpu: bool) -> list[Optimizer]:
    """Muon for the matrices between layers; AdamW for tables, the last layer, norms and biases."""
    from torch.optim import AdamW, Muon

    hidden, others = (_matrices(groups, hidden=choice) for choice in (True, False))
    if not hidden:
        raise ConfigError("optimiser 'muon' finds no matrix between layers; choose adamw")
    own = options.model_dump(include={"momentum", "nesterov", "ns_steps", "adjust_lr_fn"})
    beside = AdamW(others, betas=options.betas, eps=options.eps, fused=True) if others else None
    return [Muon(hidden, **own), *([beside] if beside else [])]


def _from_torch(name: str, **fixed: bool) -> Callable[..., list[Optimizer]]:
    """Builds a class of ``torch.optim`` by its name."""

    def build(groups: list[dict[str, Any]], options: BaseModel, _on_gpu: bool) -> list[Optimizer]:
        import torch

        return [getattr(torch.optim, name)(groups, **dict(options), **fixed)]

    return build


OPTIMISERS.add("adamw")(OptimiserKind(AdamOptions, _from_torch("AdamW", fused=True), True))
OPTIMISERS.add("adam")(OptimiserKind(AdamOptions, _from_torch("Adam", fused=True), True))
OPTIMISERS.add("sgd")(OptimiserKind(SgdOptions, _from_torch("SGD", fused=True)))
OPTIMISERS.add("adafactor")(OptimiserKind(AdafactorOptions, _from_torch("Adafactor")))
OPTIMISERS.add("muon")(OptimiserKind(MuonOptions, _muon))


def make_optimisers(
    name: str, options: Mapping[str, Any], groups: list[dict[str, Any]], device: torch.device
) -> Sequence[Optimizer]:
    """An optimiser of the registry for ``parameter_groups``; its learning rate is 0 as yet."""
    import torch

    kind, on_gpu = OPTIMISERS[name], device.type == "cuda"
    for group in groups:  # each its own number, for it is changed in place
        recorded = on_gpu and kind.capturable
        group["lr"] = torch.zeros((), device=device) if recorded else 0.0
        if recorded:
            group["capturable"] = True  # nothing that a step needs to know is read by the host
    return kind.build(groups, kind.options(**options), on_gpu)


def set_learning_rate(optimisers: Iterable[Optimizer], rate: float) -> None:
    """For the steps to come. On a GPU the number lies where the kernels find it."""
    import torch

    for optimiser in optimisers:
        for group in optimiser.param_groups:
            own = rate * group["scale"]
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(own)
            else:
                group["lr"] = own


def optimiser_tensors(optimisers: Iterable[Optimizer], model: nn.Module) -> dict[str, Tensor]:
    """``slot/parameter`` -> tensor, for every slot that an optimiser keeps."""
    import torch

    return {
        f"{slot}/{name}": tensor
        for optimiser in optimisers
        for name, parameter in model.named_parameters()
        for slot, tensor in optimiser.state.get(parameter, {}).items()
        if isinstance(tensor, torch.Tensor)
    }


def load_optimisers(
    optimisers: Iterable[Optimizer],
    model: nn.Module,
    tensors: Mapping[str, Tensor],
    part_like: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> None:
    """Put the tensors of a checkpoint back into the optimisers whose weights they belong to.

    Where the model lies in parts, ``part_like`` gives the part of a tensor that a weight is of.
    """
    owners = {
        parameter: optimiser
        for optimiser in optimisers
        for group in optimiser.param_groups
        for parameter in group["params"]
    }
    parameters = dict(model.named_parameters())
    for key, tensor in tensors.items():
        slot, name = key.split("/", 1)
        parameter = parameters[name]
        _check_slot(key, tensor, parameter)
        own = part_like(parameter, tensor) if part_like else tensor.to(parameter.device)
        owners[parameter].state[parameter][slot] = own.clone()
    for optimiser in {*owners.values()}:
        _check_alike(optimiser, parameters)


def _check_slot(key: str, tensor: Tensor, parameter: nn.Parameter) -> None:
    """What an optimiser keeps of a weight is one number, its shape, or that summed over an axis."""
    fits = tensor.dim() in (0, parameter.dim()) and all(
        n in (1, wanted) for n, wanted in zip(tensor.shape, parameter.shape, strict=False)
    )
    if not fits or not tensor.is_floating_point():
        raise CheckpointError(
            f"{key} of the checkpoint is {tuple(tensor.shape)} of {tensor.dtype}, which is nothing "
            f"that an optimiser keeps of {tuple(parameter.shape)}"
        )


def _check_alike(optimiser: Optimizer, parameters: Mapping[str, nn.Parameter]) -> None:
    """Of weights with equally many axes an optimiser keeps the same."""
    kept: dict[int, frozenset[str]] = {}
    owned = {parameter for group in optimiser.param_groups for parameter in group["params"]}
    for name, parameter in parameters.items():
        if parameter in owned and (slots := frozenset(optimiser.state.get(parameter, ()))):
            others = kept.setdefault(parameter.dim(), slots)
            if slots != others:
                lost = ", ".join(sorted(slots ^ others))
                raise CheckpointError(
                    f"the checkpoint lacks {lost} of {name}, or of another weight"
                )


# ------------------------------------------------------------------ which weights learn, how fast

_LAYER = re.compile(r"(?P<stack>(?:^|.*?\.))layers\.(?P<number>\d+)\.")
_EMBEDDING = re.compile(r"(?P<stack>(?:^|.*?\.))embedding\.")
_TABLE_OR_OUTPUT = re.compile(
    r"(^|\.)(embedding|tokens|segments|positions|to_logits|output_weight|head)(\.|$)"
)


def freeze(model: nn.Module, patterns: Sequence[str]) -> None:
    """Weights whose names match a pattern of ``train.freeze`` learn nothing."""
    names = [name for name, _ in model.named_parameters()]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            parts = sorted({name.split(".")[0] for name in names})
            raise ConfigError(
                f"train.freeze: {pattern!r} is the name of no weight; the parts are "
                f"{', '.join(parts)}, to be written as {parts[0]}.*"
            )
    for name, parameter in model.named_parameters():
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError("train.freeze leaves nothing that learns; freeze less")


def parameter_groups(
    model: nn.Module, *, layer_decay: float, weight_decay: float
) -> list[dict[str, Any]]:
    """What learns, by how fast and what it forgets: ``scale`` is the share of the learning rate.

    What is above the layers learns at the full rate, the last layer ``layer_decay`` times as fast,
    the one below it ``layer_decay``² times, and so on down to the embedding. An encoder and a
    decoder are two stacks, each counted from its own top. Only what has rows and columns decays.
    """
    heights = _heights(name for name, _ in model.named_parameters())
    groups: dict[tuple[float, float], dict[str, Any]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            scale = layer_decay ** _below(name, heights)
            decay = weight_decay if parameter.dim() > 1 else 0.0
            fresh = {"params": [], "names": [], "scale": scale, "weight_decay": decay}
            group = groups.setdefault((scale, decay), fresh)
            group["params"].append(parameter)
            group["names"].append(name)
    return [groups[key] for key in sorted(groups, reverse=True)]


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


def _matrices(groups: list[dict[str, Any]], *, hidden: bool) -> list[dict[str, Any]]:
    """Groups of the matrices both of whose sides are hidden states, or of all other weights."""
    chosen = []
    for group in groups:
        kept = [
            (name, parameter)
            for name, parameter in zip(group["names"], group["params"], strict=True)
            if hidden == (parameter.dim() == 2 and _TABLE_OR_OUTPUT.search(name) is None)
        ]
        if kept:
            names, parameters = zip(*kept, strict=True)
            chosen.append({**group, "names": [*names], "params": [*parameters]})
    return chosen
