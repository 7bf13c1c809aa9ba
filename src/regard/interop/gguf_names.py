"""What GGUF files call settings and tensors, beside our names.

Matrices of queries and keys in a file of the kind ``llama`` already have the pairs that rotary
positions turn side by side, as ours do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from regard.functional.positions import BASE
from regard.interop.decoders import Names, parts
from regard.interop.naming import Row
from regard.models.decoder import DecoderConfig

TOKENS, OUTPUT = "token_embd.weight", "output.weight"
BIAS = "blk.0.attn_output.bias"
"""There where linear layers have biases."""

NORMS: tuple[Names, ...] = (
    ("attn_norm", "around_self.norm"),
    ("ffn_norm", "around_feed_forward.norm"),
)
OUTER: tuple[Names, ...] = (
    ("attn_output", "self_attention.to_out"),
    ("ffn_down", "feed_forward.outer"),
)
LINEARS: dict[str, tuple[Names, ...]] = {
    "llama": (
        ("attn_q", "self_attention.to_q"),
        ("attn_k", "self_attention.to_k"),
        ("attn_v", "self_attention.to_v"),
        ("ffn_gate", "feed_forward.inner"),
        ("ffn_up", "feed_forward.beside"),
        *OUTER,
    ),
    "gpt2": (
        ("attn_qkv", "self_attention.to_q", "self_attention.to_k", "self_attention.to_v"),
        ("ffn_up", "feed_forward.inner"),
        *OUTER,
    ),
}


class Sizes(BaseModel):
    """Settings whose names begin with that of the kind."""

    model_config = ConfigDict(frozen=True)

    n_layers: int = Field(alias="block_count")
    max_len: int = Field(alias="context_length")
    d_model: int = Field(alias="embedding_length")
    d_ff: int = Field(alias="feed_forward_length")
    n_heads: int = Field(alias="attention.head_count")

    def ours(self) -> dict[str, Any]:
        """As fields of our configuration."""
        return self.model_dump(include=set(Sizes.model_fields))


class Gpt2(Sizes):
    """Of the kind ``gpt2``."""

    eps: float = Field(alias="attention.layer_norm_epsilon")

    def ours(self) -> dict[str, Any]:
        """As ``Sizes.ours``."""
        return {**super().ours(), "eps": self.eps, "activation": "gelu_tanh"}


class Llama(Sizes):
    """Of the kind ``llama``; the last ones must be what everybody takes them for."""

    eps: float = Field(alias="attention.layer_norm_rms_epsilon")
    n_kv_heads: int | None = Field(None, alias="attention.head_count_kv")
    rotary_base: float = Field(BASE, alias="rope.freq_base")
    turned: int | None = Field(None, alias="rope.dimension_count")
    key_length: int | None = Field(None, alias="attention.key_length")
    value_length: int | None = Field(None, alias="attention.value_length")
    scaling: Literal["none"] = Field("none", alias="rope.scaling.type")
    scale: Annotated[float, Field(ge=1, le=1, alias="rope.scale_linear")] = 1.0
    n_experts: Literal[0] = Field(0, alias="expert_count")

    def ours(self) -> dict[str, Any]:
        """As ``Sizes.ours``."""
        return {
            **super().ours(),
            "eps": self.eps,
            "n_kv_heads": self.n_kv_heads,
            "rotary_base": self.rotary_base,
            "norm": "rms",
            "activation": "swiglu",
            "positions": "rotary",
        }

    def odd(self) -> list[str]:
        """Widths of a head that are not the model's, shared among the heads."""
        widths = {
            "rope.dimension_count": self.turned,
            "attention.key_length": self.key_length,
            "attention.value_length": self.value_length,
        }
        return [
            f"llama.{name}={width}: only embedding_length / attention.head_count "
            f"({self.d_model} / {self.n_heads}) is supported"
            for name, width in widths.items()
            if width is not None and width * self.n_heads != self.d_model
        ]


KINDS: Mapping[str, type[Llama] | type[Gpt2]] = {"llama": Llama, "gpt2": Gpt2}


def rows(config: DecoderConfig, kind: str) -> Iterator[Row]:
    """The whole table for one model, tensor by tensor."""
    norms: Collection[str] = ("weight", "bias") if config.norm == "layer" else ("weight",)
    linears = ("weight", "bias") if config.bias else ("weight",)
    yield Row(TOKENS, ("embedding.tokens.weight",))
    if config.positions == "learned":
        yield Row("position_embd.weight", ("embedding.positions.table",))
    for i in range(config.n_layers):
        yield from parts(NORMS, norms, f"blk.{i}.", f"layers.{i}.")
        yield from parts(LINEARS[kind], linears, f"blk.{i}.", f"layers.{i}.")
    yield from parts((("output_norm", "norm"),), norms)
    if not config.tied:
        yield Row(OUTPUT, ("to_logits.weight",))
