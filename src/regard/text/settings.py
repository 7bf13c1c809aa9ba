"""What a user may ask of the tokenizer. No library is needed to read it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from regard.text.specials import SPECIALS

Kind = Literal["word", "char", "bpe"]

TEXT_SETTINGS = frozenset({"text.kind", "text.vocab_size", "text.lowercase"})
"""Settings that every task which reads or writes text knows."""
N_BYTES = 256
"""Byte-level pieces can spell any text because every byte is a piece of its own."""


class TextSettings(BaseModel):
    """The section ``text`` of a recipe: how strings become ids."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Kind = Field("bpe", description="Words, characters, or byte-level pieces of words.")
    vocab_size: int = Field(
        8000,
        ge=len(SPECIALS) + 1,
        description="Most ids there may be, special ones included; the rarest are left out.",
    )
    lowercase: bool = Field(False, description="Read capitals as small letters.")
    shared: bool = Field(True, description="One tokenizer for source and target.")
    bpe_dropout: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of merges that are skipped in training, so that a text is cut into "
        "other pieces each epoch (Provilkov et al. 2020).",
    )

    @field_validator("vocab_size")
    @classmethod
    def _room_for_every_byte(cls, size: int, info: ValidationInfo) -> int:
        least = N_BYTES + len(SPECIALS)
        if info.data.get("kind") == "bpe" and size < least:
            raise ValueError(
                f"{size} is too small for kind 'bpe', which needs at least {least} "
                f"({N_BYTES} bytes and {len(SPECIALS)} special tokens); "
                "raise it, or choose kind 'char' or 'word'"
            )
        return size

    @field_validator("bpe_dropout")
    @classmethod
    def _only_pieces_are_merged(cls, share: float, info: ValidationInfo) -> float:
        kind = info.data.get("kind", "bpe")
        if share and kind != "bpe":
            raise ValueError(f"kind {kind!r} has no merges to skip; set it to 0, or choose 'bpe'")
        return share
