"""MarianMT's names for the tensors of a Transformer, beside ours, and its order of dimensions.

Marian's sinusoids are all sines, then all cosines; ours take turns. The residual stream knows no
order of its own, so that of every tensor that touches it is changed once, here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from regard.interop.naming import Row
from regard.models.transformer import TransformerConfig

SHARED = "model.shared.weight"
SOURCE = "model.encoder.embed_tokens.weight"
TARGET = "model.decoder.embed_tokens.weight"
OUTPUT = "lm_head.weight"
OUTPUT_BIAS = "final_logits_bias"
COMPUTED = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
"""Sinusoids, which old folders keep."""

ENCODER = (
    ("self_attn.q_proj", "self_attention.to_q"),
    ("self_attn.k_proj", "self_attention.to_k"),
    ("self_attn.v_proj", "self_attention.to_v"),
    ("self_attn.out_proj", "self_attention.to_out"),
    ("self_attn_layer_norm", "around_self.norm"),
    ("fc1", "feed_forward.inner"),
    ("fc2", "feed_forward.outer"),
    ("final_layer_norm", "around_feed_forward.norm"),
)
DECODER = (
    *ENCODER,
    ("encoder_attn.q_proj", "cross_attention.to_q"),
    ("encoder_attn.k_proj", "cross_attention.to_k"),
    ("encoder_attn.v_proj", "cross_attention.to_v"),
    ("encoder_attn.out_proj", "cross_attention.to_out"),
    ("encoder_attn_layer_norm", "around_cross.norm"),
)

_READS = ("to_q.weight", "to_k.weight", "to_v.weight", "inner.weight", "tokens.weight")
_WRITES = ("to_out.weight", "to_out.bias", "outer.weight", "outer.bias", "norm.weight", "norm.bias")


def rows(config: TransformerConfig) -> Iterator[Row]:
    """The whole table for one Transformer, tensor by tensor."""
    if config.shared_vocab:
        yield Row(SHARED, ("encoder.embedding.tokens.weight",))
    else:
        yield Row(SOURCE, ("encoder.embedding.tokens.weight",))
        yield Row(TARGET, ("decoder.embedding.tokens.weight",))
    if not config.tied_output:
        yield Row(OUTPUT, ("decoder.output_weight",))
    if config.output_bias:
        yield Row(OUTPUT_BIAS, ("decoder.output_bias",))
    for i in range(config.n_layers):
        for side, table in (("encoder", ENCODER), ("decoder", DECODER)):
            for theirs, ours in table:
                for part in ("weight", "bias"):
                    yield Row(
                        f"model.{side}.layers.{i}.{theirs}.{part}",
                        (f"{side}.layers.{i}.{ours}.{part}",),
                    )


def taking_turns(weights: Mapping[str, Tensor], d_model: int) -> dict[str, Tensor]:
    """Our names, Marian's dimensions -> our dimensions."""
    return _permuted(weights, _halves(d_model))


def in_halves(weights: Mapping[str, Tensor], d_model: int) -> dict[str, Tensor]:
    """Our names, our dimensions -> Marian's dimensions."""
    return _permuted(weights, _halves(d_model).argsort())


def _halves(d_model: int) -> Tensor:
    """For each of our dimensions, where Marian has it (D,)."""
    n_sines = (d_model + 1) // 2
    places = torch.arange(d_model)
    return places // 2 + n_sines * (places % 2)


def _permuted(weights: Mapping[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    found = {}
    for name, tensor in weights.items():
        if name.endswith(_READS) or name == "decoder.output_weight":
            found[name] = tensor[:, order]
        elif name.endswith(_WRITES):
            found[name] = tensor[order]
        else:
            found[name] = tensor
    return found
