"""A Transformer as a folder that CTranslate2 loads, written by CTranslate2's own classes.

What is exported computes what the model computes: log-probabilities agree to float32's rounding.
CTranslate2 has one kind of attention, so a system with another is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import CheckpointError, ConfigError
from regard.functional.positions import sinusoid
from regard.interop.ctranslate2_names import rows
from regard.interop.naming import no_counterpart, renamed
from regard.models.base import SequenceConfig, SequenceModel
from regard.models.transformer import TransformerConfig
from regard.text.specials import BEGIN, END, END_ID, UNKNOWN

NAME = "CTranslate2"
LEAST_POSITIONS = 2048
"""Rows of a table of sinusoids. Ours go on for ever; CTranslate2 ends with its table."""
NORM_EPSILON = 1e-5
"""Of ``torch.nn.LayerNorm``."""

ACTIVATIONS = {"relu": 0, "gelu_tanh": 1, "silu": 2, "gelu": 3}
"""Their numbers for ours."""

_COUNTERPARTS: dict[str, tuple[Any, ...]] = {
    "score": ("scaled_dot", "dot"),
    "window": ("global",),
    "normaliser": ("softmax",),
    "positions": ("sinusoidal", "learned", "none"),
    "join": (None, "add"),
    "activation": tuple(ACTIVATIONS),
    "hidden_source_id": (None, END_ID),
}
"""The values of our settings that CTranslate2 can compute."""


def library() -> Any:
    """The package ``ctranslate2``, or how to get it."""
    try:
        import ctranslate2
    except ImportError as error:
        reason = "" if isinstance(error, ModuleNotFoundError) else f" ({error})"
        raise ConfigError(
            f"{NAME} cannot be imported{reason}; install it with: pip install 'regard[ctranslate2]'"
        ) from None
    return ctranslate2


def refusal(config: SequenceConfig) -> str | None:
    """Why a model cannot be exported, or None where it can."""
    if not isinstance(config, TransformerConfig):
        return f"{NAME} runs Transformers, and this is a model of the family {config.family!r}"
    return no_counterpart(config, _COUNTERPARTS, NAME)


def n_positions(config: SequenceConfig) -> int:
    """How many tokens the exported model can read or write; learned positions set it."""
    return config.longest or max(config.max_len, LEAST_POSITIONS)


def write_ctranslate2(
    model: SequenceModel,
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
    why_not = refusal(config)
    if why_not or not isinstance(config, TransformerConfig):
        raise ConfigError(f"this model cannot be exported: {why_not}")
    spec = specs.TransformerSpec.from_config(
        (config.n_layers, config.n_layers),
        config.n_heads,
        pre_norm=config.norm_first,
        activation=specs.Activation(ACTIVATIONS[config.activation]),
    )
    weights = dict(model.named_parameters(remove_duplicate=False))
    _fill(spec, config, renamed(rows(config), weights, NAME), specs.model_spec.index_spec)
    _describe(spec, config)
    spec.register_source_vocabulary(list(source_tokens))
    spec.register_target_vocabulary(list(target_tokens))
    try:
        spec.validate()
    except ValueError as error:
        raise CheckpointError(f"the model does not fit into {NAME}: {error}") from None
    spec.optimize()  # one copy of tensors that are the same
    spec.save(str(folder))


def _fill(spec: Any, config: TransformerConfig, tensors: dict[str, Tensor], part_of: Any) -> None:
    for name, tensor in tensors.items():
        part, attribute = name.rsplit("/", 1)
        setattr(part_of(spec, part), attribute, tensor)
    if config.positions != "learned":
        table = _table(config)
        spec.encoder.position_encodings.encodings = table
        spec.decoder.position_encodings.encodings = table
    if config.score == "dot":
        for layer in spec.encoder.layer:
            layer.self_attention.queries_scale = 1.0
        for layer in spec.decoder.layer:
            layer.self_attention.queries_scale = 1.0
            layer.attention.queries_scale = 1.0


def _table(config: TransformerConfig) -> Tensor:
    """What is added to the embeddings at each place (n_positions, D)."""
    if config.positions == "none":
        return torch.zeros(n_positions(config), config.d_model)
    return sinusoid(torch.arange(n_positions(config)), config.d_model)


def _describe(spec: Any, config: TransformerConfig) -> None:
    spec.encoder.scale_embeddings = spec.decoder.scale_embeddings = config.embedding_scale
    spec.config.unk_token = UNKNOWN
    spec.config.bos_token = BEGIN
    spec.config.eos_token = END
    spec.config.decoder_start_token = BEGIN
    spec.config.add_source_eos = config.hidden_source_id is None
    spec.config.layer_norm_epsilon = NORM_EPSILON
