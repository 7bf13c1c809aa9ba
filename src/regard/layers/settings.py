"""What an attention and a block of a Transformer can be told. No tensors: configurations read this.

Scores, windows, normalisers, positions, activations and norms are names of registries; they are
looked up where the layer is built, so that names which a plug-in entered will do.
"""

from __future__ import annotations

from collections.abc import Iterator
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
        10_000.0, gt=0.0, description="The slowest pair turns once in 2π times this many positions."
    )
    n_kv_heads: Count | None = Field(
        None, description="Keys and values that heads share; must divide n_heads."
    )
    bias: bool = Field(True, description="Whether projections have a bias.")
    max_len: Count = Field(512, description="Longest text in tokens, specials included.")

    def attention_problems(self, window: str) -> Iterator[str]:
        """Why attention with this window cannot be had."""
        if window == "compressed" and self.positions == "alibi":
            yield (
                "window 'compressed' joins the keys of several positions, and positions 'alibi' "
                "are told to each key alone; use rotary, sinusoidal or learned ones"
            )


MORE_THAN_THERE_ARE = "a token cannot be sent to more experts than there are"


class ExpertSettings(BaseModel):
    """Feed-forwards to choose from, in place of one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    experts: Count | None = Field(
        None, description="Feed-forwards to choose from, in place of one; left out, there is one."
    )
    top_k: Count = Field(2, description="Experts that a token is sent to.")
    d_expert: Count | None = Field(
        None,
        description="Inner width of an expert; left out, d_ff / top_k: a token then costs what it "
        "costs without experts.",
    )
    balance: float = Field(
        0.01, ge=0.0, description="Weight of the losses that keep experts equally busy."
    )

    def expert_problems(self) -> Iterator[str]:
        """More experts than there are."""
        if self.experts is not None and self.top_k > self.experts:
            yield f"top_k={self.top_k} of experts={self.experts}: {MORE_THAN_THERE_ARE}"

    @property
    def idle_expert_settings(self) -> tuple[str, ...]:
        """What says nothing where there are no experts."""
        return () if self.experts is not None else ("top_k", "d_expert", "balance")


class BlockSettings(ExpertSettings, AttentionSettings):
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
    windows: tuple[str, ...] | None = Field(
        None,
        min_length=1,
        description="Windows of the layers in turn, from the first, and again from the beginning "
        "where there are more layers; in place of window.",
    )
    expert_layers: tuple[Count, ...] | None = Field(
        None,
        min_length=1,
        description="Layers that have experts, counted from 1; left out, all have them.",
    )

    @property
    def window_names(self) -> tuple[str, ...]:
        """All windows that some layer has."""
        return self.windows or (self.window,)

    def window_of(self, layer: int) -> str:
        """The window of a layer, counted from 0."""
        return self.window_names[layer % len(self.window_names)]

    @property
    def expert_width(self) -> int:
        """Inner width of an expert, given or not."""
        return self.d_expert or self.d_ff // self.top_k

    def has_experts(self, layer: int) -> bool:
        """Whether a layer, counted from 0, has experts."""
        return self.experts is not None and layer + 1 in (self.expert_layers or (layer + 1,))

    def expert_problems(self) -> Iterator[str]:
        """Those of experts, widths that do not divide, and layers that are not there."""
        yield from super().expert_problems()
        if self.experts is not None and self.d_expert is None and self.d_ff % self.top_k:
            yield (
                f"d_ff={self.d_ff} does not divide among top_k={self.top_k} experts: choose a "
                "multiple, or give d_expert"
            )

    @property
    def idle_expert_settings(self) -> tuple[str, ...]:
        """Where there are no experts, which layers have them besides."""
        idle = super().idle_expert_settings
        return (*idle, "expert_layers") if idle else ()
