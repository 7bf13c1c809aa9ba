"""Language models from and to LLaMA folders in the layout of Hugging Face.

Rotary positions there turn number i of a head with number i + d/2; ours turn neighbours. So the
rows that make queries and keys change places on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from regard.core.settings import parse
from regard.functional.positions import BASE
from regard.interop import naming
from regard.interop.folders import CONFIG, NO_MARKS, read_config, read_tensors, write_hf
from regard.interop.naming import Imported, Names, Renaming
from regard.models.settings import DecoderConfig

NAME = "LLaMA"
FIELDS = {
    "vocab_size": "n_vocab",
    "max_position_embeddings": "max_len",
    "hidden_size": "d_model",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "d_ff",
    "rms_norm_eps": "eps",
    "attention_bias": "bias",
    "tie_word_embeddings": "tied",
}
"""Their settings, and ours that have the same value."""
ARCHITECTURE = {"norm": "rms", "activation": "swiglu", "positions": "rotary"}
"""Of our settings, those that make a LLaMA."""

One = Annotated[float, Field(ge=1.0, le=1.0)]

PREFIX = "model."
"""Before all names but the output's; some folders leave it out."""
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
BUFFERS = (".self_attn.rotary_emb.inv_freq",)
"""Of a layer: angles, which old folders carry."""


class Rope(BaseModel):
    """How rotary positions are stretched, which must be not at all."""

    model_config = ConfigDict(frozen=True)

    rope_type: Literal["default"] = Field(
        "default", validation_alias=AliasChoices("rope_type", "type")
    )
    rope_theta: float | None = None
    partial_rotary_factor: One = 1.0


class LlamaDescription(BaseModel):
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
    def _has_a_counterpart(self) -> LlamaDescription:
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
        fields = {ours: getattr(self, theirs) for theirs, ours in FIELDS.items()}
        fields |= {
            "pad_id": naming.padding(self.pad_token_id, self.eos_token_id, self.vocab_size)[0],
            "n_kv_heads": self.num_key_value_heads,
            "rotary_base": rope.rope_theta or self.rope_theta,
        }
        return parse(DecoderConfig, {**ARCHITECTURE, "dropout": 0.0, **fields}, CONFIG)

    def notes(self) -> tuple[str | None, ...]:
        """What is not taken over, or not as it is."""
        return (
            naming.padding(self.pad_token_id, self.eos_token_id, self.vocab_size)[1],
            f"attention_dropout={self.attention_dropout} has no counterpart: it trains on without"
            if self.attention_dropout
            else None,
        )


def refusal(config: DecoderConfig) -> str | None:
    """Why a model cannot be written as a LLaMA, or None where it can."""
    known = {name: (needed,) for name, needed in {**ARCHITECTURE, "norm_first": True}.items()}
    return naming.no_counterpart(config, known, NAME)


def described(config: DecoderConfig) -> dict[str, object]:
    """What config.json is to say of our model."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **{theirs: getattr(config, ours) for theirs, ours in FIELDS.items()},
        "num_key_value_heads": config.kv_heads,
        "hidden_act": "silu",
        "rope_theta": config.rotary_base,
        "mlp_bias": config.bias,
        **NO_MARKS,
        "pad_token_id": config.pad_id,
    }


def rows(config: DecoderConfig, prefix: str = PREFIX) -> Iterator[Renaming]:
    """The whole table for one model, tensor by tensor."""
    kinds = naming.WEIGHT_AND_BIAS if config.bias else naming.WEIGHT
    yield Renaming(prefix + TOKENS, ("embedding.tokens.weight",))
    for i in range(config.n_layers):
        yield from naming.parts(NORMS, naming.WEIGHT, f"{prefix}layers.{i}.", f"layers.{i}.")
        yield from naming.parts(LINEARS, kinds, f"{prefix}layers.{i}.", f"layers.{i}.")
    yield Renaming(f"{prefix}norm.weight", ("norm.weight",))
    if not config.tied:
        yield Renaming(OUTPUT, ("to_logits.weight",))


def read_llama(folder: Path) -> Imported:
    """The model of a folder whose config.json says ``llama``."""
    said = parse(LlamaDescription, read_config(folder), CONFIG)
    config = said.ours()
    tensors = read_tensors(folder)
    prefix = PREFIX if any(name.startswith(PREFIX) for name in tensors) else ""
    passed_over = naming.untied_rest(tensors, config.tied, prefix + TOKENS, OUTPUT, BUFFERS)
    sizes = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
    told = ", ".join(f"{name}={getattr(said, name)}" for name in sizes)
    of = (
        f"{folder} (a {NAME} of {told}, num_key_value_heads={config.kv_heads}, "
        f"intermediate_size={config.d_ff})"
    )
    found = naming.imported(
        config, rows(config, prefix), tensors, of, passed_over=passed_over, notes=said.notes()
    )
    return Imported(config, _replaced(config, found.weights, neighbours), found.notes)


def write_llama(config: DecoderConfig, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Write config.json and model.safetensors into a folder that exists."""
    naming.check_exportable(refusal(config))
    tensors = naming.renamed(rows(config), _replaced(config, weights, halves), NAME)
    write_hf(folder, described(config), tensors)


def neighbours(x: Tensor, n_heads: int) -> Tensor:
    """Rows (H·d, …) whose pairs are half a head apart -> rows whose pairs lie side by side."""
    return x.unflatten(0, (n_heads, 2, -1)).transpose(1, 2).flatten(0, 2)


def halves(x: Tensor, n_heads: int) -> Tensor:
    """The inverse of ``neighbours``."""
    return x.unflatten(0, (n_heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def _replaced(
    config: DecoderConfig, weights: Mapping[str, Tensor], order: Callable[[Tensor, int], Tensor]
) -> dict[str, Tensor]:
    """Our weights, with the rows of queries and keys in another order."""
    heads = {".to_q.": config.n_heads, ".to_k.": config.kv_heads}
    found = dict(weights)
    for name, x in weights.items():
        for part, n in heads.items():
            if part in name:
                found[name] = order(x, n)
    return found
