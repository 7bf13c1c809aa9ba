"""Language models from and to GPT-2 folders in the layout of Hugging Face.

GPT-2 keeps its matrices as (in, out), and queries, keys and values side by side in one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from regard.core.settings import parse
from regard.functional.positions import sinusoid
from regard.interop.folders import (
    ACTIVATIONS,
    CONFIG,
    read_config,
    read_tensors,
    their_activation,
    write_hf,
)
from regard.interop.naming import (
    WEIGHT_AND_BIAS,
    Imported,
    Names,
    Row,
    check_exportable,
    check_tied,
    imported,
    no_counterpart,
    padding,
    parts,
    renamed,
    shapes,
)
from regard.models.decoder import DecoderConfig

NAME = "GPT-2"


class Gpt2Description(BaseModel):
    """What config.json says, as far as it decides what is computed."""

    model_config = ConfigDict(frozen=True, protected_namespaces=())

    model_type: Literal["gpt2"]
    vocab_size: int
    n_positions: int
    n_embd: int
    n_layer: int
    n_head: int
    n_inner: int | None = None
    activation_function: Literal[
        "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish"
    ] = "gelu_new"
    resid_pdrop: float = 0.1
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    layer_norm_epsilon: float = 1e-5
    tie_word_embeddings: bool = True
    pad_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    scale_attn_weights: Literal[True] = True
    scale_attn_by_inverse_layer_idx: Literal[False] = False
    add_cross_attention: Literal[False] = False
    quantization_config: None = None

    def ours(self) -> DecoderConfig:
        """The same in our terms."""
        fields = {
            "n_vocab": self.vocab_size,
            "pad_id": padding(self.pad_token_id, self.eos_token_id, self.vocab_size)[0],
            "max_len": self.n_positions,
            "d_model": self.n_embd,
            "n_layers": self.n_layer,
            "n_heads": self.n_head,
            "d_ff": self.n_inner or 4 * self.n_embd,
            "dropout": self.resid_pdrop,
            "eps": self.layer_norm_epsilon,
            "activation": ACTIVATIONS[self.activation_function],
            "tied": self.tie_word_embeddings,
        }
        return parse(DecoderConfig, fields, CONFIG)

    def notes(self) -> tuple[str | None, ...]:
        """What is not taken over, or not as it is."""
        others = [
            f"{name}={value}"
            for name, value, kept in (
                ("embd_pdrop", self.embd_pdrop, self.resid_pdrop),
                ("attn_pdrop", self.attn_pdrop, 0.0),
            )
            if value != kept
        ]
        return (
            padding(self.pad_token_id, self.eos_token_id, self.vocab_size)[1],
            f"it trains on with dropout={self.resid_pdrop} on embeddings and on what each layer "
            f"adds; there is no counterpart of {', '.join(others)}"
            if others
            else None,
        )


def refusal(config: DecoderConfig) -> str | None:
    """Why a model cannot be written as a GPT-2, or None where it can."""
    known = {
        "norm": ("layer",),
        "positions": ("learned", "sinusoidal", "none"),
        "n_kv_heads": (None, config.n_heads),
        "activation": tuple(ACTIVATIONS.values()),
    }
    return no_counterpart(config, known, NAME)


def described(config: DecoderConfig) -> dict[str, object]:
    """What config.json is to say of our model."""
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": config.n_vocab,
        "n_positions": config.max_len,
        "n_embd": config.d_model,
        "n_layer": config.n_layers,
        "n_head": config.n_heads,
        "n_inner": config.d_ff,
        "activation_function": their_activation(config.activation),
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": 0.0,
        "layer_norm_epsilon": config.eps,
        "tie_word_embeddings": config.tied,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": config.pad_id,
        "torch_dtype": "float32",
    }


PREFIX = "transformer."
"""Before all names but the output's; some folders leave it out."""
TOKENS, OUTPUT = "wte.weight", "lm_head.weight"

LAYER: tuple[Names, ...] = (
    ("ln_1", "around_self.norm"),
    ("attn.c_attn", "self_attention.to_q", "self_attention.to_k", "self_attention.to_v"),
    ("attn.c_proj", "self_attention.to_out"),
    ("ln_2", "around_feed_forward.norm"),
    ("mlp.c_fc", "feed_forward.inner"),
    ("mlp.c_proj", "feed_forward.outer"),
)
BUFFERS = (".attn.bias", ".attn.masked_bias")
"""Of a layer: masks, which some folders carry."""
TURNED = ("c_attn.weight", "c_proj.weight", "c_fc.weight")


def rows(config: DecoderConfig, prefix: str = PREFIX) -> Iterator[Row]:
    """The whole table for one model, tensor by tensor."""
    yield Row(prefix + TOKENS, ("embedding.tokens.weight",))
    yield Row(f"{prefix}wpe.weight", ("embedding.positions.table",))
    for i in range(config.n_layers):
        yield from parts(LAYER, WEIGHT_AND_BIAS, f"{prefix}h.{i}.", f"layers.{i}.")
    yield from parts((("ln_f", "norm"),), WEIGHT_AND_BIAS, prefix)
    if not config.tied:
        yield Row(OUTPUT, ("to_logits.weight",))


def read_gpt2(folder: Path) -> Imported:
    """The model of a folder whose config.json says ``gpt2``."""
    said = parse(Gpt2Description, read_config(folder), CONFIG)
    config = said.ours()
    tensors = read_tensors(folder)
    prefix = PREFIX if any(name.startswith(PREFIX) for name in tensors) else ""
    passed_over = {name for name in tensors if name.endswith(BUFFERS)}
    if config.tied:
        check_tied(tensors, prefix + TOKENS, OUTPUT)
        passed_over.add(OUTPUT)
    sizes = ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head")
    told = ", ".join(f"{name}={getattr(said, name)}" for name in sizes)
    of = f"{folder} (a {NAME} of {told}, n_inner={config.d_ff}; matrices told as out × in)"
    table = rows(config, prefix)
    notes = said.notes()
    return imported(config, table, _turned(tensors), of, passed_over=passed_over, notes=notes)


def write_gpt2(config: DecoderConfig, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Write config.json and model.safetensors into a folder that exists.

    Biases that our model lacks are written as zeros, and sinusoids as a table of ``max_len`` rows.
    """
    check_exportable(refusal(config))
    full = config.model_copy(update={"bias": True, "positions": "learned"})
    beyond = {name: torch.zeros(shape) for name, shape in shapes(full).items()}
    for name in shapes(config):
        del beyond[name]
    if config.positions == "sinusoidal":
        table = sinusoid(torch.arange(config.max_len), config.d_model)
        beyond["embedding.positions.table"] = table
    tensors = renamed(rows(full), {**weights, **beyond}, NAME)
    write_hf(folder, described(config), _turned(tensors))


def _turned(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """(in, out) to (out, in), or back."""
    return {
        name: x.t().contiguous() if name.endswith(TURNED) and x.dim() == 2 else x
        for name, x in tensors.items()
    }
