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
from regard.interop import folders, naming
from regard.interop.naming import Imported, Names, Renaming
from regard.models.settings import DecoderConfig

NAME = "GPT-2"
FIELDS = {
    "vocab_size": "n_vocab",
    "n_positions": "max_len",
    "n_embd": "d_model",
    "n_layer": "n_layers",
    "n_head": "n_heads",
    "n_inner": "d_ff",
    "resid_pdrop": "dropout",
    "layer_norm_epsilon": "eps",
    "tie_word_embeddings": "tied",
}
"""Their settings, and ours that have the same value."""

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
        fields = {ours: getattr(self, theirs) for theirs, ours in FIELDS.items()}
        fields |= {
            "pad_id": naming.padding(self.pad_token_id, self.eos_token_id, self.vocab_size)[0],
            "d_ff": self.n_inner or 4 * self.n_embd,
            "activation": folders.ACTIVATIONS[self.activation_function],
        }
        return parse(DecoderConfig, fields, folders.CONFIG)

    def notes(self) -> tuple[str | None, ...]:
        """What is not taken over, or not as it is."""
        dropouts = (("embd_pdrop", self.resid_pdrop), ("attn_pdrop", 0.0))
        others = [
            f"{name}={getattr(self, name)}" for name, x in dropouts if getattr(self, name) != x
        ]
        dropout = (
            f"it trains on with dropout={self.resid_pdrop} on embeddings and on what each layer "
            f"adds; there is no counterpart of {', '.join(others)}"
        )
        pad = naming.padding(self.pad_token_id, self.eos_token_id, self.vocab_size)[1]
        return pad, dropout if others else None


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


def described(config: DecoderConfig) -> dict[str, object]:
    """What config.json is to say of our model."""
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        **{theirs: getattr(config, ours) for theirs, ours in FIELDS.items()},
        "activation_function": folders.their_activation(config.activation),
        "embd_pdrop": config.dropout,
        "attn_pdrop": 0.0,
        **folders.NO_MARKS,
        "pad_token_id": config.pad_id,
    }


def rows(config: DecoderConfig, prefix: str = PREFIX) -> Iterator[Renaming]:
    """The whole table for one model, tensor by tensor."""
    yield Renaming(prefix + TOKENS, ("embedding.tokens.weight",))
    yield Renaming(f"{prefix}wpe.weight", ("embedding.positions.table",))
    for i in range(config.n_layers):
        yield from naming.parts(LAYER, naming.WEIGHT_AND_BIAS, f"{prefix}h.{i}.", f"layers.{i}.")
    yield from naming.parts((("ln_f", "norm"),), naming.WEIGHT_AND_BIAS, prefix)
    if not config.tied:
        yield Renaming(OUTPUT, ("to_logits.weight",))


def read_gpt2(folder: Path) -> Imported:
    """The model of a folder whose config.json says ``gpt2``."""
    said = parse(Gpt2Description, folders.read_config(folder), folders.CONFIG)
    config = said.ours()
    tensors = folders.read_tensors(folder)
    prefix = PREFIX if any(name.startswith(PREFIX) for name in tensors) else ""
    passed_over = naming.untied_rest(tensors, config.tied, prefix + TOKENS, OUTPUT, BUFFERS)
    sizes = ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head")
    told = ", ".join(f"{name}={getattr(said, name)}" for name in sizes)
    of = f"{folder} (a {NAME} of {told}, n_inner={config.d_ff}; matrices told as out × in)"
    table = rows(config, prefix)
    notes = said.notes()
    return naming.imported(
        config, table, _turned(tensors), of, passed_over=passed_over, notes=notes
    )


def write_gpt2(config: DecoderConfig, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Write config.json and model.safetensors into a folder that exists.

    Biases that our model lacks are written as zeros, and sinusoids as a table of ``max_len`` rows.
    """
    naming.check_exportable(refusal(config))
    full = config.model_copy(update={"bias": True, "positions": "learned"})
    beyond = {name: torch.zeros(shape) for name, shape in naming.shapes(full).items()}
    for name in naming.shapes(config):
        del beyond[name]
    if config.positions == "sinusoidal":
        table = sinusoid(torch.arange(config.max_len), config.d_model)
        beyond["embedding.positions.table"] = table
    tensors = naming.renamed(rows(full), {**weights, **beyond}, NAME)
    folders.write_hf(folder, described(config), _turned(tensors))


def _turned(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """(in, out) to (out, in), or back."""
    return {
        name: x.t().contiguous() if name.endswith(TURNED) and x.dim() == 2 else x
        for name, x in tensors.items()
    }
