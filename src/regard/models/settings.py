"""What a user may ask of a model. No tensors here: the command line reads this too."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

ScoreName = Literal["content", "additive", "location", "general", "dot", "scaled_dot"]
WindowName = Literal["global", "local_m", "local_p", "block"]
NormaliserName = Literal["softmax", "hard"]
FusionName = Literal["shallow", "deep"]
PositionsName = Literal["sinusoidal", "learned", "index", "none", "alibi", "rotary"]
ActivationName = Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu"]


class ModelSettings(BaseModel):
    """The section ``model`` of a recipe. What is not given comes from the preset and its size."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    preset: str = Field("transformer", description="Which system; `regard models` lists them.")
    size: str | None = Field(None, description="A size of the preset, such as tiny or base.")
    score: ScoreName | None = Field(None, description="How queries are matched with keys.")
    window: WindowName | None = Field(None, description="Which keys a query may see.")
    normaliser: NormaliserName | None = Field(
        None,
        description="How scores of the source become weights: softmax, or hard (one is drawn).",
    )
    positions: PositionsName | None = Field(None, description="How order is told.")
    join: Literal["add", "concat"] | None = Field(
        None, description="How positions join tokens; add, except for index."
    )
    half_width: int | None = Field(
        None, ge=1, description="D of the local windows; a block has 2D positions."
    )
    bias: bool | None = Field(None, description="Whether projections have a bias.")
    activation: ActivationName | None = Field(
        None, description="What stands between the two projections of the feed-forward."
    )
    embedding_scale: bool | None = Field(
        None, description="Whether embeddings are multiplied by √d_model."
    )
    output_bias: bool | None = Field(None, description="Whether the output layer has a bias.")
    tied_output: bool | None = Field(
        None, description="Whether the output matrix is the target's embedding."
    )
    hidden_source_id: int | None = Field(
        None, ge=0, description="A source id that nobody looks at, beside padding."
    )
    norm: Literal["layer", "rms"] | None = Field(
        None, description="LayerNorm, or RMSNorm, which takes no mean away."
    )
    eps: float | None = Field(None, gt=0.0, description="Added where a norm divides.")
    n_kv_heads: int | None = Field(
        None, ge=1, description="Keys and values that heads share; must divide n_heads."
    )
    rotary_base: float | None = Field(
        None, gt=0.0, description="The slowest pair turns once in 2π times so many places."
    )
    tied: bool | None = Field(
        None, description="Whether a language model's output matrix is its embedding."
    )
    n_segments: int | None = Field(None, ge=0, description="Kinds of texts an encoder tells apart.")
    embedding_norm: bool | None = Field(
        None, description="Whether an encoder's embedding is normalised."
    )
    d_model: int | None = Field(None, ge=1, description="Width of the residual stream.")
    n_layers: int | None = Field(None, ge=1, description="Layers of encoder and of decoder.")
    n_heads: int | None = Field(None, ge=1, description="Heads; must divide d_model.")
    d_ff: int | None = Field(None, ge=1, description="Inner width of the feed-forward.")
    dropout: float | None = Field(None, ge=0.0, lt=1.0, description="Share of units dropped.")
    token_dropout: float | None = Field(
        None, ge=0.0, lt=1.0, description="Share of words that are not read in training."
    )
    norm_first: bool | None = Field(None, description="LayerNorm before the sub-layer, not after.")
    max_len: int | None = Field(
        None, ge=4, description="Longest text in tokens, specials included."
    )

    beta: Literal["fixed", "learned", "emitted"] | None = Field(
        None, description="Sharpness of the content score: 1, learned, or emitted at each step."
    )
    input_feeding: bool | None = Field(
        None, description="Whether a recurrent decoder reads its last attentional state."
    )
    reverse_source: bool | None = Field(
        None, description="Whether a recurrent encoder reads its source from the end."
    )

    fusion: FusionName | None = Field(
        None, description="Where a memory-network's decoder joins what it found in the source."
    )

    pooling: Literal["cls", "mean", "attention"] | None = Field(
        None,
        description="What an encoder's label is read from: its first token, the mean of all, or "
        "those that a learned query looks at.",
    )
    cell: Literal["lstm", "gru"] | None = Field(
        None,
        description="Of a recurrence; an encoder alone reads with one in place of self-attention.",
    )

    def given(self) -> dict[str, object]:
        """What was asked for beyond preset and size."""
        return self.model_dump(exclude={"preset", "size"}, exclude_none=True)
