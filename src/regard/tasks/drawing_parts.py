"""Parts of a model as blocks of a drawing: what each kind of layer is, its shapes, its parameters.

``described`` says what a layer is, from the layer itself; a kind of layer that is not entered here
(a plug-in's) is told by its name and the shapes of its parameters. A ``Sketch`` makes blocks of the
modules of one model and keeps account: every parameter is counted in the first block that has it,
and what no block has is drawn at the end, so that counts add up to the model's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from itertools import groupby
from typing import Any

from torch import nn

from regard.layers.attention import MemoryAttention, MultiHeadAttention
from regard.layers.context_cells import ContextCell
from regard.layers.convolutions import ConvNet, ConvStem
from regard.layers.embeddings import InputEmbedding
from regard.layers.experts import Experts
from regard.layers.feed_forward import FeedForward
from regard.layers.patches import PatchEmbedding
from regard.layers.positions import LearnedPositions, Positions
from regard.layers.recurrence import BothWays, Recurrence
from regard.layers.resnet import ResNet
from regard.layers.text_convolutions import DilatedBlock, GatedConvolution, WeightNormLinear
from regard.models.memory_network import TapeCell
from regard.visual.drawing import Block, Column, Drawing, Frame, Link, Skip, blocks_in

MANY_RUNS = 3
"""Beyond so many changes from layer to layer, layers that are alike are drawn together."""


@dataclass(frozen=True, slots=True)
class Described:
    """What a layer is."""

    title: str
    kind: str
    details: tuple[str, ...] = ()


def times(*sizes: int) -> str:
    """A shape.

    >>> times(1000, 128)
    '1,000 × 128'
    """
    return " × ".join(f"{size:,}" for size in sizes)


def to(*sizes: int) -> str:
    """Widths that follow each other.

    >>> to(128, 512, 128)
    '128 → 512 → 128'
    """
    return " → ".join(f"{size:,}" for size in sizes)


@singledispatch
def described(module: nn.Module) -> Described:
    """What a layer is; of a kind that nobody entered, its name and its largest shapes."""
    shapes = dict.fromkeys(times(*one.shape) for one in module.parameters() if one.dim() > 1)
    shown = tuple(list(shapes)[:3])
    return Described(type(module).__name__, "other", (", ".join(shown),) if shown else ())


@described.register
def _multi_head(module: MultiHeadAttention) -> Described:
    width = module.to_q.out_features // module.n_heads
    heads = f"{module.n_heads} heads of {width}, {module.score.name}"
    if module.n_kv_heads != module.n_heads:
        heads += f", {module.n_kv_heads} keys and values"
    names = {"W_q": module.to_q, "W_k": module.to_k, "W_v": module.to_v, "W_o": module.to_out}
    shapes = {name: times(one.in_features, one.out_features) for name, one in names.items()}
    return Described("attention", "attention", (heads, *_alike(shapes), *_scored(module)))


@described.register
def _memory(module: MemoryAttention) -> Described:
    return Described("attention", "attention", (module.score.name, *_scored(module)))


_MATRICES = {"w_query": "W_q", "w_key": "W_k", "weight": "W"}
"""Parameters of scores, as formulas write them."""


def _scored(module: MultiHeadAttention | MemoryAttention) -> tuple[str, ...]:
    """Shapes of what a score and a window have learned, and the window where it is not all."""
    learned = [
        f"{_MATRICES.get(name, name)} {times(*one.shape)}"
        for part in (module.score, module.window)
        for name, one in part.named_parameters()
    ]
    window = type(module.window).__name__.removesuffix("Window").lower()
    seen = (f"window: {window}",) if window not in ("", "global") else ()
    return (*seen, *learned)


@described.register
def _feed_forward(module: FeedForward) -> Described:
    gated = ("gated",) if module.beside is not None else ()
    widths = to(module.inner.in_features, module.inner.out_features, module.outer.out_features)
    return Described("feed-forward", "feed_forward", (widths, *gated))


@described.register
def _experts(module: Experts) -> Described:
    n, d_in, d_inner = module.inner.weight.shape
    chosen = f"{n} experts, {module.top_k} chosen by a gate"
    return Described("experts", "feed_forward", (chosen, f"{to(d_in, d_inner, d_in)} each"))


@described.register
def _input(module: InputEmbedding) -> Described:
    details = [times(*module.tokens.weight.shape), *_positions(module.positions)]
    if module.segments is not None:
        details.append(f"+ {module.segments.num_embeddings} segments")
    if any(True for _ in module.norm.parameters()):
        details.append("norm")
    return Described("embedding", "embedding", tuple(details))


def _positions(positions: Positions) -> tuple[str, ...]:
    """How order is told, where it is told by what joins the tokens."""
    name = type(positions).__name__.removesuffix("Positions").lower()
    if isinstance(positions, LearnedPositions):
        return (f"+ learned positions, {times(*positions.table.shape)}",)
    return (f"+ {name} positions",) if name in ("sinusoidal", "index") else ()


@described.register
def _table(module: nn.Embedding) -> Described:
    return Described("embedding", "embedding", (times(*module.weight.shape),))


@described.register
def _patches(module: PatchEmbedding) -> Described:
    side, width = module.patch_size, module.project.in_features
    pixels = times(side, side, width // side**2) if side > 1 else f"{width:,}"
    first = ("+ class token",) if module.class_token is not None else ()
    details = (f"{pixels} → {module.project.out_features:,}", *first, *_positions(module.positions))
    return Described("patches" if side > 1 else "projection", "embedding", details)


@described.register
def _recurrence(module: Recurrence) -> Described:
    inner = module.inner
    layers = (f"{inner.num_layers} layers",) if inner.num_layers > 1 else ()
    ways = ("both ways",) if inner.bidirectional else ()
    widths = (inner.input_size, inner.hidden_size, *((inner.proj_size,) if inner.proj_size else ()))
    name = inner.mode.removesuffix("_TANH")
    return Described(name, "recurrent", (", ".join((to(*widths), *layers, *ways)),))


@described.register
def _context_cell(module: ContextCell) -> Described:
    word, context = module.words.in_features, module.context.in_features
    state = module.words.out_features // module.n_parts
    name = type(module).__name__.rpartition("Context")[2] or "cell"
    return Described(name, "recurrent", (f"word {word:,}, context {context:,} → {state:,}",))


@described.register
def _tape_cell(module: TapeCell) -> Described:
    word, state = module.words.in_features, module.recalled.in_features
    return Described("LSTM", "recurrent", (f"word {word:,}, recalled {state:,} → {state:,}",))


@described.register
def _both_ways(module: BothWays) -> Described:
    return Described("first state", "other", (to(module.h.in_features, module.h.out_features),))


@described.register
def _linear(module: nn.Linear) -> Described:
    return Described("linear", "other", (to(module.in_features, module.out_features),))


@described.register
def _normed(module: WeightNormLinear) -> Described:
    d_out, d_in = module.direction.shape
    return Described("linear", "other", (f"{to(d_in, d_out)}, weight norm",))


@described.register(nn.LayerNorm)
@described.register(nn.RMSNorm)
def _norm(module: nn.Module) -> Described:
    return Described("norm", "norm")


@described.register
def _gated(module: GatedConvolution) -> Described:
    product: Any = module.convolution.product
    d_out, wide = product.direction.shape
    kernel = module.convolution.kernel
    widths = f"kernel {kernel}, {wide // kernel:,} → 2 × {d_out // 2:,}"
    return Described("gated convolution", "convolution", (widths,))


@described.register
def _dilated(module: DilatedBlock) -> Described:
    widths = to(module.narrow.in_features, module.narrow.out_features, module.widen.out_features)
    kernel = f"kernel {module.convolution.kernel}"
    return Described("dilated convolution", "convolution", (f"{widths}, {kernel}",))


@described.register(ConvNet)
@described.register(ConvStem)
@described.register(ResNet)
def _convolutions(module: nn.Module) -> Described:
    convolutions = [one for one in module.modules() if isinstance(one, nn.Conv2d)]
    widths = dict.fromkeys((convolutions[0].in_channels, *(c.out_channels for c in convolutions)))
    shown = (f"{len(convolutions)} convolutions", to(*widths))
    return Described("convolutional network", "convolution", shown)


def _alike(shapes: dict[str, str]) -> tuple[str, ...]:
    """Names of matrices with their shapes, those of one shape together.

    >>> _alike({"W_q": "4 × 4", "W_k": "4 × 2", "W_v": "4 × 2"})
    ('W_q 4 × 4', 'W_k, W_v 4 × 2')
    """
    same = {shape: [n for n, one in shapes.items() if one == shape] for shape in shapes.values()}
    return tuple(f"{', '.join(names)} {shape}" for shape, names in same.items())


class Sketch:
    """Blocks of one model, each with parameters that no other has."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._drawn: set[int] = set()

    def has(self, path: str) -> bool:
        """Whether the model has such a part, a module or a parameter."""
        return self._found(path) is not None

    def part(
        self,
        path: str,
        title: str = "",
        *,
        also: Sequence[str] = (),
        details: Sequence[str] = (),
        **others: Any,
    ) -> Block:
        """A module as a block; ``also`` are other parts, where there, that are drawn with it.

        ``details`` follow those of the module itself; others are fields of ``Block``.
        """
        module = self.model.get_submodule(path)
        told = described(module)
        count, shared = self._claimed(path, *also)
        fields: dict[str, Any] = {"kind": told.kind, **others}
        return Block(
            key=path,
            title=title or told.title,
            details=(*told.details, *details),
            count=count,
            shared=shared,
            **fields,
        )

    def optional(self, path: str, title: str = "", **others: Any) -> list[Block]:
        """The same of a part that may not be there."""
        return [self.part(path, title, **others)] if self.has(path) else []

    def own(self, key: str, title: str, *paths: str, **others: Any) -> Block:
        """A block of several modules and parameters, those of ``paths`` that are there."""
        count, shared = self._claimed(*paths)
        return Block(key=key, title=title, count=count, shared=shared, **others)

    def layers(
        self,
        path: str,
        draw: Callable[[str], Sequence[Block]],
        *,
        of: str = "layer",
        shape: str = "",
    ) -> tuple[Frame, ...]:
        """Frames of the layers in a list of modules; ``draw`` makes the blocks of one by its path.

        Layers that follow each other and are alike are one frame. Where they change in turn, those
        that are alike are one frame wherever they stand.
        """
        n = len([*self.model.get_submodule(path).children()])
        drawn = {i: tuple(draw(f"{path}.{i}")) for i in range(n)}
        looks = {i: [replace(block, key="") for block in blocks] for i, blocks in drawn.items()}
        runs = [[*run] for _, run in groupby(range(n), key=lambda i: repr(looks[i]))]
        if len(runs) > MANY_RUNS:
            kinds = dict.fromkeys(map(repr, looks.values()))
            runs = [[i for i in looks if repr(looks[i]) == kind] for kind in kinds]
        return tuple(
            Frame(numbers=tuple(run), blocks=drawn[run[0]], of=of, shape=shape) for run in runs
        )

    def words_out(self, *paths: str, title: str = "linear, softmax") -> Block:
        """The last layer of a model that writes, which ``paths`` belong to."""
        weight, _bias = self.model.output()  # type: ignore[operator]
        n_vocab, width = weight.shape
        count, _ = self._claimed(*paths)
        tied = count < weight.numel()
        details = (to(width, n_vocab), *(("the embedding's matrix",) if tied else ()))
        return Block(
            key="output", title=title, kind="output", details=details, count=count, shared=tied
        )

    def finished(
        self,
        title: str,
        columns: Sequence[Column],
        *,
        links: Iterable[Link] = (),
        skips: Iterable[Skip] = (),
    ) -> Drawing:
        """The drawing, and beside it whatever no block has."""
        rest: dict[str, list[str]] = {}
        for name, parameter in self.model.named_parameters():
            if id(parameter) not in self._drawn:
                rest.setdefault(name.rpartition(".")[0] or name, []).append(name)
        blocks = [self.own(f"rest.{path}", path, *names) for path, names in rest.items()]
        also = [Column(title="Also", items=tuple(blocks), chained=False)] if blocks else []
        there = {block.key for block in blocks_in(columns)}
        return Drawing(
            title=title,
            columns=(*columns, *also),
            links=tuple(one for one in links if {one.start, one.end} <= there),
            skips=tuple(one for one in skips if {one.first, one.end} <= there),
        )

    def _found(self, path: str) -> Any:
        found: Any = self.model
        for name in path.split("."):
            found = getattr(found, name, None)
            if found is None:
                return None
        return found

    def _claimed(self, *paths: str) -> tuple[int, bool]:
        """Parameters of these parts that are in no block yet, and whether there are others."""
        count, shared = 0, False
        for found in filter(lambda one: one is not None, map(self._found, paths)):
            for parameter in found.parameters() if isinstance(found, nn.Module) else (found,):
                shared = shared or id(parameter) in self._drawn
                count += 0 if id(parameter) in self._drawn else parameter.numel()
                self._drawn.add(id(parameter))
        return count, shared


def text(key: str, title: str, shape: str = "") -> Block:
    """What goes in or comes out."""
    return Block(key=key, title=title, kind="text", shape=shape)


def plus(key: str) -> Block:
    """A sum."""
    return Block(key=key, title="+", kind="sum")
