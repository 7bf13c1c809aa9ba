"""A MarianMT configuration as ours, and ours as Marian's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from regard.core.errors import CheckpointError
from regard.interop.hf_folder import ACTIVATIONS, their_activation
from regard.interop.naming import no_counterpart
from regard.models.base import ModelConfig
from regard.models.transformer import TransformerConfig
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID

NAME = "MarianMT"

_ONLY = {
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
    "is_encoder_decoder": True,
}
"""What Marian's description must say where it says anything."""
_PAIRS = (
    ("encoder_layers", "decoder_layers"),
    ("encoder_attention_heads", "decoder_attention_heads"),
    ("encoder_ffn_dim", "decoder_ffn_dim"),
)
"""What must be the same on both sides."""

_COUNTERPARTS: dict[str, tuple[Any, ...]] = {
    "norm_first": (False,),
    "bias": (True,),
    "score": ("scaled_dot",),
    "window": ("global",),
    "normaliser": ("softmax",),
    "positions": ("sinusoidal",),
    "join": (None, "add"),
    "activation": ("relu", "gelu", "gelu_tanh", "silu"),
    "hidden_source_id": (None,),
}
"""The values of our settings that Marian can compute."""


def config_of(raw: Mapping[str, Any], where: str) -> TransformerConfig:
    """Our configuration, with their vocabulary as it is."""
    problems = _strange(raw)
    if problems:
        raise CheckpointError(f"{where} describes what Regard has no counterpart of: {problems}")
    tied = raw.get("tie_word_embeddings", True)
    try:
        ours = {
            "n_source_vocab": raw["vocab_size"],
            "n_target_vocab": raw.get("decoder_vocab_size") or raw["vocab_size"],
            # Where nothing is tied, the embeddings of both sides aren't either.
            "shared_vocab": tied and raw.get("share_encoder_decoder_embeddings", True),
            "d_model": raw["d_model"],
            "n_layers": raw["encoder_layers"],
            "n_heads": raw["encoder_attention_heads"],
            "d_ff": raw["encoder_ffn_dim"],
            "dropout": raw.get("dropout", 0.1),
            "max_len": raw.get("max_position_embeddings", 512),
            "activation": ACTIVATIONS[raw.get("activation_function", "gelu")],
            "embedding_scale": raw.get("scale_embedding", False),
            "output_bias": True,
            "tied_output": tied,
        }
        return TransformerConfig.model_validate(ours, strict=True)
    except KeyError as error:
        raise CheckpointError(f"{where} does not say its {error.args[0]}") from None
    except ValidationError as error:
        told = "; ".join(
            f"{'.'.join(map(str, one['loc']))}: {one['msg']}, found {one['input']!r}"
            for one in error.errors()
        )
        raise CheckpointError(f"{where} describes no model: {told}") from None


def _strange(raw: Mapping[str, Any]) -> str:
    problems = [
        f"{name}={raw[name]!r} (supported: {only!r})"
        for name, only in _ONLY.items()
        if raw.get(name, only) != only
    ]
    problems += [
        f"{one}={raw[one]} beside {other}={raw[other]} (supported: both the same)"
        for one, other in _PAIRS
        if one in raw and raw.get(other, raw[one]) != raw[one]
    ]
    activation = raw.get("activation_function", "gelu")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        problems.append(f"activation_function={activation!r} (supported: {known})")
    return "; ".join(problems)


def refusal(config: ModelConfig) -> str | None:
    """Why a model cannot be exported, or None where it can."""
    if not isinstance(config, TransformerConfig):
        return f"{NAME} is a Transformer, and this is a model of the family {config.family!r}"
    return no_counterpart(config, _COUNTERPARTS, NAME)


def described(config: TransformerConfig) -> dict[str, Any]:
    """Marian's description of a model of ours, whose ids stay as they are."""
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        "vocab_size": config.n_source_vocab,
        "decoder_vocab_size": config.n_target_vocab,
        "share_encoder_decoder_embeddings": config.shared_vocab,
        "tie_word_embeddings": config.tied_output,
        "d_model": config.d_model,
        "encoder_layers": config.n_layers,
        "decoder_layers": config.n_layers,
        "encoder_attention_heads": config.n_heads,
        "decoder_attention_heads": config.n_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "dropout": config.dropout,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "activation_function": their_activation(config.activation),
        "scale_embedding": config.embedding_scale,
        "max_position_embeddings": config.max_len,
        "pad_token_id": PAD_ID,
        "bos_token_id": BEGIN_ID,
        "eos_token_id": END_ID,
        "unk_token_id": UNKNOWN_ID,
        "decoder_start_token_id": BEGIN_ID,
        "forced_eos_token_id": None,
        "torch_dtype": "float32",
    }
