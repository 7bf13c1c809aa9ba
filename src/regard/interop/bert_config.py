"""What config.json of a BERT folder says, in our settings, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from regard.core.errors import CheckpointError, ConfigError
from regard.core.settings import parse
from regard.interop.bert_names import ARCHITECTURES
from regard.interop.hf_folder import ACTIVATIONS, their_activation
from regard.interop.naming import no_counterpart
from regard.models.base import ModelConfig
from regard.models.encoder import EncoderConfig
from regard.models.encoder_heads import POOLINGS

NAME = "BERT"

FIELDS: dict[str, tuple[str, Any]] = {
    "vocab_size": ("n_vocab", 30522),
    "hidden_size": ("d_model", 768),
    "num_hidden_layers": ("n_layers", 12),
    "num_attention_heads": ("n_heads", 12),
    "intermediate_size": ("d_ff", 3072),
    "hidden_dropout_prob": ("dropout", 0.1),
    "max_position_embeddings": ("max_len", 512),
    "type_vocab_size": ("n_segments", 2),
    "layer_norm_eps": ("eps", 1e-12),
    "pad_token_id": ("pad_id", 0),
}
"""Their settings: ours, and what holds where a folder does not say."""

READABLE = {theirs: head for head, theirs in ARCHITECTURES.items()} | {
    "BertForPreTraining": "masked"
}
"""Their classes, the head we read."""

_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "model_type": ("bert",),
    "hidden_act": tuple(ACTIVATIONS),
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
}
"""Their settings of which we have a counterpart for these values only."""

_OF_HEADS = {"cls.": "masked", "classifier.": "classify", "qa_outputs.": "spans"}
"""How the tensors of a head begin."""


def config_of(raw: Mapping[str, Any], names: Iterable[str], path: Path) -> EncoderConfig:
    """Ours for config.json at ``path``; where it names no class, the tensors' names tell."""
    head = _head(raw, names)
    problems = _without_counterpart(raw)
    if head is None:
        known = ", ".join(READABLE)
        problems.append(f"architectures={raw['architectures']!r} (supported: one of {known})")
    if problems:
        raise CheckpointError(f"{path} describes no encoder that we have: {'; '.join(problems)}")
    ours = {ours: raw.get(theirs, default) for theirs, (ours, default) in FIELDS.items()}
    ours |= {"head": head, "activation": ACTIVATIONS[raw.get("hidden_act", "gelu")]}
    if head == "classify":
        ours["n_labels"] = _n_labels(raw)
    try:
        return parse(EncoderConfig, ours, "")
    except ConfigError as error:
        raise CheckpointError(f"{path} describes no encoder, in our words: {error}") from None


def _head(raw: Mapping[str, Any], names: Iterable[str]) -> str | None:
    found = raw.get("architectures")
    if found:
        only = isinstance(found, list) and len(found) == 1 and isinstance(found[0], str)
        return READABLE.get(found[0]) if only else None
    present = {_OF_HEADS[start] for name in names for start in _OF_HEADS if name.startswith(start)}
    return min(present, default="none")  # of several, the tensors of the others are told as unused


def _without_counterpart(raw: Mapping[str, Any]) -> list[str]:
    problems = [
        f"{field}={raw[field]!r} (supported: {', '.join(map(str, known))})"
        for field, known in _SUPPORTED.items()
        if field in raw and raw[field] not in known
    ]
    if raw.get("type_vocab_size", 2) == 0:
        problems.append("type_vocab_size=0 (supported: 1 or more)")
    if raw.get("pad_token_id", 0) is None:
        problems.append("pad_token_id=None (supported: the id of the padding token)")
    return problems


def _n_labels(raw: Mapping[str, Any]) -> Any:
    """Labels with names are counted; of others there is a number, or there are two."""
    named = raw.get("id2label")
    return len(named) if isinstance(named, dict) and named else raw.get("num_labels", 2)


def refusal(config: ModelConfig) -> str | None:
    """Why a model cannot be written as BERT, or None where it can."""
    if not isinstance(config, EncoderConfig):
        return f"{NAME} is an encoder, and this is a model of the family {config.family!r}"
    known = {
        "norm_first": (False,),
        "norm": ("layer",),
        "embedding_norm": (True,),
        "activation": tuple(ACTIVATIONS.values()),
        "positions": ("learned", "sinusoidal", "none"),
        "pooling": ("cls",) if config.head == "classify" else tuple(POOLINGS),
        "cell": (None,),
    }
    return no_counterpart(config, known, NAME)


def described(config: EncoderConfig) -> dict[str, Any]:
    """What config.json shall say."""
    found: dict[str, Any] = {"architectures": [ARCHITECTURES[config.head]], "model_type": "bert"}
    found |= {theirs: getattr(config, ours) for theirs, (ours, _) in FIELDS.items()}
    found |= {"type_vocab_size": max(1, config.n_segments), "attention_probs_dropout_prob": 0.0}
    found["hidden_act"] = their_activation(config.activation)
    if config.n_labels is not None:
        names = [f"LABEL_{i}" for i in range(config.n_labels)]
        found["id2label"] = dict(enumerate(names))
        found["label2id"] = {name: i for i, name in enumerate(names)}
    return found
