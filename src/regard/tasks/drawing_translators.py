"""Drawings of translators that are no Transformers: recurrent and convolutional ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.tasks.drawing_blocks import (
    DRAWINGS,
    ENCODED,
    OUTPUT,
    TARGET,
    across,
    between,
    unrolled,
)
from regard.tasks.drawing_parts import Sketch, plus, text, to
from regard.visual.drawing import Block, Column, Drawing, Frame, Item, Link, Skip

# ------------------------------------------------------------------ recurrent translators


def _looking(sketch: Sketch, path: str, **others: Any) -> Block:
    return sketch.part(path, "attention to the source", **others)


@DRAWINGS.add("recurrent")
def _recurrent(sketch: Sketch, config: Any, title: str) -> Drawing:
    d, wide = config.d_model, config.d_memory
    source = "source, read from its end" if config.reverse_source else "source"
    encoder = Column(
        title="Encoder",
        items=(
            text("source", source, "S"),
            sketch.part("encoder.tokens", shape=f"S × {d:,}"),
            unrolled(sketch, "encoder.recurrence", shape=f"S × {wide:,}"),
            text(ENCODED, "states h₁ … hₛ"),
        ),
    )
    arrange = _bahdanau if config.decoder == "bahdanau" else _luong
    return arrange(sketch, config, title, encoder)


def _bahdanau(sketch: Sketch, config: Any, title: str, encoder: Column) -> Drawing:
    """s_{t-1} looks before the cell reads, and the context goes into it."""
    d = config.d_model
    joined = ("decoder.from_state", "decoder.from_word", "decoder.from_context")
    decoder: tuple[Item, ...] = (
        text("target", TARGET, "T"),
        sketch.part("decoder.tokens", shape=f"T × {d:,}"),
        unrolled(sketch, "decoder.cell", shape=f"T × {d:,}"),
        sketch.own(
            "joined",
            "maxout",
            *joined,
            details=("of state, word and context", to(2 * d, d)),
            shape=f"T × {d:,}",
        ),
        sketch.words_out(*OUTPUT),
        text("words", "probabilities of the next token"),
    )
    middle = (
        sketch.part("decoder.begin", "first state: linear, tanh"),
        _looking(sketch, "decoder.cross_attention"),
    )
    links = [
        Link("encoder.recurrence", "decoder.begin", "h₁"),
        Link("decoder.begin", "decoder.cell", "s₀"),
        Link(ENCODED, "decoder.cross_attention", "keys"),
        Link("decoder.cell", "decoder.cross_attention", "sₜ₋₁"),
        Link("decoder.cross_attention", "decoder.cell", "cₜ"),
        Link("decoder.cross_attention", "joined", "cₜ"),
        Link("decoder.tokens", "joined", "yₜ₋₁"),
    ]
    columns = [
        encoder,
        between("decoder.cross_attention", "joined", middle),
        Column(title="Decoder", items=decoder),
    ]
    return sketch.finished(title, columns, links=links)


def _luong(sketch: Sketch, config: Any, title: str, encoder: Column) -> Drawing:
    """The cell reads, its state looks, and words are read off both."""
    d, looks = config.d_model, sketch.has("decoder.cross_attention")
    joined = sketch.optional("decoder.join", "linear, tanh", shape=f"T × {d:,}")
    projected = _projected(sketch)
    said = sketch.words_out(*OUTPUT)
    decoder: tuple[Item, ...] = (
        text("target", TARGET, "T"),
        sketch.part("decoder.tokens", shape=f"T × {d:,}"),
        unrolled(sketch, "decoder.recurrence", shape=f"T × {d:,}"),
        *joined,
        *projected,
        said,
        text("words", "probabilities of the next token"),
    )
    reader = (*joined, *projected, said)[0].key
    begins = sketch.optional("decoder.begin")
    looking = [_looking(sketch, "decoder.cross_attention")] if looks else []
    links = [
        *_begun("encoder.recurrence", "decoder.recurrence", begins),
        Link(ENCODED, "decoder.cross_attention", "keys"),
        Link("decoder.recurrence", "decoder.cross_attention", "sₜ"),
        Link("decoder.cross_attention", reader, "cₜ"),
    ]
    if config.input_feeding:
        links.append(Link("decoder.join", "decoder.recurrence", "fed back"))
    columns = [encoder, Column(title="Decoder", items=decoder)]
    if middle := (*begins, *looking):
        own, other = (middle[-1].key, reader if looks else "decoder.recurrence")
        columns.insert(1, between(own, other, middle))
    return sketch.finished(title, columns, links=links)


def _projected(sketch: Sketch) -> list[Block]:
    """What brings states to the width of words where the output is tied, if that is needed."""
    made = sketch.has("decoder.to_words.weight")
    return [sketch.part("decoder.to_words", "linear")] if made else []


def _begun(start: str, end: str, begins: Sequence[Block]) -> list[Link]:
    """What a decoder begins with: the encoder's last state, or what is made of it."""
    if not begins:
        return [Link(start, end, "last state")]
    return [Link(start, begins[0].key, "last state"), Link(begins[0].key, end, "s₀")]


@DRAWINGS.add("residual_recurrent")
def _residual_recurrent(sketch: Sketch, config: Any, title: str) -> Drawing:
    d, skips = config.d_model, list[Skip]()
    encoder: tuple[Item, ...] = (
        text("source", "source", "S"),
        sketch.part("encoder.tokens", shape=f"S × {d:,}"),
        unrolled(sketch, "encoder.both_ways"),
        *_residual_stack(sketch, "encoder.above", config, skips, shape=f"S × {config.d_memory:,}"),
        text(ENCODED, "states h₁ … hₛ"),
    )
    above = _residual_stack(sketch, "decoder.above", config, skips, shape=f"T × {d:,}")
    decoder: tuple[Item, ...] = (
        text("target", TARGET, "T"),
        sketch.part("decoder.tokens", shape=f"T × {d:,}"),
        unrolled(sketch, "decoder.cell", "LSTM, layer 0", shape=f"T × {d:,}"),
        *above,
        sketch.words_out(*OUTPUT),
        text("words", "probabilities of the next token"),
    )
    middle = (
        sketch.part("encoder.begin"),
        _looking(sketch, "decoder.cross_attention"),
    )
    looked = "decoder.cross_attention"
    readers = [block.key for frame in above for block in frame.blocks if block.kind == "recurrent"]
    links = [
        Link("encoder.both_ways", "encoder.begin", "last states"),
        Link("encoder.begin", "decoder.cell", "s₀"),
        Link(ENCODED, looked, "keys"),
        Link("decoder.cell", looked, "sₜ₋₁"),
        Link(looked, "decoder.cell", "cₜ"),
        *(Link(looked, reader, "cₜ") for reader in readers),
    ]
    columns = [
        Column(title="Encoder", items=encoder),
        between(looked, readers[0] if readers else "decoder.cell", middle),
        Column(title="Decoder", items=decoder),
    ]
    return sketch.finished(title, columns, links=links, skips=skips)


def _residual_stack(
    sketch: Sketch, path: str, config: Any, skips: list[Skip], *, shape: str
) -> tuple[Frame, ...]:
    """Layers from the second on, with experts before the last and sums where there are any."""
    last = len([*sketch.model.get_submodule(f"{path}.layers").children()]) - 1

    def layer(at: str) -> list[Block]:
        number = int(at.rpartition(".")[2])
        blocks = []
        if number == last and sketch.has(f"{path}.experts"):
            skips.append(Skip(f"{path}.experts", f"{path}.experts.sum"))
            blocks += [
                sketch.part(f"{path}.experts", details=("sigmoid",)),
                plus(f"{path}.experts.sum"),
            ]
        blocks.append(unrolled(sketch, at))
        if number + 2 >= config.residual_from:
            skips.append(Skip(at, f"{at}.sum"))
            blocks.append(plus(f"{at}.sum"))
        return blocks

    frames = sketch.layers(f"{path}.layers", layer, shape=shape)
    return tuple(
        Frame(numbers=tuple(n + 1 for n in one.numbers), blocks=one.blocks, shape=one.shape)
        for one in frames
    )


@DRAWINGS.add("fast_forward")
def _fast_forward(sketch: Sketch, config: Any, title: str) -> Drawing:
    d = config.d_model
    ways = sketch.layers(
        "encoder.columns", lambda at: _stack(sketch, f"{at}.layers"), of="column", shape="S × 10 d"
    )
    encoder: tuple[Item, ...] = (
        text("source", "source", "S"),
        sketch.part("encoder.tokens", shape=f"S × {config.d_word:,}"),
        *(
            Frame(numbers=one.numbers, blocks=one.blocks, of=one.of, shape=f"S × {10 * d:,}")
            for one in ways
        ),
        sketch.part("encoder.to_memory", "linear", shape=f"S × {config.d_memory:,}"),
        text(ENCODED, "e₁ … eₛ"),
    )
    decoder: tuple[Item, ...] = (
        text("target", TARGET, "T"),
        sketch.part("decoder.tokens", shape=f"T × {config.d_word:,}"),
        unrolled(sketch, "decoder.cell", "LSTM, layer 0", shape=f"T × {3 * d:,}"),
        *sketch.layers("decoder.above.layers", lambda at: _stack(sketch, at, one=True)),
        *_projected(sketch),
        sketch.words_out(*OUTPUT),
        text("words", "probabilities of the next token"),
    )
    looked = "decoder.cross_attention"
    links = [
        Link(ENCODED, looked, "keys"),
        Link("decoder.cell", looked, "sₜ₋₁"),
        Link(looked, "decoder.cell", "cₜ"),
    ]
    columns = [
        Column(title="Encoder", items=encoder),
        between(looked, "decoder.cell", (_looking(sketch, looked),)),
        Column(title="Decoder", items=decoder),
    ]
    return sketch.finished(title, columns, links=links)


def _stack(sketch: Sketch, path: str, *, one: bool = False) -> list[Block]:
    """Layers of LSTMs as blocks, one for those that are alike."""
    told = ("fast-forward connection",)
    if one:
        return [unrolled(sketch, f"{path}.recurrence", also=[f"{path}.peepholes"], details=told)]
    frames = sketch.layers(path, lambda at: _stack(sketch, at, one=True))
    return [
        Block(
            key=frame.blocks[0].key,
            title=f"{frame.blocks[0].title}, {frame.caption}",
            kind="recurrent",
            details=frame.blocks[0].details,
            count=frame.count,
            loop="its state; every second layer reads from the other end",
        )
        for frame in frames
    ]


@DRAWINGS.add("memory_network")
def _memory_network(sketch: Sketch, config: Any, title: str) -> Drawing:
    d, deep = config.d_model, config.fusion == "deep"
    encoder: tuple[Item, ...] = (
        text("source", "source", "S"),
        sketch.part("encoder.tokens", shape=f"S × {d:,}"),
        sketch.part("encoder.self_attention", "attention to its own past"),
        sketch.part("encoder.cell", loop="a tape of all its states"),
        text(ENCODED, "tape of states"),
    )
    said = (*_projected(sketch), sketch.words_out(*OUTPUT))
    decoder: tuple[Item, ...] = (
        text("target", TARGET, "T"),
        sketch.part("decoder.tokens", shape=f"T × {d:,}"),
        sketch.part("decoder.self_attention", "attention to its own past"),
        sketch.part("decoder.cell", loop="a tape of all its states"),
        *said,
        text("words", "probabilities of the next token"),
    )
    looked = "decoder.cross_attention"
    fused = sketch.own("fused", "fusion gate", "decoder.gate", details=(to(2 * d, d),))
    middle = (_looking(sketch, looked, also=["decoder.asks"]), *((fused,) if deep else ()))
    links = [Link(ENCODED, looked, "keys")]
    if deep:
        links += [
            Link("decoder.tokens", looked, "xₜ"),
            Link(looked, "fused", "γ̃, α̃"),
            Link("fused", "decoder.cell", "into c"),
        ]
    else:
        links += [Link("decoder.cell", looked, "hₜ"), Link(looked, said[0].key, "cₜ")]
    columns = [
        Column(title="Encoder", items=encoder),
        between(looked, "decoder.self_attention" if deep else said[0].key, middle),
        Column(title="Decoder", items=decoder),
    ]
    return sketch.finished(title, columns, links=links)


# ------------------------------------------------------------------ convolutional translators


@DRAWINGS.add("bytenet")
def _bytenet(sketch: Sketch, config: Any, title: str) -> Drawing:
    skips, wide = list[Skip](), f"{2 * config.d_model:,}"
    dilations = f"dilations {', '.join(map(str, config.dilations))}"

    def layer(at: str) -> list[Block]:
        skips.append(Skip(at, f"{at}.sum"))
        return [sketch.part(at, details=(dilations,)), plus(f"{at}.sum")]

    encoder: tuple[Item, ...] = (
        text("source", "source", "S"),
        sketch.part("encoder.tokens", shape=f"S × {wide}"),
        *sketch.layers("encoder.layers", layer, shape=f"N × {wide}"),
        text(ENCODED, "columns, a·S + b of them"),
    )
    decoder: tuple[Item, ...] = (
        text("target", TARGET, "T"),
        sketch.part("decoder.tokens", shape=f"T × {wide}"),
        plus("stands on"),
        *sketch.layers("decoder.layers", layer, shape=f"T × {wide}"),
        sketch.part("decoder.norm", "norm, ReLU"),
        sketch.words_out(*OUTPUT),
        text("words", "probabilities of the next token"),
    )
    columns = [Column(title="Encoder", items=encoder), Column(title="Decoder", items=decoder)]
    return sketch.finished(title, columns, links=[Link(ENCODED, "stands on")], skips=skips)


@DRAWINGS.add("convs2s")
def _convs2s(sketch: Sketch, config: Any, title: str) -> Drawing:
    skips, f = list[Skip](), config.d_words

    def reads(at: str) -> list[Block]:
        skips.append(Skip(f"{at}.convolution", f"{at}.sum"))
        return [sketch.part(f"{at}.convolution", also=[f"{at}.beside"]), plus(f"{at}.sum")]

    def writes(at: str) -> list[Block]:
        skips.append(Skip(f"{at}.convolution", f"{at}.sum"))
        query = f"query {to(*_widths(sketch, f'{at}.to_query'))}"
        back = f"and back {to(*_widths(sketch, f'{at}.from_context'))}"
        looks = sketch.part(
            f"{at}.cross_attention",
            "attention to the source",
            also=[f"{at}.to_query", f"{at}.from_context"],
            details=(query, back),
        )
        convolution = sketch.part(f"{at}.convolution", also=[f"{at}.beside"])
        return [convolution, looks, plus(f"{at}.sum")]

    encoder: tuple[Item, ...] = (
        text("source", "source", "S"),
        sketch.part("encoder.embedding", shape=f"S × {f:,}"),
        sketch.part("encoder.to_states", shape=f"S × {config.d_model:,}"),
        *sketch.layers("encoder.layers", reads),
        sketch.part("encoder.to_memory", shape=f"S × {f:,}"),
        text(ENCODED, "z, and z + e"),
    )
    frames = sketch.layers("decoder.layers", writes)
    decoder: tuple[Item, ...] = (
        text("target", TARGET, "T"),
        sketch.part("decoder.embedding", shape=f"T × {f:,}"),
        sketch.part("decoder.to_states", shape=f"T × {config.d_model:,}"),
        *frames,
        sketch.part("decoder.from_states", shape=f"T × {f:,}"),
        sketch.words_out(*OUTPUT),
        text("words", "probabilities of the next token"),
    )
    columns = [Column(title="Encoder", items=encoder), Column(title="Decoder", items=decoder)]
    return sketch.finished(title, columns, links=across(frames, ENCODED), skips=skips)


def _widths(sketch: Sketch, path: str) -> tuple[int, int]:
    """Of what a layer with a normed matrix reads and gives."""
    d_out, d_in = sketch.model.get_parameter(f"{path}.direction").shape
    return d_in, d_out
