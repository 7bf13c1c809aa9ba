"""The fast form of a model for decoding, kept until its weights change.

``FORMS`` says for a class of model which form it has here, if any. ``quickened`` is asked before
every translation, so it must be cheap: a walk through all modules takes as long as two tokens. The
dictionaries in which modules keep their parts never change; they are gathered once, and only their
contents are looked at.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import chain
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from regard.fast.language_model import StaticLanguageModel
from regard.fast.transformer_cpu import CpuTransformer
from regard.fast.transformer_gpu import GpuTransformer
from regard.fast.weights import can_pack
from regard.kernels.call import may_fuse
from regard.kernels.gpu import HAS_TRITON
from regard.kernels.small_batch import Then
from regard.models.decoder import LanguageModel
from regard.models.transformer import Transformer

PLAIN = "REGARD_PLAIN"
"""The environment variable that, set to 1, runs the plain layers everywhere: for debugging."""
WIDTHS = (16, 32, 64, 128)
"""Of a head, that GPU kernels are written for."""
GPU_TYPES = (torch.float32, torch.bfloat16, torch.float16)

Make = Callable[[Any, torch.dtype], Any]
"""Model, and what to compute in -> its fast form."""


def wants_plain() -> bool:
    """Whether the environment asks for the plain layers."""
    return os.environ.get(PLAIN, "") not in ("", "0")


@torch.inference_mode()
def quickened(model: Any, dtype: torch.dtype | None = None, *, fast: bool = True) -> Any:
    """The model made ready for decoding; itself where it has no form here, or must not have one.

    ``dtype`` is what to compute in; None leaves the weights as they are. The form has the weights
    of this moment: ask again when they may have changed. The model itself decodes where somebody
    watches its attentions or changes them, while it is trained, and with ``fast=False``.
    """
    find = FORMS.get(type(model))
    if find is None or not fast or wants_plain() or model.training or not may_fuse():
        return model
    kept: _Kept = model.__dict__.setdefault("_fast_forms", _Kept())  # goes with the model
    stamp, own = kept.stamp(model), next(model.parameters())
    dtype = own.dtype if dtype is None else dtype
    make = None if stamp is None else find(model, own[:1].to(dtype))
    return model if make is None else kept.form(model, make, dtype, stamp)


def _transformer(model: Transformer, weight: Tensor) -> Make | None:
    """Where a step is what joined weights compute: dot products, all keys, positions added."""
    config = model.config
    plain = (
        config.score in ("dot", "scaled_dot")
        and ({*config.window_names}, config.normaliser) == ({"global"}, "softmax")
        and (config.positions == "none" or config.join in (None, "add"))
        and config.positions in ("none", "sinusoidal", "learned")
        and (config.activation, config.hidden_source_id) == ("relu", None)
        and (config.embedding_scale, config.output_bias, config.tied_output) == (True, False, True)
        and (config.memory, config.cross_after, config.norm) == ("last", "attention", "layer")
        and (config.kv_heads, config.d_positions) == (config.n_heads, None)
        and (config.d_head, config.experts) == (None, None)
    )
    if not plain or not _has_kernels(weight, config.d_model // config.n_heads):
        return None
    return GpuTransformer if weight.is_cuda else CpuTransformer


def _language_model(model: LanguageModel, weight: Tensor) -> Make | None:
    config = model.config
    plain = (
        (config.score, config.normaliser) == ("scaled_dot", "softmax")
        and {*config.window_names} == {"global"}
        and config.positions in ("none", "sinusoidal", "learned", "rotary")
        and (config.joined_by, config.norm_first) == ("add", True)
        and config.norm in ("layer", "rms")
        and config.activation in get_args(Then)
        and (config.d_head, config.experts) == (None, None)
    )
    return StaticLanguageModel if plain and _has_kernels(weight, config.head_width) else None


def _has_kernels(weight: Tensor, d_head: int) -> bool:
    """Whether there are kernels for its device and number format, and for heads so wide."""
    if weight.is_cuda:
        return HAS_TRITON and d_head in WIDTHS and weight.dtype in GPU_TYPES
    return can_pack(weight)


FORMS: dict[type[nn.Module], Callable[[Any, Tensor], Make | None]] = {
    Transformer: _transformer,
    LanguageModel: _language_model,
}
"""Class of model -> what says how to make its form, given one of its weights as it will be there,
on its device; None where there is no such form."""


_n_updates = 0
"""Of all optimisers together: fused ones change weights without a trace."""


def _count_update(*_: object) -> None:
    global _n_updates
    _n_updates += 1


register_optimizer_step_post_hook(_count_update)


class Watch:
    """All that a model consists of, to see whether it is still what it was."""

    def __init__(self, model: nn.Module) -> None:
        modules = list(model.modules())
        hooks = ((one._forward_hooks, one._forward_pre_hooks) for one in modules)
        self._hooks = list(chain.from_iterable(hooks))
        self._places = [part for one in modules for part in (one._modules, one._parameters)]
        self._parts = self._now()
        self._held = list(chain.from_iterable(place.values() for place in self._places))
        """So that no other part can get the identity of one that was replaced."""
        self._weights = list(model.parameters())

    def holds(self) -> bool:
        """Whether no part was put in, taken out or replaced since."""
        return self._parts == self._now()

    def stamp(self) -> object:
        """Changes when weights are moved or changed in place; None where somebody watches.

        What is done to ``weight.data`` leaves no trace, nor does an update that is replayed from a
        CUDA graph: how often the model was switched to training counts besides.
        """
        if any(self._hooks):
            return None
        try:
            versions = [weight._version for weight in self._weights]
        except RuntimeError:  # made in inference mode: changes leave no trace
            return object()
        return _n_updates, versions, [weight.data_ptr() for weight in self._weights]

    def _now(self) -> list[int]:
        return list(map(id, chain.from_iterable(place.values() for place in self._places)))


class _Kept:
    """The forms of one model, by what they compute in. A copy of the model begins without."""

    def __init__(self) -> None:
        self.watch: Watch | None = None
        self.forms: dict[torch.dtype, tuple[Any, object]] = {}
        """Each with the stamp of its weights."""

    def stamp(self, model: nn.Module) -> object:
        """Changes when weights may have; None where somebody watches the model."""
        if self.watch is None or not self.watch.holds():
            self.watch = Watch(model)
        stamp = self.watch.stamp()
        return None if stamp is None else (stamp, getattr(model, "n_switches", 0))

    def form(self, model: nn.Module, make: Make, dtype: torch.dtype, stamp: object) -> Any:
        """The form with the weights that the model has now."""
        form, before = self.forms.pop(dtype, (None, None))
        if form is None or form.device != next(model.parameters()).device:
            form = make(model, dtype)
        elif before != stamp and hasattr(form, "update"):
            form.update(model)  # captured graphs stay good
        elif before != stamp:
            del form  # its memory is wanted
            form = make(model, dtype)
        self.forms[dtype] = form, stamp
        return form

    def __reduce__(self) -> tuple[type[_Kept], tuple[()]]:
        return _Kept, ()
