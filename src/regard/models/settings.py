"""What every family of models can be told: its configuration, saved with the weights.

No tensors here. Names of scores, windows, normalisers, positions and the like are those of
registries and are looked up where a model is resolved and built (``regard.models.presets``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, model_validator

from regard.layers.settings import Beta, BlockSettings, Count, Share

Cell = Literal["lstm", "gru", "tanh"]


class ModelConfig(BaseModel):
    """Architecture only: no devices, no paths."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    FROM_DATA: ClassVar[frozenset[str]] = frozenset(
        {"family", "pad_id", "n_vocab", "n_source_vocab", "n_target_vocab", "shared_vocab"}
        | {"head", "n_labels"}
    )
    """Fields that the data and the task decide; all others are a user's settings."""

    family: str
    pad_id: int = 0
    d_model: Count = Field(256, description="Width of the states.")
    max_len: int = Field(512, ge=4, description="Longest text in tokens, specials included.")

    @model_validator(mode="after")
    def _fits_together(self) -> ModelConfig:
        if problems := [*self.problems()]:
            raise ValueError("; ".join(problems))
        return self

    def problems(self) -> Iterator[str]:
        """Why these settings cannot be had together; all reasons, not the first."""
        return iter(())

    @property
    def longest(self) -> int | None:
        """The most tokens a text may have; None where any number will do."""
        return None

    @property
    def idle(self) -> tuple[str, ...]:
        """Settings of the family that do nothing in this model."""
        return ()

    @property
    def packs(self) -> bool:
        """Whether the model reads texts that lie end to end, as well as padded ones."""
        return False

    @property
    def records(self) -> bool:
        """Whether a step is so many small kernels that recording them pays: over padded texts, or
        over packed ones that are not compiled.
        """
        return False

    @property
    def compiles_from(self) -> int:
        """Updates from which compiling pays for its own time."""
        return 1000


Config = TypeVar("Config", bound=ModelConfig)


def packs_plainly(score: str, normaliser: str, windows: Iterable[str]) -> bool:
    """Whether kernels for packed texts know the attention: products, a softmax, all keys seen."""
    from regard.functional.scores import SCORES  # needs torch, which a configuration does not

    plain = ({*windows}, normaliser) == ({"global"}, "softmax")
    return plain and SCORES[score].factors is not None


def without_dropout(config: Config) -> Config:
    """The same architecture, in which training leaves nothing out."""
    names = {"dropout", "token_dropout", "drop_path"} & {*type(config).model_fields}
    return config.model_copy(update=dict.fromkeys(names, 0.0))


class SequenceConfig(ModelConfig):
    """Of a model that writes a target, given a source."""

    PREDICTS_SOURCE: ClassVar[bool] = False
    """Whether a model can learn to predict the tokens of the source, too (``data.loss_on``)."""

    @property
    def packed_width(self) -> int | None:
        """Of one that ``packs``: the width of its heads, which kernels are made for; None of one
        that has no attention.
        """
        raise NotImplementedError

    n_source_vocab: Count
    n_target_vocab: Count
    shared_vocab: bool = True


class EnsembleConfig(SequenceConfig):
    """Of several models with the same target vocabulary that write one target together."""

    family: Literal["ensemble"] = "ensemble"
    members: tuple[SerializeAsAny[SequenceConfig], ...]

    @classmethod
    def of(cls, members: Sequence[SequenceConfig]) -> Self:
        """What is true of all: the vocabularies of the first, the shortest of the lengths."""
        first = members[0]
        return cls(
            pad_id=first.pad_id,
            d_model=max(one.d_model for one in members),
            max_len=min(one.max_len for one in members),
            n_source_vocab=first.n_source_vocab,
            n_target_vocab=first.n_target_vocab,
            shared_vocab=first.shared_vocab,
            members=tuple(members),
        )

    @property
    def longest(self) -> int | None:
        """The most tokens that every member takes."""
        limits = [one.longest for one in self.members if one.longest is not None]
        return min(limits, default=None)


class BlocksConfig(ModelConfig, BlockSettings):
    """What all Transformers share: layers of one block, and how tokens enter the first."""

    LOOKS_ACROSS: ClassVar[bool] = False
    """Whether there is attention from a target to a source."""

    n_layers: Count = Field(4, description="Layers of encoder and of decoder.")
    positions: str = Field("learned", description="How order is told.")
    join: Literal["add", "concat"] | None = Field(
        None, description="How positions join tokens; add, except for index."
    )
    d_positions: Count | None = Field(
        None,
        description="Width of positions that stand beside narrower tokens (join concat); left out, "
        "both are d_model wide and projected back.",
    )
    token_dropout: Share = Field(
        0.0, description="Share of words, or of patches, not read in training."
    )

    def problems(self) -> Iterator[str]:
        """Those that any Transformer may have."""
        from regard.functional.attend import is_drawn  # needs torch, which reading this does not

        yield from self._heads()
        yield from self._joining()
        for window in dict.fromkeys(self.window_names):
            yield from self.attention_problems(window)
        yield from self.expert_problems()
        if beyond := [n for n in self.expert_layers or () if n > self.n_layers]:
            yield f"expert_layers={beyond} are beyond n_layers={self.n_layers}"
        if is_drawn(self.normaliser) and not self.LOOKS_ACROSS:
            yield (
                f"normaliser {self.normaliser!r} draws one key a query and is trained where "
                "attention looks across; this model looks at its own text only"
            )

    def _heads(self) -> Iterator[str]:
        if self.d_head is None and self.d_model % self.n_heads:
            yield f"d_model={self.d_model} is not a multiple of n_heads={self.n_heads}"
        if self.n_heads % self.kv_heads:
            yield (
                f"n_kv_heads={self.n_kv_heads} does not divide n_heads={self.n_heads}: as many "
                "heads must share each key"
            )
        if self.positions == "rotary" and self.head_width % 2:
            yield (
                f"positions 'rotary' turn pairs of numbers, and a head has {self.head_width}; "
                "choose an even d_model / n_heads"
            )

    def _joining(self) -> Iterator[str]:
        if self.positions == "index" and self.join == "add":
            yield "positions 'index' appends a number: join must be 'concat'"
        if self.positions in ("alibi", "rotary") and self.join is not None:
            yield f"positions {self.positions!r} join no token: leave out 'join'"
        if self.d_positions is None:
            return
        if self.joined_by != "concat":
            yield "d_positions is the width of positions beside tokens: join 'concat'"
        if self.d_positions >= self.d_model:
            yield f"d_positions={self.d_positions} leaves no room in d_model for tokens"
        if self.positions == "index" and self.d_positions != 1:
            yield "positions 'index' append one number: d_positions must be 1"

    @property
    def idle(self) -> tuple[str, ...]:
        """What is of experts, where there are none, and one window, where layers have theirs."""
        return (*self.idle_expert_settings, *(("window",) if self.windows else ()))

    @property
    def joined_by(self) -> Literal["add", "concat"]:
        """How positions join tokens, given or not."""
        return self.join or ("concat" if self.positions == "index" else "add")

    @property
    def d_tokens(self) -> int:
        """Width of a token's embedding."""
        return self.d_model - (self.d_positions or 0)

    @property
    def n_positions(self) -> int:
        """Positions that tables have."""
        return self.max_len

    @property
    def head_width(self) -> int:
        """Width of a head, given or not."""
        return self.d_head or self.d_model // self.n_heads

    @property
    def kv_heads(self) -> int:
        """Heads that have keys and values of their own."""
        return self.n_kv_heads or self.n_heads

    @property
    def n_self_heads(self) -> int:
        """Heads that look from token to token of one text, in all layers of one stack."""
        return self.n_layers * self.n_heads

    @property
    def longest(self) -> int | None:
        """Learned positions end with their table."""
        return self.max_len if self.positions == "learned" else None


class EncoderDecoderConfig(BlocksConfig):
    """A Transformer's decoder, whatever it is that the encoder reads."""

    LOOKS_ACROSS = True

    n_target_vocab: Count
    d_model: Count = Field(512, description="Width of the residual stream.")
    n_layers: Count = Field(6, description="Layers of encoder and of decoder.")
    n_heads: Count = Field(8, description="Heads; must divide d_model.")
    d_ff: Count = Field(2048, description="Inner width of the feed-forward.")
    positions: str = Field("sinusoidal", description="How order is told.")
    memory: Literal["last", "each"] = Field(
        "last", description="A decoder layer reads the last encoder layer, or that of its number."
    )
    cross_after: Literal["attention", "feed_forward"] = Field(
        "attention", description="What a decoder layer does before it looks at the source."
    )
    embedding_scale: bool = Field(True, description="Whether embeddings are scaled by √d_model.")
    output_bias: bool = Field(False, description="Whether the output layer has a bias.")
    tied_output: bool = Field(True, description="Whether the output is the target's embedding.")

    def problems(self) -> Iterator[str]:
        """Those of any Transformer, and a window that cannot be across."""
        yield from super().problems()
        if "causal" in self.window_names:
            yield (
                "window 'causal' is the decoder's own; across, a target has no future in its source"
            )


class TransformerConfig(SequenceConfig, EncoderDecoderConfig):
    """The encoder-decoder Transformer."""

    family: Literal["transformer"] = "transformer"
    hidden_source_id: int | None = Field(
        None, ge=0, description="A source id that nobody looks at, beside padding."
    )

    def problems(self) -> Iterator[str]:
        """Those of an encoder and a decoder, and of two texts."""
        yield from super().problems()
        if self.shared_vocab and self.n_source_vocab != self.n_target_vocab:
            yield (
                f"a shared vocabulary has one size, not {self.n_source_vocab} and "
                f"{self.n_target_vocab}"
            )

    @property
    def packed_width(self) -> int:
        """That of every head."""
        return self.head_width

    @property
    def packs(self) -> bool:
        """Kernels for packed texts take inner products, a softmax, no window and no bias.

        A packed row is many texts, of which stochastic depth would skip all or none; and experts
        must be told its padding.
        """
        added = self.positions in ("sinusoidal", "learned", "index", "none")
        whole = (self.hidden_source_id, self.experts) == (None, None) and self.drop_path == 0
        return added and whole and packs_plainly(self.score, self.normaliser, self.window_names)


class TextConfig(BlocksConfig):
    """Of a model with one vocabulary."""

    n_vocab: Count
    activation: str = Field("gelu", description="Between the projections of the feed-forward.")

    def problems(self) -> Iterator[str]:
        """Those of any Transformer, and a padding that is not a token."""
        yield from super().problems()
        if not 0 <= self.pad_id < self.n_vocab:
            yield f"pad_id={self.pad_id} is not a token of n_vocab={self.n_vocab}"


class EncoderConfig(TextConfig):
    """The encoder alone."""

    family: Literal["encoder"] = "encoder"
    n_segments: int = Field(2, ge=0, description="Kinds of texts that are told apart.")
    embedding_norm: bool = Field(True, description="Whether the embedding is normalised.")
    head: Literal["none", "classify", "masked", "spans"] = "none"
    n_labels: Count | None = None
    pooling: Literal["cls", "mean", "attention"] = Field(
        "cls",
        description="What a label is read from: the first token, the mean of all, or those that a "
        "learned query looks at.",
    )
    cell: Cell | None = Field(
        None, description="Of a recurrence that reads both ways, in place of self-attention."
    )

    def problems(self) -> Iterator[str]:
        """Those of any Transformer or of a recurrence, and of the head."""
        yield from super().problems()
        if self.head == "classify" and self.n_labels is None:
            yield "head 'classify' needs n_labels"
        if self.head != "classify" and self.n_labels is not None:
            yield (
                f"head {self.head!r} has no labels: leave out n_labels={self.n_labels}, or choose "
                "head 'classify'"
            )

    def _heads(self) -> Iterator[str]:
        if self.cell is None:
            yield from super()._heads()
            return
        if self.positions in ("rotary", "alibi"):
            yield (
                f"positions {self.positions!r} are told between queries and keys, and a cell has "
                "none"
            )
        if self.d_model % 2:
            yield (
                f"cell {self.cell!r} reads both ways, half of d_model={self.d_model} each; choose "
                "an even d_model"
            )

    @property
    def idle(self) -> tuple[str, ...]:
        """A recurrence has no attention and no feed-forward."""
        if self.cell is None:
            return super().idle
        attention = ("score", "window", "windows", "half_width", "normaliser", "n_kv_heads")
        experts = ("experts", *self.model_copy(update={"experts": None}).idle_expert_settings)
        others = ("rotary_base", "n_heads", "d_ff", "bias", "norm_first", "drop_path")
        return (*others, *attention, *experts)

    @property
    def n_self_heads(self) -> int:
        """Heads that look from every token to every token."""
        return super().n_self_heads if self.cell is None else 0


class DecoderConfig(TextConfig):
    """The decoder alone."""

    family: Literal["decoder"] = "decoder"
    norm_first: bool = Field(True, description="Norm before the sub-layer, not after.")
    tied: bool = Field(True, description="Whether the output matrix is the embedding.")


class SourceAttentionConfig(SequenceConfig):
    """Of a model whose decoder, no Transformer, may look at the source with one head."""

    dropout: Share = Field(0.0, description="Share of units dropped.")
    score: str | None = Field(None, description="How queries are matched with keys.")
    normaliser: str = Field(
        "softmax", description="How scores of the source become weights: softmax or hard."
    )
    beta: Beta = Field("fixed", description="Sharpness of the score content.")

    def problems(self) -> Iterator[str]:
        """A sharpness that the score has not, and widths that it cannot match."""
        if self.score in ("dot", "scaled_dot", "content") and self.d_memory != self.d_model:
            yield (
                f"score {self.score!r} needs states of one width, and the encoder's are "
                f"{self.d_memory} wide, the decoder's {self.d_model}; 'general' and 'additive' "
                "take them"
            )
        if self.beta != "fixed" and self.score != "content":
            yield f"beta sharpens the score 'content', not {self.score!r}"

    @property
    def records(self) -> bool:
        """Many small kernels a step or a layer; who draws has a baseline, which asks the host."""
        from regard.functional.attend import is_drawn  # needs torch, which reading this does not

        return not is_drawn(self.normaliser)

    @property
    def d_memory(self) -> int:
        """Width of the encoder's states."""
        return self.d_model

    @property
    def attention(self) -> dict[str, Any]:
        """What ``MemoryAttention`` is told, of the settings that the family has."""
        names = {"score", "window", "half_width", "normaliser", "max_len", "beta"}
        return self.model_dump(include=names)


class RecurrentWordsConfig(SourceAttentionConfig):
    """Of a recurrent model: one of its tables of words may be read both ways."""

    tied_output: bool = Field(
        False, description="Whether the output is the target's embedding (Press & Wolf 2017)."
    )
