"""The form of a language model for writing, kept until its weights change."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.kernels.call import may_fuse
from regard.kernels.gpu import HAS_TRITON
from regard.layers.prepacked import can_pack
from regard.models.quick import GPU_TYPES, WIDTHS, Kept
from regard.models.static_decoder import StaticDecoder


@torch.inference_mode()
def quick_text(model: Any, kept: Kept[StaticDecoder], dtype: torch.dtype | None) -> Any:
    """A form of the model that writes faster, or the model."""
    own = model.embedding.tokens.weight
    dtype = own.dtype if dtype is None else dtype
    stamp = kept.stamp(model)
    if stamp is None or model.training or not may_fuse() or not _fits(model, own, dtype):
        return model
    form = kept.forms.get(dtype)
    if form is None or form.device != own.device or kept.stamps.get(dtype) != stamp:
        kept.forms.pop(dtype, None)  # its memory is wanted
        kept.forms[dtype] = StaticDecoder(model, dtype)
    kept.stamps[dtype] = stamp
    return kept.forms[dtype]


def _fits(model: Any, own: Tensor, dtype: torch.dtype) -> bool:
    """Whether there is a form here that can do what the model does."""
    if model.config.positions == "alibi":
        return False
    if own.is_cuda:
        return HAS_TRITON and model.config.d_head in WIDTHS and dtype in GPU_TYPES
    return can_pack(own[:1].to(dtype))
