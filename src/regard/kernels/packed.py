"""Kernels for texts end to end: each sees itself only, and nothing is spent on the rest."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from regard.functional.packing import PackedMask
from regard.kernels.call import Call


def short(call: Call) -> Tensor:
    """Groups of whole texts, one a program: ours, in Triton. (1, H, T, D) -> (1, H, T, D)."""
    from regard.kernels.gpu.packed_attention import attend_packed  # needs Triton

    texts = cast("PackedMask", call.mask)
    q, k, v = (_rows(x) for x in (call.factors.q, call.factors.k, call.v))
    found, _ = attend_packed(
        q, k, v, texts.queries, texts.keys, texts.spans, call.factors.scale, call.causal,
        texts.block,
    )  # fmt: skip
    return found.transpose(0, 1).unsqueeze(0)


def long(call: Call) -> Tensor:
    """Torch's variable-length flash attention, for texts that no group can hold."""
    from torch.nn.attention.varlen import varlen_attn  # there is none on a CPU

    texts = cast("PackedMask", call.mask)
    q, k, v = (_rows(x).contiguous() for x in (call.factors.q, call.factors.k, call.v))
    found = cast("Tensor", varlen_attn(
        q, k, v, texts.query_bounds, texts.key_bounds, texts.longest, texts.longest,
        scale=call.factors.scale, window_size=(-1, 0) if call.causal else (-1, -1),
    ))  # fmt: skip
    found = torch.where((texts.queries >= 0)[:, None, None], found, 0.0)  # not written: no text
    return found.transpose(0, 1).unsqueeze(0)


def _rows(x: Tensor) -> Tensor:
    """(1, H, N, D) -> (N, H, D)"""
    return x.squeeze(0).transpose(0, 1)
