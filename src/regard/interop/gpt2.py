"""Language models from and to GPT-2 folders in the layout of Hugging Face.

GPT-2 keeps its matrices as (in, out), and queries, keys and values side by side in one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from regard.core.settings import parse
from regard.functional.positions import sinusoid
from regard.interop import folders, naming
from regard.interop.naming import Imported, Names
from regard.models.settings import DecoderConfig

NAME = "GPT-2"
SIZES = ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "n_inner")
PREFIX = "transformer."  # before all names but the output's; some folders leave it out
TOKENS, OUTPUT = "wte.weight", "lm_head.weight"

LAYER: tuple[Names, ...] = (
    ("ln_1", "around_self.norm"),
    ("attn.c_attn", "self_attention.to_q", "self_attention.to_k", "self_attention.to_v"),
    ("attn.c_proj", "self_attention.to_out"),
    ("ln_2", "around_feed_forward.norm"),
    ("mlp.c_fc", "feed_forward.inner"),
    ("mlp.c_proj", "feed_forward.outer"),
)
BUFFERS = (".attn.bias", ".attn.masked_bias")  # of a layer: masks, which some folders carry
TRANSPOSED = ("c_attn.weight", "c_proj.weight", "c_fc.weight")


class Gpt2Description(naming.Description):
    """What config.json says."""

    model_type: Literal["gpt2"]
    n_vocab: int = Field(alias="vocab_size")
    max_len: int = Field(alias="n_positions")
    d_model: int = Field(alias="n_embd")
    n_layers: int = Field(alias="n_layer")
    n_heads: int = Field(alias="n_head")
    d_ff: int | None = Field(None, alias="n_inner")
    dropout: float = Field(0.1, alias="resid_pdrop")
    eps: float = Field(1e-5, alias="layer_norm_epsilon")
    tied: bool = Field(True, alias="tie_word_embeddings")
    activation_function: Literal[
        "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish"
    ] = "gelu_new"
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    pad_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    scale_attn_weights: Literal[True] = True
    scale_attn_by_inverse_layer_idx: Literal[False] = False
    add_cross_attention: Literal[False] = False
    quantization_config: None = None

    def notes(self) -> list[str]:
        """What is not taken over."""
        others = [f"embd_pdrop={self.embd_pdrop}"] if self.embd_pdrop != self.dropout else []
        others += [f"attn_pdrop={self.attn_pdrop}"] if self.attn_pdrop else []
        note = (
            f"it trains on with dropout={self.dropout} on embeddings and on what each layer "
            f"adds; there is no counterpart of {', '.join(others)}"
        )
        return [note] if others else []


def refusal(config: DecoderConfig) -> str | None:
    """Why a model cannot be written as a GPT-2, or None where it can."""
    known = {
        "norm_first": (True,),
        "norm": ("layer",),
        "positions": ("learned", "sinusoidal", "none"),
        "n_kv_heads": (None, config.n_heads),
        "activation": tuple(folders.ACTIVATIONS.values()),
    }
    return naming.no_counterpart(config, known, NAME)


def described(config: DecoderConfig) -> dict[str, Any]:
    """What config.json is to say of our model."""
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        **Gpt2Description.theirs(config),
        "activation_function": folders.THEIR_ACTIVATIONS.get(config.activation, config.activation),
        "embd_pdrop": config.dropout,
        "attn_pdrop": 0.0,
        **folders.NO_SPECIALS,
        "pad_token_id": config.pad_id,
    }


def rows(config: DecoderConfig, prefix: str = PREFIX) -> Iterator[Names]:
    """The whole table for one model, tensor by tensor."""
    yield prefix + TOKENS, "embedding.tokens.weight"
    yield f"{prefix}wpe.weight", naming.POSITIONS
    for i in range(config.n_layers):
        yield from naming.parts(LAYER, naming.WEIGHT_AND_BIAS, f"{prefix}h.{i}.", f"layers.{i}.")
    yield from naming.parts((("ln_f", "norm"),), naming.WEIGHT_AND_BIAS, prefix)
    if not config.tied:
        yield OUTPUT, "to_logits.weight"


def read_gpt2(folder: Path) -> Imported:
    """The model of a folder whose config.json says ``gpt2``."""
    said = parse(Gpt2Description, folders.read_config(folder), folders.CONFIG)
    pad_id, notes = naming.padding(said.pad_token_id, said.eos_token_id, said.n_vocab)
    ours = {
        **said.ours(),
        "pad_id": pad_id,
        "d_ff": said.d_ff or 4 * said.d_model,
        "activation": folders.ACTIVATIONS[said.activation_function],
    }
    config = parse(DecoderConfig, ours, folders.CONFIG)
    tensors = folders.read_tensors(folder)
    prefix = PREFIX if any(name.startswith(PREFIX) for name in tensors) else ""
    passed_over = naming.untied_rest(tensors, config.tied, prefix + TOKENS, OUTPUT, BUFFERS)
    sizes = naming.listed(described(config), SIZES)
    of = f"{folder} (a {NAME} of {sizes}; matrices told as out × in)"
    weights = naming.fitted(config, rows(config, prefix), _transposed(tensors), of, passed_over)
    return Imported(config, weights, (*notes, *said.notes()))


def write_gpt2(config: DecoderConfig, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Write config.json and model.safetensors into a folder that exists.

    Biases that our model lacks are written as zeros, and sinusoids as a table of ``max_len`` rows.
    """
    naming.check_exportable(refusal(config))
    full = config.model_copy(update={"bias": True, "positions": "learned"})
    found = {**weights, **naming.zeros_beyond(config, full)}
    if config.positions == "sinusoidal":
        found[naming.POSITIONS] = sinusoid(torch.arange(config.max_len), config.d_model)
    tensors = naming.renamed(rows(full), found, NAME)
    folders.write_hf(folder, described(config), _transposed(tensors))


def _transposed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """(in, out) to (out, in), or back."""
    return {
        name: x.t().contiguous() if name.endswith(TRANSPOSED) and x.dim() == 2 else x
        for name, x in tensors.items()
    }
