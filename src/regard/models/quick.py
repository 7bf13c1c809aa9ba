"""Forms of a Transformer for decoding, kept until its weights change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from regard.kernels.call import may_fuse
from regard.kernels.gpu import HAS_TRITON
from regard.layers.prepacked import can_pack
from regard.models.static import StaticTransformer
from regard.models.static_cpu import CpuTransformer
from regard.models.watch import Watch

WIDTHS = (16, 32, 64, 128)
"""Of a head, that GPU kernels are written for."""
GPU_TYPES = (torch.float32, torch.bfloat16, torch.float16)
AnyForm = StaticTransformer | CpuTransformer
Make = Callable[[Any, torch.dtype], AnyForm]


T = TypeVar("T")


class Kept(Generic[T]):
    """What a model keeps for decoding. A copy of the model begins without."""

    def __init__(self) -> None:
        self.forms: dict[torch.dtype, T] = {}
        self.stamps: dict[torch.dtype, object] = {}
        self._watch: Watch | None = None

    def outdate(self) -> None:
        """The weights may change from now on."""
        self.stamps.clear()

    def stamp(self, model: nn.Module) -> object:
        """Changes when weights do; None where somebody watches the model."""
        if self._watch is None or not self._watch.holds():
            self._watch = Watch(model)
        return self._watch.stamp()

    def __deepcopy__(self, _memo: object) -> Kept[T]:
        return Kept()


@torch.inference_mode()
def quick(model: Any, kept: Kept[AnyForm], dtype: torch.dtype | None) -> Any:
    """A form of the model that decodes faster, or the model."""
    own = model.decoder.embedding.tokens.weight
    dtype = own.dtype if dtype is None else dtype
    kind = _kind(model, own, dtype)
    stamp = kept.stamp(model)
    if kind is None or model.training or stamp is None or not may_fuse():
        return model
    form = kept.forms.get(dtype)
    if form is None or form.device != own.device:
        kept.forms[dtype] = kind(model, dtype)
    elif kept.stamps.get(dtype) != stamp:
        form.update(model)
    kept.stamps[dtype] = stamp
    return kept.forms[dtype]


def _kind(model: Any, own: Tensor, dtype: torch.dtype) -> Make | None:
    """The form for this device, if there is one that can do what the model does."""
    config = model.config
    if not config.plain:
        return None
    if own.is_cuda:
        fits = HAS_TRITON and config.d_model // config.n_heads in WIDTHS
        return StaticTransformer if fits and dtype in GPU_TYPES else None
    return CpuTransformer if can_pack(own[:1].to(dtype)) else None
