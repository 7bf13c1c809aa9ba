"""What config.json of a LLaMA says, in our terms and back."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from regard.core.settings import parse
from regard.functional.positions import BASE
from regard.interop.decoders import padding
from regard.interop.hf_folder import CONFIG
from regard.interop.naming import no_counterpart
from regard.models.decoder import DecoderConfig

NAME = "LLaMA"
ARCHITECTURE = {"norm": "rms", "activation": "swiglu", "positions": "rotary"}
"""Of our settings, those that make a LLaMA."""


One = Annotated[float, Field(ge=1.0, le=1.0)]


class Rope(BaseModel):
    """How rotary positions are stretched, which must be not at all."""

    model_config = ConfigDict(frozen=True)

    rope_type: Literal["default"] = Field(
        "default", validation_alias=AliasChoices("rope_type", "type")
    )
    rope_theta: float | None = None
    partial_rotary_factor: One = 1.0


class Description(BaseModel):
    """What config.json says, as far as it decides what is computed."""

    model_config = ConfigDict(frozen=True, protected_namespaces=())

    model_type: Literal["llama"]
    vocab_size: int
    max_position_embeddings: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int | None = None
    intermediate_size: int
    head_dim: int | None = None
    hidden_act: Literal["silu", "swish"] = "silu"
    rms_norm_eps: float = 1e-6
    rope_theta: float = BASE
    rope_scaling: Rope | None = None
    rope_parameters: Rope | None = None
    rope_interleaved: Literal[False] = False
    partial_rotary_factor: One = 1.0
    attention_bias: bool = False
    mlp_bias: bool = False
    attention_dropout: float = 0.0
    tie_word_embeddings: bool = False
    pad_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    quantization_config: None = None

    @model_validator(mode="after")
    def _has_a_counterpart(self) -> Description:
        problems = []
        if self.attention_bias != self.mlp_bias:
            problems.append(
                f"attention_bias={self.attention_bias} and mlp_bias={self.mlp_bias}: only both or "
                "neither are supported"
            )
        if self.head_dim and self.head_dim * self.num_attention_heads != self.hidden_size:
            problems.append(
                f"head_dim={self.head_dim}: only hidden_size / num_attention_heads "
                f"({self.hidden_size} / {self.num_attention_heads}) is supported"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def ours(self) -> DecoderConfig:
        """The same in our terms."""
        rope = self.rope_parameters or self.rope_scaling or Rope()
        fields = {
            "n_vocab": self.vocab_size,
            "pad_id": padding(self.pad_token_id, self.eos_token_id, self.vocab_size)[0],
            "max_len": self.max_position_embeddings,
            "d_model": self.hidden_size,
            "n_layers": self.num_hidden_layers,
            "n_heads": self.num_attention_heads,
            "n_kv_heads": self.num_key_value_heads,
            "d_ff": self.intermediate_size,
            "eps": self.rms_norm_eps,
            "rotary_base": rope.rope_theta or self.rope_theta,
            "bias": self.attention_bias,
            "tied": self.tie_word_embeddings,
        }
        return parse(DecoderConfig, {**ARCHITECTURE, "dropout": 0.0, **fields}, CONFIG)

    def notes(self) -> tuple[str | None, ...]:
        """What is not taken over, or not as it is."""
        return (
            padding(self.pad_token_id, self.eos_token_id, self.vocab_size)[1],
            f"attention_dropout={self.attention_dropout} has no counterpart: it trains on without"
            if self.attention_dropout
            else None,
        )


def refusal(config: DecoderConfig) -> str | None:
    """Why a model cannot be written as a LLaMA, or None where it can."""
    known = {name: (needed,) for name, needed in ARCHITECTURE.items()}
    return no_counterpart(config, known, NAME)


def described(config: DecoderConfig) -> dict[str, object]:
    """What config.json is to say of our model."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": config.n_vocab,
        "max_position_embeddings": config.max_len,
        "hidden_size": config.d_model,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.kv_heads,
        "intermediate_size": config.d_ff,
        "hidden_act": "silu",
        "rms_norm_eps": config.eps,
        "rope_theta": config.rotary_base,
        "attention_bias": config.bias,
        "mlp_bias": config.bias,
        "tie_word_embeddings": config.tied,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": config.pad_id,
        "torch_dtype": "float32",
    }
