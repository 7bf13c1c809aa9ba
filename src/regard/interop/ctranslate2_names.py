"""CTranslate2's names for the tensors of a Transformer, beside ours.

Theirs are paths into ``TransformerSpec``. Several of ours in a row stand below each other in one
of theirs: it projects to queries, keys and values at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from regard.interop.naming import Row
from regard.models.transformer import TransformerConfig

Names = tuple[str, ...]
"""Theirs, then ours."""

TENSORS: tuple[Names, ...] = (
    ("encoder/embeddings_0/weight", "encoder.embedding.tokens.weight"),
    ("decoder/embeddings/weight", "decoder.embedding.tokens.weight"),
)
TIED_OUTPUT: tuple[Names, ...] = (("decoder/projection/weight", "decoder.embedding.tokens.weight"),)
OWN_OUTPUT: tuple[Names, ...] = (("decoder/projection/weight", "decoder.output_weight"),)
OUTPUT_BIAS: tuple[Names, ...] = (("decoder/projection/bias", "decoder.output_bias"),)
LEARNED_POSITIONS: tuple[Names, ...] = (
    ("encoder/position_encodings/encodings", "encoder.embedding.positions.table"),
    ("decoder/position_encodings/encodings", "decoder.embedding.positions.table"),
)
LAST_NORMS: tuple[Names, ...] = (
    ("encoder/layer_norm", "encoder.norm"),
    ("decoder/layer_norm", "decoder.norm"),
)
ENCODER_NORMS: tuple[Names, ...] = (
    ("self_attention/layer_norm", "around_self.norm"),
    ("ffn/layer_norm", "around_feed_forward.norm"),
)
ENCODER_LINEARS: tuple[Names, ...] = (
    (
        "self_attention/linear_0",
        "self_attention.to_q",
        "self_attention.to_k",
        "self_attention.to_v",
    ),
    ("self_attention/linear_1", "self_attention.to_out"),
    ("ffn/linear_0", "feed_forward.inner"),
    ("ffn/linear_1", "feed_forward.outer"),
)
DECODER_NORMS: tuple[Names, ...] = (
    *ENCODER_NORMS,
    ("attention/layer_norm", "around_cross.norm"),
)
DECODER_LINEARS: tuple[Names, ...] = (
    *ENCODER_LINEARS,
    ("attention/linear_0", "cross_attention.to_q"),
    ("attention/linear_1", "cross_attention.to_k", "cross_attention.to_v"),
    ("attention/linear_2", "cross_attention.to_out"),
)

NORM = {"gamma": "weight", "beta": "bias"}
LINEAR = {"weight": "weight", "bias": "bias"}
LINEAR_WITHOUT_BIAS = {"weight": "weight"}
"""The tensors of a layer: theirs, ours."""


def rows(config: TransformerConfig) -> Iterator[Row]:
    """The whole table for one Transformer, tensor by tensor."""
    linear = LINEAR if config.bias else LINEAR_WITHOUT_BIAS
    whole = (
        *TENSORS,
        *(TIED_OUTPUT if config.tied_output else OWN_OUTPUT),
        *(OUTPUT_BIAS if config.output_bias else ()),
        *(LEARNED_POSITIONS if config.positions == "learned" else ()),
    )
    yield from (Row(theirs, tuple(ours)) for theirs, *ours in whole)
    if config.norm_first:
        yield from _parts(LAST_NORMS, NORM, "", "")
    for i in range(config.n_layers):
        for side, norms, linears in (
            ("encoder", ENCODER_NORMS, ENCODER_LINEARS),
            ("decoder", DECODER_NORMS, DECODER_LINEARS),
        ):
            yield from _parts(norms, NORM, f"{side}/layer_{i}/", f"{side}.layers.{i}.")
            yield from _parts(linears, linear, f"{side}/layer_{i}/", f"{side}.layers.{i}.")


def _parts(
    table: tuple[Names, ...], parts: dict[str, str], before_theirs: str, before_ours: str
) -> Iterator[Row]:
    for theirs, *ours in table:
        for their_part, our_part in parts.items():
            names = tuple(f"{before_ours}{name}.{our_part}" for name in ours)
            yield Row(f"{before_theirs}{theirs}/{their_part}", names)
