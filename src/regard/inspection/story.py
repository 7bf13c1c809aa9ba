"""One token's way through a model, stage by stage, in the numbers of one run.

with heard(model) as calls:
    run.explain(…)                       # the last call of every module is kept
story = told(model, calls, Asked("decoder.cross", layer=0, row=3))

Between the stages stand the six steps of an attention (``regard.inspection.records``). A
Transformer is told by its blocks: embedding and position, what each sub-layer was given and added,
the stream from layer to layer, logits. A decoder without blocks (recurrent, convolutional) is told
by its states: what was read, and what the next word is read off.
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
    """Which attention is looked into, and the position (of its queries) that is followed."""

    name: str
    layer: int
    row: int


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
class BlockStory:
    """A position of a Transformer: embedding, one layer from inside, all layers from outside."""

    embedded: Embedded | None  # None where a model's first layer reads no embedding
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
    reads_on = getattr(model, "reads_as_one", False)
    if block not in calls or reads_on or not _holds(calls[block].output, asked.row):
        raise ConfigError(
            f"the story of {asked.name} cannot be told: its layers do not read a text from its "
            "beginning; its six steps can be seen"
        )
    return _of_blocks(model, calls, block, view, asked.row)


def _of_blocks(
    model: nn.Module, calls: Calls, block: TransformerBlock, view: Viewpoint, t: int
) -> BlockStory:
    attention = _attention(block, view)
    assert attention is not None, "the block was found by it"
    stack = next(one for one in model.modules() if block in _layers(one))
    layers = _layers(stack)
    stream = [_at(calls[one].inputs[0], t) for one in layers]
    stream.append(_at(calls[layers[-1]].output, t))
    heads = _at(calls[attention.to_out].inputs[0], t).reshape(attention.n_heads, -1)  # (H, Dv)
    rows = _array(attention.to_out.weight.T).reshape(*heads.shape, -1)  # (H, Dv, D)
    inner, active = _inside(block.feed_forward, calls, t)
    norm = calls.get(getattr(stack, "norm", stack))
    bias = attention.to_out.bias
    return BlockStory(
        embedded=_embedded(model, stack, calls, t),
        norm_first=block.around_self.norm_first,
        sublayers=tuple(_sublayers(block, calls, t)),
        heads=heads,
        projected=np.einsum("hv,hvd->hd", heads, rows),
        bias=None if bias is None else _array(bias),
        inner=inner,
        active=active,
        stream=np.stack(stream),
        states=stream[-1] if norm is None else _at(norm.output, t),
        logits=_logits(model, calls, stack, t),
    )


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
    stream = _at(calls[block].inputs[0], t)
    for kind in (one for one in order if one in parts):
        around, last = parts[kind]
        norm, added = calls[around.norm], _at(calls[last].output, t)
        both = stream + added
        leaves = both if around.norm_first else _at(norm.output, t)
        given = _at(norm.output, t) if around.norm_first else stream
        yield Sublayer(kind=kind, enters=stream, given=given, added=added, sum=both, leaves=leaves)
        stream = leaves


_ORDER = ("self", "cross", "feed_forward")


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
