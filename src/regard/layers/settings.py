"""What an attention and a block of a Transformer can be told. No tensors: configurations read this.

Scores, windows, normalisers, positions, activations and norms are names of registries; they are
looked up where the layer is built, so that names which a plug-in entered will do.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Beta = Literal["fixed", "learned", "emitted"]
"""Of the score ``content``: its sharpness is 1, learned, or emitted at each step."""


class AttentionSettings(BaseModel):
    """How an attention looks, whatever its widths."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    score: str = Field("scaled_dot", description="How queries are matched with keys.")
    window: str = Field("global", description="Which keys a query may see.")
    half_width: Count = Field(10, description="D of the local windows; a block has 2D positions.")
    normaliser: str = Field(
        "softmax", description="How scores become weights: softmax; hard (one key is drawn) across."
    )
    positions: str = Field("none", description="How order is told.")
    rotary_base: float = Field(
        10_000.0, gt=0.0, description="The slowest pair turns once in 2π times so many positions."
    )
    n_kv_heads: Count | None = Field(
        None, description="Keys and values that heads share; must divide n_heads."
    )
    bias: bool = Field(True, description="Whether projections have a bias.")
    max_len: Count = Field(512, description="Longest text in tokens, specials included.")


class BlockSettings(AttentionSettings):
    """What one block of a Transformer differs in from another."""

    d_model: Count = Field(256, description="Width of the residual stream.")
    n_heads: Count = Field(4, description="Heads; must divide d_model, unless d_head is given.")
    d_head: Count | None = Field(
        None, description="Width of a head; d_model / n_heads where it is not given."
    )
    d_ff: Count = Field(1024, description="Inner width of the feed-forward.")
    activation: str = Field("relu", description="Between the projections of the feed-forward.")
    norm: str = Field("layer", description="layer, or rms, which takes no mean away.")
    eps: float = Field(1e-5, gt=0.0, description="Added where a norm divides.")
    norm_first: bool = Field(False, description="Norm before the sub-layer, not after.")
    dropout: Share = Field(0.1, description="Share of units dropped.")
    drop_path: Share = Field(
        0.0, description="Share of texts that skip sub-layers; less in earlier layers."
    )
