"""The section ``decode`` of a recipe. Needs no tensors, so that the command line starts fast."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from regard.core.errors import ConfigError
from regard.core.settings import parse

LENGTH_PENALTY = 0.6
"""Wu et al. 2016 found 0.6 to 0.7 best; 0.6 is also what the Transformer's paper used."""
SAMPLING = frozenset({"temperature", "top_k", "top_p"})
GENERATING = frozenset(
    f"decode.{name}"
    for name in ("beam", "length_penalty", "stop", "seed", "precision", "max_len", "fast")
) | {f"decode.{name}" for name in SAMPLING}
"""Settings that every task which generates text knows."""
StopRule = Literal["exact", "first"]
"""When a beam search stops: see ``regard.decoding.beam``."""


class DecodeSettings(BaseModel):
    """How a text is generated: by greedy search, beam search or sampling."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    beam: int = Field(1, ge=1, description="Hypotheses kept open a sentence; 1 is greedy search.")
    length_penalty: float = Field(
        LENGTH_PENALTY,
        ge=0,
        allow_inf_nan=False,
        description="α of the score log-probability / ((5 + n) / 6)^α, where n counts the tokens "
        "with the end token; 0 compares log-probabilities, more favours longer targets.",
    )
    coverage_penalty: float = Field(
        0.0,
        ge=0,
        allow_inf_nan=False,
        description="β of what is added to the score of a beam search: β · Σ log min(1, attention "
        "that a source token got), so that no part of the source is left out.",
    )
    stop: StopRule = Field(
        "exact",
        description="When a beam search stops: exact, when nothing open can win any more; first, "
        "when as many hypotheses have ended as there are beams, which is faster.",
    )
    temperature: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="Sample instead of searching: below 1 surer, above 1 bolder; 0 takes the most "
        "probable token. Not given: a translator searches, a language model samples with 1.",
    )
    top_k: int | None = Field(
        None, ge=1, description="Number of most probable tokens to sample from."
    )
    top_p: float | None = Field(
        None, gt=0, le=1, description="Sample from the most probable tokens that reach this share."
    )
    seed: int | None = Field(
        None, ge=0, lt=2**63, description="Decides what is sampled; not given: another each time."
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

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.beam > 1 and self.samples:
            raise ValueError(
                f"sampling keeps no beam: leave out beam={self.beam}, or temperature, top_k and "
                "top_p"
            )
        return self

    @property
    def samples(self) -> bool:
        """Whether sampling is asked for, rather than searching."""
        return bool(self.temperature) or (
            self.temperature is None and (self.top_k is not None or self.top_p is not None)
        )

    def temperature_or(self, default: float) -> float:
        """The temperature; 1 where tokens are cut by top_k or top_p alone."""
        if self.temperature is None:
            return 1.0 if self.samples else default
        return self.temperature

    def chosen(self, **choices: object) -> Self:
        """The same with all choices that are not None; to sample is to leave the beam, and back."""
        given = {name: value for name, value in choices.items() if value is not None}
        if not given:
            return self
        kept = self.model_dump()
        if given.keys() & SAMPLING and "beam" not in given:
            kept["beam"] = 1
        if "beam" in given and not given.keys() & SAMPLING:
            kept |= dict.fromkeys(SAMPLING)
        return parse(type(self), {**kept, **given}, "decode")

    def check_vocabulary(self, n_vocab: int) -> None:
        """Refuse a beam that is wider than the vocabulary: its first step could not fill it."""
        if self.beam > n_vocab:
            raise ConfigError(
                f"a beam of {self.beam} is wider than the vocabulary of {n_vocab} tokens; choose a "
                "narrower one"
            )
