"""One token's way through a model, stage by stage, in the numbers of one run.

with heard(model) as calls:
    run.explain(…)                       # the last call of every module is kept
story = told(model, calls, Asked("decoder.cross", layer=0, row=3))

Between the stages stand the six steps of an attention (``regard.inspection.records``). A
Transformer is told by its blocks: embedding and position, what each sub-layer was given and added,
the stream from layer to layer, logits. A window is told by what it lets through: a block of
neighbours, or slots and the positions that each was made of. A decoder without blocks (recurrent,
convolutional) is told by its states: what was read, and what the next word is read off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.core.errors import ConfigError
from regard.inspection.capture import viewpoints
from regard.layers.attention import MultiHeadAttention
from regard.layers.blocks import Residual, TransformerBlock
from regard.layers.embeddings import InputEmbedding
from regard.layers.feed_forward import FeedForward
from regard.layers.patches import PatchEmbedding
from regard.layers.viewpoint import Viewpoint
from regard.layers.window import STRIDE, WINDOWS, CompressedWindow

Array = NDArray[np.float32]
MOST_POSITIONS = 64
"""Codes of so many positions are told; more would be too small to see."""
DIGITS = 6
"""After the point, of numbers that become JSON."""


class Call(NamedTuple):
    """What a module was given, and what it gave."""

    inputs: tuple[Any, ...]
    output: Any


Calls = Mapping[nn.Module, Call]


@dataclass(frozen=True, slots=True)
class Asked:
    """Which attention is looked into, and the position (of its queries) that is followed.

    Of windows that make slots, one ``head`` is told.
    """

    name: str
    layer: int
    row: int
    head: int = 0


@contextmanager
def heard(model: nn.Module) -> Iterator[dict[nn.Module, Call]]:
    """Keep the last call of every module inside the block; afterwards no hook remains.

    Viewpoints are left out: a hook there would be somebody who watches or edits.
    """
    calls: dict[nn.Module, Call] = {}

    def keep(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        calls[module] = Call(inputs, output)

    apart = {
        one for view in model.modules() if isinstance(view, Viewpoint) for one in view.modules()
    }
    handles = [one.register_forward_hook(keep) for one in model.modules() if one not in apart]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


# ------------------------------------------------------------------ what is told


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Embedded:
    """How a token became the vector that the first layer reads."""

    kind: str  # of positions: sinusoidal, learned, index, none, alibi, rotary
    position: int  # where it stands in the text that is read, counted from 0
    token: Array  # (Dt,): the token's own vector, scaled as the model does
    code: Array  # (Dc,): what its position added, or what stands beside the token
    joined: Array  # (Dj,): both together
    vector: Array  # (D,): after projections, segments and norms, if there are any
    codes: Array  # (N, Dc): the codes of the first positions, as they were used
    distances: Array  # (N, N): how far apart these codes are


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sublayer:
    """A sub-layer at one position, and the residual connection around it; all are (D,)."""

    kind: str  # self, cross or feed_forward
    enters: Array  # the stream before it
    given: Array  # what it reads: the same, normalised first where the model is pre-norm
    added: Array  # what it adds to the stream
    sum: Array  # both together
    leaves: Array  # the stream behind it: normalised where the model is post-norm


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Windowed:
    """Which positions may be seen, where that is not decided by masks alone."""

    kind: str  # local_m, local_p, block, compressed
    width: int  # positions that are seen at once, or that become one slot
    keys: Array | None  # (N, Dk): of the positions, where slots are made of them
    parts: Array | None  # (N, Dk): what each adds to its slot's key, of width positions in a row


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockStory:
    """A position of a Transformer: embedding, one layer from inside, all layers from outside."""

    layer: int  # that is looked into, counted among all of its stack
    embedded: Embedded | None  # None where a model's first layer reads no embedding
    place: Array | None  # (D,): what joins its query and no value; None where nothing does
    window: Windowed | None  # None where all may be seen that a mask does not hide
    norm_first: bool
    sublayers: tuple[Sublayer, ...]  # of the layer that is looked into, in their order
    heads: Array  # (H, Dv): what each head brought home
    projected: Array  # (H, D): each through its part of W_o
    bias: Array | None  # (D,): of W_o
    inner: Array | None  # (F,): of the feed-forward, before the nonlinearity; None of experts
    active: Array | None  # (F,): behind it
    stream: Array  # (L + 1, D): before the first layer, and behind each
    states: Array  # (D,): what the last layer of the model, or a decoder, reads
    logits: Array | None  # (V,): None where nothing is read off this position


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateStory:
    """A position of a decoder without blocks; what asks and what comes home are in the steps."""

    read: Array | None  # (S, d): the encoder's states, which are looked at
    word: Array | None  # (d,): the vector of the token that was read last
    output: Array  # (D,): what the next word is read off
    logits: Array | None  # (V,)


Story = BlockStory | StateStory


def as_json(story: Any) -> Any:
    """Plain lists and rounded numbers; logits are left out, of which few are shown."""
    if isinstance(story, np.ndarray):
        return np.round(story.astype(np.float64), DIGITS).tolist()
    if isinstance(story, tuple):
        return [as_json(one) for one in story]
    if not hasattr(story, "__dataclass_fields__"):
        return story
    named = {one.name: getattr(story, one.name) for one in fields(story)}
    return {name: as_json(value) for name, value in named.items() if name != "logits"}


# ------------------------------------------------------------------ telling it


@torch.no_grad()
def told(model: nn.Module, calls: Calls, asked: Asked) -> Story:
    """The story of one position, from the calls of one run over one text."""
    view = dict(viewpoints(model)).get((asked.name, asked.layer))
    if view is None:
        raise ConfigError(
            f"no attention {asked.name!r} with a layer {asked.layer}; name one that the model has"
        )
    block = next((one for one in _blocks(model) if _attention(one, view) is not None), None)
    if block is None:
        return _of_states(model, calls, asked)
    n_before = 0
    if getattr(model, "reads_as_one", False):
        calls, n_before = _read_as_one(model, calls)
    attention = _attention(block, view)
    assert attention is not None, "the block was found by it"
    last = calls.get(attention.to_out)
    if last is None or not _holds(last.output, n_before + asked.row):
        raise ConfigError(
            f"the story of {asked.name} cannot be told: its layers do not read a text from its "
            "beginning; its six steps can be seen"
        )
    return _of_blocks(model, calls, block, attention, asked, n_before)


def _read_as_one(model: nn.Module, calls: Calls) -> tuple[Calls, int]:
    """What is heard of a model that reads a source and its target as one text, and how many tokens
    stand before the target.

    While it was looked at, its stack read the source from the beginning, and its embedding then
    the target; here both are read at once, so that all positions are heard.
    """
    generator: Any = model
    source, target = (
        calls[part].inputs[0] for part in (generator.decoder, generator.decoder.embedding)
    )
    with heard(model) as whole:
        generator(source, target)
    return whole, source.shape[1]


def _of_blocks(
    model: nn.Module,
    calls: Calls,
    block: TransformerBlock,
    attention: MultiHeadAttention,
    asked: Asked,
    n_before: int,
) -> BlockStory:
    t = n_before + asked.row
    stack = next(one for one in model.modules() if block in _layers(one))
    layers = [one for one in _layers(stack) if isinstance(one, TransformerBlock)]
    each = [[*_sublayers(one, calls, t)] for one in layers]
    stream = [*(parts[0].enters for parts in each), each[-1][-1].leaves]
    sublayers = tuple(each[layers.index(block)])
    heads = _at(calls[attention.to_out].inputs[0], t).reshape(attention.n_heads, -1)  # (H, Dv)
    rows = _array(attention.to_out.weight.T).reshape(*heads.shape, -1)  # (H, Dv, D)
    inner, active = _inside(block.feed_forward, calls, t)
    norm = calls.get(getattr(stack, "norm", stack))
    bias = attention.to_out.bias
    kind = "self" if attention is block.self_attention else "cross"
    given = next(one.given for one in sublayers if one.kind == kind)
    place = _at(calls[attention.to_q].inputs[0], t) - given
    return BlockStory(
        layer=layers.index(block),
        embedded=_embedded(model, stack, calls, t),
        place=place if place.any() else None,
        window=_windowed(attention, calls, asked.head),
        norm_first=block.around_self.norm_first,
        sublayers=sublayers,
        heads=heads,
        projected=np.einsum("hv,hvd->hd", heads, rows),
        bias=None if bias is None else _array(bias),
        inner=inner,
        active=active,
        stream=np.stack(stream),
        states=stream[-1] if norm is None else _at(norm.output, t),
        logits=_logits(model, calls, stack, asked.row),
    )


_WIDTHS: dict[str, Callable[[int], int]] = {
    "block": lambda half: 2 * half,
    "local_m": lambda half: 2 * half + 1,
    "local_p": lambda half: 2 * half + 1,
}
"""By the name of a window: how many positions are seen at once, given its half width."""


def _windowed(attention: MultiHeadAttention, calls: Calls, head: int) -> Windowed | None:
    window = attention.window
    kind = next((name for name, made in WINDOWS.items() if made is type(window)), "")
    if isinstance(window, CompressedWindow):
        keys, parts = _slots_made_of(attention, window, calls, head)
        return Windowed(kind=kind, width=STRIDE, keys=keys, parts=parts)
    if kind not in _WIDTHS:
        return None
    return Windowed(kind=kind, width=_WIDTHS[kind](window.half_width), keys=None, parts=None)


def _slots_made_of(
    attention: MultiHeadAttention, window: CompressedWindow, calls: Calls, head: int
) -> tuple[Array, Array]:
    """The keys of all positions (N, Dk), and each through its part of the convolution.

    Where positions turn keys, a part is turned as its slot is, so that parts add up to the slot.
    """
    at = head * attention.n_kv_heads // attention.n_heads  # heads may share keys
    keys = calls[attention.to_k].output[0].unflatten(-1, (attention.n_kv_heads, -1))[:, at]
    kernel = window.to_key[at].unflatten(0, (STRIDE, -1)).to(keys.dtype)  # (3, Dk, Dk)
    positions = torch.arange(len(keys), device=keys.device)
    parts = torch.einsum("tk,tkj->tj", keys, kernel[positions % STRIDE])[None, None]
    stand = (positions // STRIDE + 1) * STRIDE - 1  # where the slot's last position is
    return _array(keys), _array(attention.relative(parts, parts, 0, stand).k[0, 0])


def _of_states(model: nn.Module, calls: Calls, asked: Asked) -> StateStory:
    decoder = getattr(model, "decoder", None)
    of_target = decoder in calls and asked.name.startswith("decoder.")
    if decoder is None or not of_target or not _holds(calls[decoder].output, asked.row):
        raise ConfigError(
            f"the story of {asked.name} cannot be told: the model has neither blocks nor a decoder "
            "that reads a target; its six steps can be seen"
        )
    word = calls.get(getattr(decoder, "tokens", model))
    encoder = calls.get(getattr(model, "encoder", model))
    read = None if encoder is None else encoder.output
    return StateStory(
        read=_array(_stream(read)[0]) if _holds(read, 0) else None,
        word=_at(word.output, asked.row) if word and _holds(word.output, asked.row) else None,
        output=_at(calls[decoder].output, asked.row),
        logits=_logits(model, calls, decoder, asked.row),
    )


def _sublayers(block: TransformerBlock, calls: Calls, t: int) -> Iterator[Sublayer]:
    """In the order in which the stream meets them."""
    parts: dict[str, tuple[Residual, nn.Module]] = {
        "self": (block.around_self, block.self_attention.to_out),
        "feed_forward": (block.around_feed_forward, block.feed_forward),
    }
    if block.cross_attention is not None and block.around_cross is not None:
        parts["cross"] = block.around_cross, block.cross_attention.to_out
    order = ("self", "feed_forward", "cross") if block.source_last else _ORDER
    stream = _entered(block, calls, t)
    for kind in (one for one in order if one in parts):
        around, last = parts[kind]
        norm, added = calls[around.norm], _at(calls[last].output, t)
        both = stream + added
        leaves = both if around.norm_first else _at(norm.output, t)
        given = _at(norm.output, t) if around.norm_first else stream
        yield Sublayer(kind=kind, enters=stream, given=given, added=added, sum=both, leaves=leaves)
        stream = leaves


_ORDER = ("self", "cross", "feed_forward")


def _entered(block: TransformerBlock, calls: Calls, t: int) -> Array:
    """(D,): the stream before a block: what its first norm is given, or what its values are of."""
    first = block.around_self.norm if block.around_self.norm_first else block.self_attention.to_v
    return _at(calls[first].inputs[0], t)


def _inside(feed_forward: nn.Module, calls: Calls, t: int) -> tuple[Array | None, Array | None]:
    """(F,) before and behind the nonlinearity; experts are many, and none of them is told."""
    if not isinstance(feed_forward, FeedForward):
        return None, None
    return (
        _at(calls[feed_forward.inner].output, t),
        _at(calls[feed_forward.outer].inputs[0], t),
    )


class _Parts(NamedTuple):
    tokens: Tensor  # (1, N, Dt)
    joined: Tensor  # (1, N, Dj)


def _of_tokens(embedding: InputEmbedding, calls: Calls) -> _Parts:
    """The table may be shared with another stack, so it is not asked: its own parts are."""
    tokens = calls[embedding.positions].inputs[0] / embedding.shrink
    return _Parts(tokens, calls[embedding.to_model].inputs[0])


def _of_patches(embedding: PatchEmbedding, calls: Calls) -> _Parts:
    patches = calls[embedding.project].output
    if embedding.class_token is not None:
        patches = torch.cat((embedding.class_token.to(patches)[None, None], patches), dim=1)
    return _Parts(patches, calls[embedding].output)


_EMBEDDINGS: dict[type, Callable[[Any, Calls], _Parts]] = {
    InputEmbedding: _of_tokens,
    PatchEmbedding: _of_patches,
}


def _embedded(model: nn.Module, stack: nn.Module, calls: Calls, t: int) -> Embedded | None:
    embedding = getattr(stack, "embedding", None)
    parts_of = _EMBEDDINGS.get(type(embedding))
    if embedding is None or parts_of is None:
        return None
    tokens, joined = parts_of(embedding, calls)
    beside = joined.shape[-1] - tokens.shape[-1]
    codes = joined[..., -beside:] if beside else joined - tokens
    shown = codes[0, :MOST_POSITIONS].float()
    return Embedded(
        kind=str(getattr(getattr(model, "config", None), "positions", "none")),
        position=t,
        token=_at(tokens, t),
        code=_at(codes, t),
        joined=_at(joined, t),
        vector=_at(calls[embedding].output, t),
        codes=_array(shown),
        distances=_array(torch.cdist(shown, shown, compute_mode="donot_use_mm_for_euclid_dist")),
    )


def _logits(model: nn.Module, calls: Calls, stack: nn.Module, t: int) -> Array | None:
    """What is read off position t of a stack: nothing, where another stack reads on."""
    decoder = getattr(model, "decoder", None)
    if decoder is not None and decoder is not stack:
        return None
    if model in calls:
        output = calls[model].output
        if not isinstance(output, Tensor) or output.dim() not in (2, 3):
            return None
        return _array(output[0]) if output.dim() == 2 else _at(output, t)
    generator: Any = model  # its decoder alone was called, with what it had read before
    states = calls[stack].output
    return _array(generator.logits(_stream(states)[0, t]))


# ------------------------------------------------------------------ finding parts


def _blocks(model: nn.Module) -> list[TransformerBlock]:
    return [one for one in model.modules() if isinstance(one, TransformerBlock)]


def _layers(stack: nn.Module) -> list[nn.Module]:
    layers = getattr(stack, "layers", None)
    return list(layers) if isinstance(layers, nn.ModuleList) else []


def _attention(block: TransformerBlock, view: Viewpoint) -> MultiHeadAttention | None:
    """The attention of a block that has this viewpoint."""
    own = (block.self_attention, block.cross_attention)
    return next((one for one in own if one is not None and one.view is view), None)


def _stream(output: Any) -> Tensor:
    """The vectors of an output, which may have a state beside them."""
    found: Tensor = output[0] if isinstance(output, tuple) else output
    return found


def _holds(output: Any, t: int) -> bool:
    """Whether an output is (B, T, D) with a position t; a decoder may go step by step."""
    found = _stream(output)
    return isinstance(found, Tensor) and found.dim() == 3 and t < found.shape[1]


def _at(output: Any, t: int) -> Array:
    """(D,): position t of the first text of an output (1, T, D)."""
    return _array(_stream(output)[0, t])


def _array(one: Tensor) -> Array:
    found: Array = one.detach().float().cpu().numpy()
    return found
