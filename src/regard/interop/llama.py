"""Language models from and to LLaMA folders in the layout of Hugging Face.

Rotary positions there turn number i of a head with number i + d/2; ours turn neighbours. So the
rows that make queries and keys change places on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from regard.core.settings import parse
from regard.functional.positions import BASE
from regard.interop import naming
from regard.interop.folders import CONFIG, NO_SPECIALS, read_config, read_tensors, write_hf
from regard.interop.naming import Imported, Names
from regard.models.settings import DecoderConfig

NAME = "LLaMA"
SIZES = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "intermediate_size"),
)
ARCHITECTURE = {"norm": "rms", "activation": "swiglu", "positions": "rotary"}
"""Of our settings, those that make a LLaMA."""

One = Annotated[float, Field(ge=1.0, le=1.0)]

PREFIX = "model."  # before all names but the output's; some folders leave it out
TOKENS, OUTPUT = "embed_tokens.weight", "lm_head.weight"

NORMS: tuple[Names, ...] = (
    ("input_layernorm", "around_self.norm"),
    ("post_attention_layernorm", "around_feed_forward.norm"),
)
LINEARS: tuple[Names, ...] = (
    ("self_attn.q_proj", "self_attention.to_q"),
    ("self_attn.k_proj", "self_attention.to_k"),
    ("self_attn.v_proj", "self_attention.to_v"),
    ("self_attn.o_proj", "self_attention.to_out"),
    ("mlp.gate_proj", "feed_forward.inner"),
    ("mlp.up_proj", "feed_forward.beside"),
    ("mlp.down_proj", "feed_forward.outer"),
)
BUFFERS = (".self_attn.rotary_emb.inv_freq",)  # of a layer: angles, which old folders carry


class Rope(BaseModel):
    """How rotary positions are stretched, which must be not at all."""

    model_config = ConfigDict(frozen=True)

    rope_type: Literal["default"] = Field(
        "default", validation_alias=AliasChoices("rope_type", "type")
    )
    rope_theta: float | None = None
    partial_rotary_factor: One = 1.0


class LlamaDescription(naming.Description):
    """What config.json says."""

    model_type: Literal["llama"]
    n_vocab: int = Field(alias="vocab_size")
    max_len: int = Field(alias="max_position_embeddings")
    d_model: int = Field(alias="hidden_size")
    n_layers: int = Field(alias="num_hidden_layers")
    n_heads: int = Field(alias="num_attention_heads")
    n_kv_heads: int | None = Field(None, alias="num_key_value_heads")
    d_ff: int = Field(alias="intermediate_size")
    eps: float = Field(1e-6, alias="rms_norm_eps")
    rotary_base: float = Field(BASE, alias="rope_theta")
    bias: bool = Field(False, alias="attention_bias")
    tied: bool = Field(False, alias="tie_word_embeddings")
    mlp_bias: bool = False
    head_dim: int | None = None
    hidden_act: Literal["silu", "swish"] = "silu"
    rope_scaling: Rope | None = None
    rope_parameters: Rope | None = None
    rope_interleaved: Literal[False] = False
    partial_rotary_factor: One = 1.0
    attention_dropout: float = 0.0
    pad_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    quantization_config: None = None

    @model_validator(mode="after")
    def _has_a_counterpart(self) -> LlamaDescription:
        problems = []
        if self.bias != self.mlp_bias:
            problems.append(
                f"attention_bias={self.bias} and mlp_bias={self.mlp_bias}: only both or neither "
                "are supported"
            )
        if self.head_dim and self.head_dim * self.n_heads != self.d_model:
            problems.append(
                f"head_dim={self.head_dim}: only hidden_size / num_attention_heads "
                f"({self.d_model} / {self.n_heads}) is supported"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self


def refusal(config: DecoderConfig) -> str | None:
    """Why a model cannot be written as a LLaMA, or None where it can."""
    known = {name: (needed,) for name, needed in {**ARCHITECTURE, "norm_first": True}.items()}
    return naming.no_counterpart(config, known, NAME)


def described(config: DecoderConfig) -> dict[str, Any]:
    """What config.json is to say of our model."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **LlamaDescription.theirs(config),
        "num_key_value_heads": config.kv_heads,
        "hidden_act": "silu",
        "mlp_bias": config.bias,
        **NO_SPECIALS,
        "pad_token_id": config.pad_id,
    }


def rows(config: DecoderConfig, prefix: str = PREFIX) -> Iterator[Names]:
    """The whole table for one model, tensor by tensor."""
    kinds = naming.WEIGHT_AND_BIAS if config.bias else naming.WEIGHT
    yield prefix + TOKENS, "embedding.tokens.weight"
    for i in range(config.n_layers):
        yield from naming.parts(NORMS, naming.WEIGHT, f"{prefix}layers.{i}.", f"layers.{i}.")
        yield from naming.parts(LINEARS, kinds, f"{prefix}layers.{i}.", f"layers.{i}.")
    yield f"{prefix}norm.weight", "norm.weight"
    if not config.tied:
        yield OUTPUT, "to_logits.weight"


def read_llama(folder: Path) -> Imported:
    """The model of a folder whose config.json says ``llama``."""
    said = parse(LlamaDescription, read_config(folder), CONFIG)
    pad_id, notes = naming.padding(said.pad_token_id, said.eos_token_id, said.n_vocab)
    if said.attention_dropout:
        share = said.attention_dropout
        notes.append(f"attention_dropout={share} has no counterpart: it trains on without")
    rope = said.rope_parameters or said.rope_scaling or Rope()
    ours = {**ARCHITECTURE, "dropout": 0.0, **said.ours(), "pad_id": pad_id}
    ours["rotary_base"] = rope.rope_theta or said.rotary_base
    config = parse(DecoderConfig, ours, CONFIG)
    tensors = read_tensors(folder)
    prefix = PREFIX if any(name.startswith(PREFIX) for name in tensors) else ""
    passed_over = naming.untied_rest(tensors, config.tied, prefix + TOKENS, OUTPUT, BUFFERS)
    of = f"{folder} (a {NAME} of {naming.listed(described(config), SIZES)})"
    weights = naming.fitted(config, rows(config, prefix), tensors, of, passed_over)
    return Imported(config, _reordered(config, weights, neighbours), tuple(notes))


def write_llama(config: DecoderConfig, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Write config.json and model.safetensors into a folder that exists."""
    naming.check_exportable(refusal(config))
    tensors = naming.renamed(rows(config), _reordered(config, weights, halves), NAME)
    write_hf(folder, described(config), tensors)


def neighbours(x: Tensor, n_heads: int) -> Tensor:
    """Rows (H·d, …) whose pairs are half a head apart -> rows whose pairs lie side by side."""
    return x.unflatten(0, (n_heads, 2, -1)).transpose(1, 2).flatten(0, 2)


def halves(x: Tensor, n_heads: int) -> Tensor:
    """The inverse of ``neighbours``."""
    return x.unflatten(0, (n_heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def _reordered(
    config: DecoderConfig, weights: Mapping[str, Tensor], order: Callable[[Tensor, int], Tensor]
) -> dict[str, Tensor]:
    """Our weights, with the rows of queries and keys in another order."""
    found = dict(weights)
    for name, x in weights.items():
        for part, n_heads in ((".to_q.", config.n_heads), (".to_k.", config.kv_heads)):
            if part in name:
                found[name] = order(x, n_heads)
    return found
