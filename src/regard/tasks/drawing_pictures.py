"""Drawings of models that read pictures."""

from __future__ import annotations

from typing import Any

from regard.tasks.drawing_blocks import (
    DRAWINGS,
    OUTPUT,
    TARGET,
    across,
    between,
    blocks_of,
    last_norm_of,
    last_of,
    unrolled,
    with_decoder,
)
from regard.tasks.drawing_parts import Sketch, plus, text, to
from regard.visual.drawing import Block, Column, Drawing, Item, Link, Skip


def picture_items(sketch: Sketch, config: Any, path: str, skips: list[Skip]) -> list[Item]:
    """What reads a picture: patches or a convolutional network, and blocks over them."""
    rows, columns = config.grid
    shape = f"{rows} × {columns} × {config.d_model:,}"
    side = config.image_size
    return [
        text("picture", "picture", f"3 × {side} × {side}"),
        *sketch.optional(f"{path}.conv"),
        sketch.part(f"{path}.embedding", shape=shape),
        *blocks_of(sketch, f"{path}.layers", skips, shape=shape),
        *last_norm_of(sketch, f"{path}.norm"),
    ]


def concepts_of(sketch: Sketch) -> list[Block]:
    """The head of a captioner's second loss, where it has one."""
    return sketch.optional("concepts", "words the picture shows, in training")


@DRAWINGS.add("transformer_captioner")
def _transformer_captioner(sketch: Sketch, config: Any, title: str) -> Drawing:
    skips = list[Skip]()
    encoder = picture_items(sketch, config, "encoder", skips)
    return with_decoder(sketch, config, title, encoder, skips, concepts_of(sketch))


@DRAWINGS.add("vision")
def _vision(sketch: Sketch, config: Any, title: str) -> Drawing:
    skips = list[Skip]()
    items: tuple[Item, ...] = (
        *picture_items(sketch, config, "encoder", skips),
        sketch.part("to_labels", "class token: linear, softmax", kind="output"),
        text("labels", "a score for each label"),
    )
    return sketch.finished(title, [Column(title="Encoder", items=items)], skips=skips)


@DRAWINGS.add("captioner")
def _captioner(sketch: Sketch, config: Any, title: str) -> Drawing:
    skips, d = list[Skip](), config.d_model
    encoder = picture_items(sketch, config, "encoder", skips)
    seen = last_of(encoder)
    first = [text("target", TARGET, "T"), sketch.part("decoder.tokens", shape=f"T × {d:,}")]
    said = [sketch.words_out(*OUTPUT), text("words", "probabilities of the next token")]
    drawn = Column(title="Encoder", items=(*encoder, *concepts_of(sketch)))
    if config.decoder == "tell":
        cell = sketch.own(
            "decoder.cell",
            "LSTM",
            "decoder.from_input",
            "decoder.from_state",
            kind="recurrent",
            details=(to(d, d),),
            loop="its state",
            shape=f"T × {d:,}",
        )
        decoder = Column(title="Decoder", items=(*first, cell, *said))
        links = [Link(seen, "decoder.cell", "mean, once")]
        return sketch.finished(title, [drawn, decoder], links=links, skips=skips)
    cell = unrolled(sketch, "decoder.cell", shape=f"T × {d:,}")
    joined = sketch.own(
        "joined",
        "sum",
        "decoder.from_state",
        "decoder.from_context",
        details=("of word, W state and W context",),
        shape=f"T × {d:,}",
    )
    begin = sketch.own(
        "decoder.begin",
        "first state: linear, tanh",
        "decoder.begin",
        "decoder.begin_h",
        "decoder.begin_c",
        details=(to(d, d, d),),
    )
    looked = "decoder.cross_attention"
    looks = sketch.part(
        looked, "attention to the picture", also=["decoder.gate"], details=("× gate β",)
    )
    asks = "sₜ" if config.query == "current" else "sₜ₋₁"
    links = [
        Link(seen, "decoder.begin", "mean"),
        Link("decoder.begin", "decoder.cell", "s₀"),
        Link(seen, looked, "keys"),
        Link("decoder.cell", looked, asks),
        Link(looked, "decoder.cell", "ẑ"),
        Link(looked, "joined", "ẑ"),
    ]
    columns = [
        drawn,
        between(looked, "joined", (begin, looks)),
        Column(title="Decoder", items=(*first, cell, joined, *said)),
    ]
    return sketch.finished(title, columns, links=links, skips=skips)


@DRAWINGS.add("visual_questions")
def _visual_questions(sketch: Sketch, config: Any, title: str) -> Drawing:
    arrange = _stacked_reader if config.reader == "stacked" else _joint_reader
    return arrange(sketch, config, title)


def _stacked_reader(sketch: Sketch, config: Any, title: str) -> Drawing:
    skips, d = list[Skip](), config.d_model

    def look(at: str) -> list[Block]:
        skips.append(Skip(at, f"{at}.sum"))
        return [sketch.part(at, "attention to the picture"), plus(f"{at}.sum")]

    question = (
        text("question", "question", "S"),
        sketch.part("tokens", shape=f"S × {d:,}"),
        unrolled(sketch, "recurrence"),
    )
    picture = picture_items(sketch, config, "encoder", skips)
    frames = sketch.layers("looks", look, of="look", shape=f"{d:,}")
    scale = sketch.own("scale", "context of examples", "scale", details=("times one number",))
    answer: tuple[Item, ...] = (
        text("asks", "last state u", f"{d:,}"),
        *frames,
        *((scale,) if sketch.has("scale") else ()),
        sketch.part("to_labels", "linear, softmax", kind="output"),
        text("labels", "a score for each answer"),
    )
    looked = frames[0].blocks[0].key
    links = [Link("recurrence", "asks"), Link(last_of(picture), looked, "keys")]
    columns = [
        Column(title="Question", items=question),
        Column(title="Looks", items=answer, after=("recurrence",)),
        Column(title="Picture", items=tuple(picture)),
    ]
    return sketch.finished(title, columns, links=links, skips=skips)


def _joint_reader(sketch: Sketch, config: Any, title: str) -> Drawing:
    skips, d = list[Skip](), config.d_model
    question = (text("question", "question", "S"), sketch.part("embedding", shape=f"S × {d:,}"))
    picture = picture_items(sketch, config, "encoder", skips)
    kinds = sketch.own("kinds", "one sequence", "kinds", details=(f"+ which kind: 2 × {d:,}",))
    joint: tuple[Item, ...] = (
        kinds,
        *blocks_of(sketch, "joint", skips, shape=f"(S + N) × {d:,}"),
        *last_norm_of(sketch, "norm"),
        sketch.part("to_labels", "first token: linear, softmax", kind="output"),
        text("labels", "a score for each answer"),
    )
    links = [Link("embedding", "kinds", "words"), Link(last_of(picture), "kinds", "patches")]
    columns = [
        Column(title="Question", items=question),
        Column(title="Both", items=joint, after=("embedding", last_of(picture))),
        Column(title="Picture", items=tuple(picture)),
    ]
    return sketch.finished(title, columns, links=links, skips=skips)


@DRAWINGS.add("detection")
def _detection(sketch: Sketch, config: Any, title: str) -> Drawing:
    skips, d, n = list[Skip](), config.d_model, config.n_queries
    rows, columns_ = config.grid
    shape = f"{rows} × {columns_} × {d:,}"
    cells = picture_items(sketch, config, "encoder.cells", skips)
    encoder: tuple[Item, ...] = (
        *cells,
        *blocks_of(sketch, "encoder.layers", skips, shape=shape),
        *last_norm_of(sketch, "encoder.norm"),
    )
    anchored = sketch.has("decoder.anchors")
    start = sketch.own(
        "queries",
        "anchors" if anchored else "learned queries",
        "decoder.queries",
        "decoder.anchors",
        "decoder.from_anchors",
        kind="embedding",
        details=(
            f"{config.n_groups * n:,} × {d:,}",
            *((f"boxes by {to(2 * d, d, d)}",) if anchored else ()),
        ),
        shape=f"{n} × {d:,}",
    )
    frames = blocks_of(sketch, "decoder.layers", skips, shape=f"{n} × {d:,}")
    bias = sketch.own(
        "biases", "Gaussians of boxes", "decoder.biases", details=("each head's own",)
    )
    heads = sketch.own(
        "heads",
        "class and box",
        "decoder.to_classes",
        "decoder.to_boxes",
        kind="output",
        details=(f"class {to(d, config.n_outputs)}", f"box {to(d, d, d, 4)}"),
    )
    decoder: tuple[Item, ...] = (
        start,
        *((bias,) if anchored else ()),
        *frames,
        sketch.part("decoder.norm"),
        heads,
        text("objects", f"of each query: {n} objects at most"),
    )
    columns = [Column(title="Encoder", items=encoder), Column(title="Decoder", items=decoder)]
    return sketch.finished(title, columns, links=across(frames, last_of(encoder)), skips=skips)
