"""Encoders from and to BERT folders in the layout of Hugging Face.

``BertModel`` alone or with a head for labels, masked words or spans; names may begin with
``bert.`` or not. What is read computes what BERT computes, to float32's rounding.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from regard.core.errors import CheckpointError, ConfigError
from regard.core.files import write_whole
from regard.functional.positions import sinusoid
from regard.interop.bert_config import NAME, config_of, described, refusal
from regard.interop.bert_names import LAYER, WITHOUT_PREFIX, rows
from regard.interop.hf_folder import CONFIG, WEIGHTS, read_config, read_tensors
from regard.interop.imported import Imported
from regard.interop.naming import renamed
from regard.interop.skeleton import fitted
from regard.models.base import ModelConfig
from regard.models.encoder import EncoderConfig

BUFFERS = ("embeddings.position_ids",)
"""Numbers from 0 on, which old folders keep."""

COPIES = (
    ("cls.predictions.decoder.weight", "embeddings.word_embeddings.weight"),
    ("cls.predictions.decoder.bias", "cls.predictions.bias"),
)
"""What the masked head may have twice, and where it is read from."""

_LINEARS = tuple(f".{ours}.weight" for _, ours in LAYER if not ours.endswith("norm"))


def read_bert(folder: Path) -> Imported:
    """The encoder of a folder with config.json and weights."""
    raw = read_config(folder)
    tensors = _plain(read_tensors(folder), folder)
    config = config_of(raw, tensors, folder / CONFIG)
    if config.head == "masked":
        tensors = _without_copies(tensors, folder)
    aside = _set_aside(config, tensors)
    weights = fitted(config, rows(config), tensors, str(folder), passed_over=(*BUFFERS, *aside))
    return Imported(config, weights, (*_told(aside), *_of_training(raw, config)))


def _plain(tensors: Mapping[str, Tensor], folder: Path) -> dict[str, Tensor]:
    """Without the prefix; the norms of old folders call their tensors gamma and beta."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        plain = name.removeprefix("bert.")
        for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
            if plain.endswith(f"LayerNorm{old}"):
                plain = plain.removesuffix(old) + new
        if plain in found:
            raise CheckpointError(f"{folder} holds {plain} twice, once as {name}; keep one of them")
        found[plain] = tensor
    return found


def _without_copies(tensors: Mapping[str, Tensor], folder: Path) -> dict[str, Tensor]:
    """Masked words are written by the token matrix: a copy is dropped, anything else refused."""
    left = dict(tensors)
    for copy, original in COPIES:
        tensor = left.pop(copy, None)
        if tensor is not None and not torch.equal(left.setdefault(original, tensor), tensor):
            raise CheckpointError(
                f"{folder}: {copy} differs from {original}; a masked head whose output is not "
                "tied to the embedding has no counterpart here"
            )
    return left


def _set_aside(config: EncoderConfig, tensors: Mapping[str, Tensor]) -> list[str]:
    """Heads that BERT has been trained with and that are not asked for."""
    parts = {"classify": (), "masked": ("pooler.", "cls.seq_relationship.")}
    return [name for name in tensors if name.startswith(parts.get(config.head, ("pooler.",)))]


def _told(aside: list[str]) -> list[str]:
    return [f"left aside, for no head here reads it: {', '.join(aside)}"] if aside else []


def _of_training(raw: Mapping[str, Any], config: EncoderConfig) -> list[str]:
    shares = {"attention_probs_dropout_prob": raw.get("attention_probs_dropout_prob", 0.1)}
    if config.head == "classify" and raw.get("classifier_dropout") != config.dropout:
        shares["classifier_dropout"] = raw.get("classifier_dropout")
    return [
        f"{field}={share} has no counterpart; it matters in training only"
        for field, share in shares.items()
        if share
    ]


def write_bert(config: ModelConfig, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Write config.json and model.safetensors; the weights are those of ``named_parameters``.

    What BERT has and the model lacks is written so that it says nothing: biases and segments of
    zero, and a table of sinusoids or of zeros, which ends at ``max_len``. There is no pooler where
    there are no labels, and ``transformers`` makes up one when asked for it.
    """
    why_not = refusal(config)
    if why_not or not isinstance(config, EncoderConfig):
        raise ConfigError(f"this model cannot be exported: {why_not}")
    tensors = renamed(rows(config), _complete(config, weights), NAME)
    if config.head != "none":
        tensors = {_prefixed(name): tensor for name, tensor in tensors.items()}
    write_whole(folder / CONFIG, json.dumps(described(config), indent=2) + "\n")
    write_whole(folder / WEIGHTS, save(tensors, metadata={"format": "pt"}))


def _prefixed(name: str) -> str:
    return name if name.startswith(WITHOUT_PREFIX) else f"bert.{name}"


def _complete(config: EncoderConfig, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights, and what BERT has besides."""
    D, found = config.d_model, dict(weights)
    if config.positions == "sinusoidal":
        table = sinusoid(torch.arange(config.max_len), D) / math.sqrt(D)
        found["embedding.positions.table"] = table
    if config.positions == "none":
        found["embedding.positions.table"] = torch.zeros(config.max_len, D)
    if not config.n_segments:
        found["embedding.segments.weight"] = torch.zeros(1, D)
    if not config.bias:
        for name in [name for name in weights if name.endswith(_LINEARS)]:
            bias = name.removesuffix("weight") + "bias"
            found[bias] = torch.zeros(weights[name].shape[0])
    return found
