"""What config.json of a GPT-2 says, in our terms and back."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from regard.core.settings import parse
from regard.interop.decoders import padding
from regard.interop.hf_folder import ACTIVATIONS, CONFIG, their_activation
from regard.interop.naming import no_counterpart
from regard.models.decoder import DecoderConfig

NAME = "GPT-2"


class Description(BaseModel):
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
