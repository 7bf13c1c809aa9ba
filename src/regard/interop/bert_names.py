"""BERT's names for the tensors of an encoder in the layout of Hugging Face, beside ours.

Theirs stand without the ``bert.`` that models with a head put before all that is not the head.
"""

from __future__ import annotations

from collections.abc import Iterator

from regard.interop.naming import Row
from regard.models.encoder import EncoderConfig

Names = tuple[str, str]
"""Theirs, ours."""

TABLES: tuple[Names, ...] = (
    ("embeddings.word_embeddings.weight", "embedding.tokens.weight"),
    ("embeddings.position_embeddings.weight", "embedding.positions.table"),
    ("embeddings.token_type_embeddings.weight", "embedding.segments.weight"),
)
LAYER: tuple[Names, ...] = (
    ("attention.self.query", "self_attention.to_q"),
    ("attention.self.key", "self_attention.to_k"),
    ("attention.self.value", "self_attention.to_v"),
    ("attention.output.dense", "self_attention.to_out"),
    ("attention.output.LayerNorm", "around_self.norm"),
    ("intermediate.dense", "feed_forward.inner"),
    ("output.dense", "feed_forward.outer"),
    ("output.LayerNorm", "around_feed_forward.norm"),
)
HEADS: dict[str, tuple[Names, ...]] = {
    "none": (),
    "classify": (("pooler.dense", "head.dense"), ("classifier", "head.to_labels")),
    "masked": (
        ("cls.predictions.transform.dense", "head.dense"),
        ("cls.predictions.transform.LayerNorm", "head.norm"),
    ),
    "spans": (("qa_outputs", "head.to_ends"),),
}
MASKED_BIAS: Names = ("cls.predictions.bias", "head.bias")
"""A tensor, not a layer."""

ARCHITECTURES = {
    "none": "BertModel",
    "classify": "BertForSequenceClassification",
    "masked": "BertForMaskedLM",
    "spans": "BertForQuestionAnswering",
}
"""Our heads, their classes."""

WITHOUT_PREFIX = ("cls.", "classifier.", "qa_outputs.")
"""How the names of heads begin."""


def rows(config: EncoderConfig) -> Iterator[Row]:
    """The whole table for one encoder, tensor by tensor."""
    tensors = (*TABLES, *((MASKED_BIAS,) if config.head == "masked" else ()))
    yield from (Row(theirs, (ours,)) for theirs, ours in tensors)
    yield from _layer("embeddings.LayerNorm", "embedding.norm")
    for i in range(config.n_layers):
        for theirs, ours in LAYER:
            yield from _layer(f"encoder.layer.{i}.{theirs}", f"layers.{i}.{ours}")
    for theirs, ours in HEADS[config.head]:
        yield from _layer(theirs, ours)


def _layer(theirs: str, ours: str) -> Iterator[Row]:
    for part in ("weight", "bias"):
        yield Row(f"{theirs}.{part}", (f"{ours}.{part}",))
