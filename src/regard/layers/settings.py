"""What an attention and a block of a Transformer can be told. No tensors: configurations read this.

Scores, windows, normalisers, positions, activations and norms are names of registries; they are
looked up where the layer is built, so that names which a plug-in entered will do.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Beta = Literal["fixed", "learned", "emitted"]
"""Of the score ``content``: its sharpness is 1, learned, or emitted at each step."""


class AttentionSettings(BaseModel):
    """How an attention looks, whatever its widths."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    score: str = Field("scaled_dot", description="How queries are matched with keys.")
    window: str = Field("global", description="Which keys a query may see.")
    half_width: int = Field(
        10, ge=1, description="D of the local windows; a block has 2D positions."
    )
    normaliser: str = Field(
        "softmax",
        description="How scores become weights: softmax, or hard (one key is drawn), where "
        "attention looks across.",
    )
    positions: str = Field("none", description="How order is told.")
    rotary_base: float = Field(
        10_000.0, gt=0.0, description="The slowest pair turns once in 2π times so many positions."
    )
    n_kv_heads: int | None = Field(
        None, ge=1, description="Keys and values that heads share; must divide n_heads."
    )
    bias: bool = Field(True, description="Whether projections have a bias.")
    max_len: int = Field(512, ge=1, description="Longest text in tokens, specials included.")


class BlockSettings(AttentionSettings):
    """What one block of a Transformer differs in from another."""

    d_model: int = Field(256, ge=1, description="Width of the residual stream.")
    n_heads: int = Field(4, ge=1, description="Heads; must divide d_model.")
    d_ff: int = Field(1024, ge=1, description="Inner width of the feed-forward.")
    activation: str = Field(
        "relu", description="What stands between the two projections of the feed-forward."
    )
    norm: str = Field("layer", description="layer, or rms, which takes no mean away.")
    eps: float = Field(1e-5, gt=0.0, description="Added where a norm divides.")
    norm_first: bool = Field(False, description="Norm before the sub-layer, not after.")
    dropout: float = Field(0.1, ge=0.0, lt=1.0, description="Share of units dropped.")
    drop_path: float = Field(
        0.0,
        ge=0.0,
        lt=1.0,
        description="Share of texts that skip a sub-layer of the last layer in training; of the "
        "layers before it proportionally less (stochastic depth).",
    )
