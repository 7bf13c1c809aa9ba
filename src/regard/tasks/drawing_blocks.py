"""Drawings of Transformers, and what other families' drawings have in common with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from regard.core.registry import Registry
from regard.tasks.drawing_parts import Sketch, plus, text, to
from regard.visual.drawing import Block, Column, Drawing, Frame, Item, Link, Skip

Arrange = Callable[[Sketch, Any, str], Drawing]
"""A sketch of the model, its configuration and a title -> the drawing."""
DRAWINGS: Registry[Arrange] = Registry("drawing of a family")

ENCODED, TARGET = "encoder.out", "target so far"
OUTPUT = ("decoder.to_logits", "decoder.output_weight", "decoder.output_bias", "to_logits")
"""Where the last layer of a model that writes may have its parameters."""


def blocks_of(
    sketch: Sketch, path: str, skips: list[Skip], *, shape: str, masked: bool = False
) -> tuple[Frame, ...]:
    """Frames of encoder blocks or decoder blocks; their residual connections join ``skips``."""

    def layer(at: str) -> list[Block]:
        block: Any = sketch.model.get_submodule(at)
        own = "masked self-attention" if masked else "self-attention"
        order = [("self_attention", "around_self", own), ("feed_forward", _FED, "")]
        if block.cross_attention is not None:
            place = 2 if block.source_last else 1
            order.insert(place, ("cross_attention", "around_cross", "attention to the source"))
        return [one for sub in order for one in sublayer(at, *sub)]

    def sublayer(at: str, name: str, around: str, title: str) -> list[Block]:
        residual: Any = sketch.model.get_submodule(f"{at}.{around}")
        part, norm, total = f"{at}.{name}", f"{at}.{around}.norm", f"{at}.{name}.sum"
        if residual.norm_first:
            skips.append(Skip(norm, total))
            return [sketch.part(norm), sketch.part(part, title), plus(total)]
        skips.append(Skip(part, norm))
        return [sketch.part(part, title), sketch.part(norm, "add & norm")]

    return sketch.layers(path, layer, shape=shape)


_FED = "around_feed_forward"


def last_norm_of(sketch: Sketch, path: str) -> list[Block]:
    """The norm behind a stack, where there is one with parameters."""
    module = sketch.model.get_submodule(path)
    return [sketch.part(path)] if any(True for _ in module.parameters()) else []


def across(frames: Iterable[Frame], start: str, label: str = "K, V") -> list[Link]:
    """Lines from what the encoder gave to every attention to it."""
    return [
        Link(start, block.key, label)
        for frame in frames
        for block in frame.blocks
        if block.key.endswith("cross_attention")
    ]


def last_of(items: Sequence[Item]) -> str:
    """The block that the end of a column comes out of."""
    item = items[-1]
    return item.blocks[-1].key if isinstance(item, Frame) else item.key


def unrolled(sketch: Sketch, path: str, title: str = "", **others: Any) -> Block:
    """A recurrence, with what it hands from step to step."""
    return sketch.part(path, title, loop="its state", **others)


def between(own: str, other: str, items: Sequence[Block]) -> Column:
    """What stands between an encoder and a decoder, unchained, at the height of a block."""
    return Column(title="Attention", items=tuple(items), chained=False, beside=(own, other))


@DRAWINGS.add("transformer")
def _transformer(sketch: Sketch, config: Any, title: str) -> Drawing:
    d, skips = config.d_model, list[Skip]()
    encoder: list[Item] = [
        text("source", "source", "S"),
        sketch.part("encoder.embedding", shape=f"S × {d:,}"),
        *blocks_of(sketch, "encoder.layers", skips, shape=f"S × {d:,}"),
        *last_norm_of(sketch, "encoder.norm"),
    ]
    return with_decoder(sketch, config, title, encoder, skips)


def with_decoder(
    sketch: Sketch,
    config: Any,
    title: str,
    encoder: list[Item],
    skips: list[Skip],
    more: Sequence[Block] = (),
) -> Drawing:
    """An encoder, and a Transformer's decoder beside it."""
    d = config.d_model
    frames = blocks_of(sketch, "decoder.layers", skips, shape=f"T × {d:,}", masked=True)
    decoder: tuple[Item, ...] = (
        text("target", TARGET, "T"),
        sketch.part("decoder.embedding", shape=f"T × {d:,}"),
        *frames,
        *last_norm_of(sketch, "decoder.norm"),
        sketch.words_out(*OUTPUT),
        text("words", "probabilities of the next token"),
    )
    columns = [
        Column(title="Encoder", items=(*encoder, *more)),
        Column(title="Decoder", items=decoder),
    ]
    return sketch.finished(title, columns, links=across(frames, last_of(encoder)), skips=skips)


@DRAWINGS.add("prefix_decoder")
def _prefix_decoder(sketch: Sketch, config: Any, title: str) -> Drawing:
    return _decoder_alone(sketch, config, title, "decoder.", "source and target so far")


@DRAWINGS.add("decoder")
def _decoder(sketch: Sketch, config: Any, title: str) -> Drawing:
    return _decoder_alone(sketch, config, title, "", "text so far")


def _decoder_alone(sketch: Sketch, config: Any, title: str, at: str, read: str) -> Drawing:
    skips, shape = list[Skip](), f"T × {config.d_model:,}"
    items: tuple[Item, ...] = (
        text("text", read, "T"),
        sketch.part(f"{at}embedding", shape=shape),
        *blocks_of(sketch, f"{at}layers", skips, shape=shape, masked=True),
        *last_norm_of(sketch, f"{at}norm"),
        sketch.words_out(*OUTPUT),
        text("words", "probabilities of the next token"),
    )
    return sketch.finished(title, [Column(title="Decoder", items=items)], skips=skips)


@DRAWINGS.add("encoder")
def _encoder(sketch: Sketch, config: Any, title: str) -> Drawing:
    skips, shape = list[Skip](), f"S × {config.d_model:,}"
    if config.cell is None:
        frames = blocks_of(sketch, "layers", skips, shape=shape)
    else:
        frames = sketch.layers("layers", lambda at: [unrolled(sketch, f"{at}.recurrence")])
    items: tuple[Item, ...] = (
        text("text", "text, or a pair of texts", "S"),
        sketch.part("embedding", shape=shape),
        *frames,
        *last_norm_of(sketch, "norm"),
        *_HEADS[config.head](sketch, config),
    )
    return sketch.finished(title, [Column(title="Encoder", items=items)], skips=skips)


def _labels(sketch: Sketch, config: Any) -> list[Block]:
    labels = text("labels", "a score for each label")
    if config.pooling == "attention":
        pooled = sketch.part(
            "head.pool_attention", "a learned query looks", also=["head.query"], shape="1"
        )
    elif config.pooling == "mean":
        pooled = Block(key="head.mean", title="mean of all tokens")
    else:
        pooled = sketch.part("head.dense", "first token: linear, tanh")
    return [pooled, sketch.part("head.to_labels", "linear, softmax", kind="output"), labels]


def _masked(sketch: Sketch, config: Any) -> list[Block]:
    dense = sketch.part("head.dense", f"linear, {config.activation}")
    said = sketch.own(
        "output",
        "linear, softmax",
        "head.bias",
        "head.tokens",
        kind="output",
        details=(to(config.d_model, config.n_vocab), "the embedding's matrix"),
    )
    words = text("words", "probabilities of the word at each place")
    return [dense, *last_norm_of(sketch, "head.norm"), said, words]


def _spans(sketch: Sketch, config: Any) -> list[Block]:
    ends = text("ends", "where an answer starts and ends")
    return [sketch.part("head.to_ends", "linear, softmax", kind="output"), ends]


def _states(sketch: Sketch, config: Any) -> list[Block]:
    return [text("states", "a vector for each token")]


_HEADS: dict[str, Callable[[Sketch, Any], list[Block]]] = {
    "classify": _labels,
    "masked": _masked,
    "spans": _spans,
    "none": _states,
}


@DRAWINGS.add("skip_gram")
def _skip_gram(sketch: Sketch, config: Any, title: str) -> Drawing:
    """Two tables, whose rows meet in a product."""
    word: tuple[Item, ...] = (
        text("word", "a word", "1"),
        sketch.part("tokens", "vectors of words", shape=f"1 × {config.d_model:,}"),
        Block(key="product", title="product, sigmoid", kind="output"),
        text("near", "how likely they are neighbours"),
    )
    context: tuple[Item, ...] = (
        text("context", "another word", "1"),
        sketch.part("contexts", "vectors of contexts", shape=f"1 × {config.d_model:,}"),
    )
    columns = [Column(title="Word", items=word), Column(title="Context", items=context)]
    return sketch.finished(title, columns, links=[Link("contexts", "product")])
