"""The section ``decode`` of a recipe. Needs no tensors, so that the command line starts fast."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

LENGTH_PENALTY = 0.6
"""Wu et al. 2016 found 0.6 to 0.7 best; 0.6 is also what the Transformer's paper used."""


class DecodeSettings(BaseModel):
    """How a target is searched for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    beam: int = Field(1, ge=1, description="Hypotheses kept open a sentence; 1 is greedy search.")
    length_penalty: float = Field(
        LENGTH_PENALTY,
        ge=0,
        allow_inf_nan=False,
        description="α of the score log-probability / ((5 + n) / 6)^α, where n counts the tokens "
        "with the end token; 0 compares log-probabilities, more favours longer targets.",
    )
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto",
        description="Numbers to compute in; auto: bf16 on a GPU that has it, else those of the "
        "weights. On a CPU bf16 is faster and rounds more.",
    )
    replace_unknown: bool = Field(
        False,
        description="Whether an unknown word is replaced by the source word it was made from, "
        "going by attention.",
    )
    max_len: int = Field(256, ge=1, description="Most tokens in a target, the end token included.")
    fast: bool = Field(
        True,
        description="Whether models are rewritten for decoding; false runs the plain layers, as "
        "the environment variable REGARD_PLAIN=1 does: for debugging.",
    )
