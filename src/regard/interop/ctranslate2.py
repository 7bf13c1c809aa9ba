"""A Transformer as a folder that CTranslate2 loads, written by CTranslate2's own classes.

What is exported computes what the model computes: log-probabilities agree to float32's rounding.
CTranslate2 has one kind of attention, so a system with another is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import CheckpointError
from regard.functional.positions import sinusoid
from regard.interop import naming
from regard.interop.folders import optional_package
from regard.interop.naming import Names
from regard.models.settings import SequenceConfig, TransformerConfig
from regard.models.transformer import Transformer
from regard.text.specials import BEGIN, END, END_ID, UNKNOWN

ENCODER_NORMS: tuple[Names, ...] = (
    ("self_attention/layer_norm", "around_self.norm"),
    ("ffn/layer_norm", "around_feed_forward.norm"),
)
ENCODER_LINEARS: tuple[Names, ...] = (
    ("self_attention/linear_0", *(f"self_attention.to_{part}" for part in "qkv")),
    ("self_attention/linear_1", "self_attention.to_out"),
    ("ffn/linear_0", "feed_forward.inner"),
    ("ffn/linear_1", "feed_forward.outer"),
)
DECODER_NORMS: tuple[Names, ...] = (*ENCODER_NORMS, ("attention/layer_norm", "around_cross.norm"))
DECODER_LINEARS: tuple[Names, ...] = (
    *ENCODER_LINEARS,
    ("attention/linear_0", "cross_attention.to_q"),
    ("attention/linear_1", "cross_attention.to_k", "cross_attention.to_v"),
    ("attention/linear_2", "cross_attention.to_out"),
)

NORM = {"gamma": "weight", "beta": "bias"}  # the tensors of a norm: theirs, ours

NAME = "CTranslate2"
LEAST_POSITIONS = 2048
"""Rows of a table of sinusoids. Ours go on for ever; CTranslate2 ends with its table."""
NORM_EPSILON = 1e-5  # of ``torch.nn.LayerNorm``

ACTIVATIONS = {"relu": 0, "gelu_tanh": 1, "silu": 2, "gelu": 3}  # numbers of ours

_COUNTERPARTS: dict[str, tuple[Any, ...]] = {
    "score": ("scaled_dot", "dot"),
    "norm": ("layer",),
    "eps": (NORM_EPSILON,),
    "n_kv_heads": (None,),
    "positions": ("sinusoidal", "learned", "none"),
    "activation": tuple(ACTIVATIONS),
    "hidden_source_id": (None, END_ID),
}
"""The values of our settings that CTranslate2 can compute."""


def rows(config: TransformerConfig) -> Iterator[Names]:
    """The whole table for one Transformer, tensor by tensor."""
    output = naming.TARGET_TOKENS if config.tied_output else naming.OUTPUT_WEIGHT
    yield "encoder/embeddings_0/weight", naming.SOURCE_TOKENS
    yield "decoder/embeddings/weight", naming.TARGET_TOKENS
    yield "decoder/projection/weight", output
    if config.output_bias:
        yield "decoder/projection/bias", naming.OUTPUT_BIAS
    linear = naming.WEIGHT_AND_BIAS if config.bias else naming.WEIGHT
    for side, norms, linears in (
        ("encoder", ENCODER_NORMS, ENCODER_LINEARS),
        ("decoder", DECODER_NORMS, DECODER_LINEARS),
    ):
        if config.positions == "learned":
            yield f"{side}/position_encodings/encodings", f"{side}.{naming.POSITIONS}"
        if config.norm_first:
            last = ((f"{side}/layer_norm", f"{side}.norm"),)
            yield from naming.parts(last, NORM, dot="/")
        for i in range(config.n_layers):
            where = (f"{side}/layer_{i}/", f"{side}.layers.{i}.")
            yield from naming.parts(norms, NORM, *where, dot="/")
            yield from naming.parts(linears, linear, *where, dot="/")


def library() -> Any:
    """The package ``ctranslate2``, or how to get it."""
    return optional_package("ctranslate2", NAME)


def refusal(config: TransformerConfig) -> str | None:
    """Why a Transformer cannot be exported, or None where it can."""
    return naming.no_counterpart(config, _COUNTERPARTS, NAME)


def n_positions(config: SequenceConfig) -> int:
    """How many tokens the exported model can read or write; learned positions set it."""
    return config.longest or max(config.max_len, LEAST_POSITIONS)


def write_ctranslate2(
    model: Transformer,
    folder: Path,
    *,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
) -> None:
    """Write model.bin, config.json and the vocabularies into a folder that exists.

    Tokens are in the order of their ids. The end token of a source is added by CTranslate2, the
    begin token of a target too.
    """
    specs = library().specs
    config = model.config
    naming.check_exportable(refusal(config))
    spec = specs.TransformerSpec.from_config(
        (config.n_layers, config.n_layers),
        config.n_heads,
        pre_norm=config.norm_first,
        activation=specs.Activation(ACTIVATIONS[config.activation]),
    )
    weights = dict(model.named_parameters(remove_duplicate=False))
    for name, tensor in naming.renamed(rows(config), weights, NAME).items():
        part, attribute = name.rsplit("/", 1)
        setattr(specs.model_spec.index_spec(spec, part), attribute, tensor)
    for side in (spec.encoder, spec.decoder):
        side.scale_embeddings = config.embedding_scale
        if config.positions != "learned":
            side.position_encodings.encodings = _added_positions(config)
        for layer in side.layer if config.score == "dot" else ():
            layer.self_attention.queries_scale = 1.0
            if side is spec.decoder:
                layer.attention.queries_scale = 1.0
    spec.config.unk_token = UNKNOWN
    spec.config.bos_token = spec.config.decoder_start_token = BEGIN
    spec.config.eos_token = END
    spec.config.add_source_eos = config.hidden_source_id is None
    spec.config.layer_norm_epsilon = NORM_EPSILON
    spec.register_source_vocabulary(list(source_tokens))
    spec.register_target_vocabulary(list(target_tokens))
    try:
        spec.validate()
    except ValueError as error:
        raise CheckpointError(f"the model does not fit into {NAME}: {error}") from None
    spec.optimize()  # one copy of tensors that are the same
    spec.save(str(folder))


def _added_positions(config: TransformerConfig) -> Tensor:
    """What is added to the embeddings at each position (n_positions, D)."""
    table = sinusoid(torch.arange(n_positions(config)), config.d_model)
    return table if config.positions == "sinusoidal" else torch.zeros_like(table)
