"""Which kernel does which work: one table, read from the top; the first that fits is taken.

All obey one contract, that of the readable ``attend``, and are tested against it, gradients
included. ``regard bench attention --why`` prints this table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.functional.masks import Slots
from regard.functional.packing import PackedMask
from regard.functional.positions import Alibi
from regard.kernels import blocks, flex, sdpa
from regard.kernels.call import Call
from regard.kernels.gpu import HAS_TRITON

SHORT, SHORT_HALF, SHORT_LEARNED = 32, 64, 256
"""On a CPU, torch's fused kernel gains nothing below this many queries and keys: in float32, in 16
bits, and in 16 bits where gradients are wanted, which it is four times slower at."""
GROUPED_WIDTHS = (16, 32, 64, 128)
"""Of heads, that our kernel for groups of packed texts is made for."""
FLASH_WIDTH, FLASH_STEP = 256, 8
"""The widest heads that flash attention takes, and of what all widths are a multiple."""
LONG = 1024
"""From this many queries and keys on, a GPU's kernel is worth choosing by hand."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel of the table."""

    name: str
    fits: Callable[[Call], bool]
    run: Callable[[Call], Tensor]
    when: str
    """What it is for, in words."""
    why: str


def _plain(call: Call) -> bool:
    """An inner product, and neither window nor bias."""
    return call.score is None and call.near is None and call.bias is None


def _short_texts(call: Call) -> bool:
    texts = call.mask
    width = call.factors.q.shape[-1]
    return (
        isinstance(texts, PackedMask)
        and _plain(call)
        and texts.block > 0
        and call.on_gpu
        and HAS_TRITON
        and call.v.shape[-1] == width
        and width in GROUPED_WIDTHS
    )


def _long_texts(call: Call) -> bool:
    packed = isinstance(call.mask, PackedMask) and _plain(call)
    return packed and _half_on_gpu(call) and _flash_takes(call.factors.q.shape[-1])


def _flash_takes(width: int) -> bool:
    return width <= FLASH_WIDTH and width % FLASH_STEP == 0


def packed_kernel(width: int, *, half: bool) -> bool:
    """Whether a GPU has a kernel for packed short texts and heads so wide, in 16 bits or not."""
    return (HAS_TRITON and width in GROUPED_WIDTHS) or (half and _flash_takes(width))


def _few(call: Call) -> bool:
    limit = SHORT
    if call.half:
        limit = SHORT_LEARNED if call.learned else SHORT_HALF
    few = max(call.n_queries, call.n_keys) <= limit
    return call.score is None and not call.on_gpu and few


def _flex(call: Call) -> bool:
    traced = call.near is not None and torch.compiler.is_compiling()  # no tiles are left out then
    asked = call.near is not None or isinstance(call.bias, Alibi)
    return asked and not traced and call.on_gpu and _long(call) and call.by_positions


def _written_out(call: Call) -> bool:
    return call.bias is not None or isinstance(call.near, Slots)


def _half_on_gpu(call: Call) -> bool:
    return call.on_gpu and call.half


def _long(call: Call) -> bool:
    return min(call.n_queries, call.n_keys) >= LONG


def _run(call: Call) -> Tensor:
    return choose(call).run(call)


_ROOMS = [f"{sdpa.WORTH * room:,}" for room in (sdpa.ON_CPU, sdpa.ON_GPU)]
_TOO_MUCH = f"{_ROOMS[0]} numbers, {_ROOMS[1]} on a GPU"

TABLE: tuple[Kernel, ...] = (
    Kernel(
        "short texts",
        _short_texts,
        sdpa.short_texts,
        "packed texts of at most 128 tokens, on a GPU",
        "one program a group of whole texts; kernels for long rows spend their time on padding",
    ),
    Kernel(
        "long texts",
        _long_texts,
        sdpa.long_texts,
        f"packed texts of any length in 16 bits, heads at most {FLASH_WIDTH} wide, on a GPU",
        "torch's variable-length flash attention: memory and time of each text alone",
    ),
    Kernel(
        "products",
        _few,
        sdpa.whole,
        f"at most {SHORT} queries and keys, on a CPU; in 16 bits {SHORT_HALF}, "
        f"or {SHORT_LEARNED} where gradients are wanted",
        "two products and a softmax are no slower than a fused kernel here, and start faster",
    ),
    Kernel(
        "scores, in chunks",
        lambda call: call.score is not None and sdpa.too_much(call),
        lambda call: sdpa.in_chunks(call, sdpa.whole),
        f"scores that are no inner product, where T·S·width is more than {_TOO_MUCH}",
        "additive needs a vector for every pair: some queries at a time, computed again backward",
    ),
    Kernel(
        "scores",
        lambda call: call.score is not None,
        sdpa.whole,
        "scores that are no inner product, else",
        "no fused kernel knows them",
    ),
    Kernel(
        "blocks as texts",
        blocks.are_own_texts,
        lambda call: blocks.as_own_texts(call, _run),
        f"blocks of at least {blocks.STEP} positions, the future hidden, no padding and no slopes",
        "each block is a text of its own, for which no mask is needed: flash attention where it is",
    ),
    Kernel(
        "slots in turns",
        blocks.are_turns,
        lambda call: blocks.in_turns(call, _run),
        "slots of a compressed text whose future is hidden, no padding and no slopes",
        "every third query sees one slot more: three causal attentions, and no mask is needed",
    ),
    Kernel(
        "flex",
        _flex,
        flex.flex,
        f"a window or slopes (ALiBi), at least {LONG} queries and keys, on a GPU; inside a "
        "compiled model slopes only",
        "tiles that nothing sees are left out, the bias is computed where it is added",
    ),
    Kernel(
        "blocks",
        lambda call: blocks.fits(call) and blocks.pays(call),
        blocks.in_blocks,
        f"a window that sees less than half of the keys, over at least {2 * blocks.STEP} queries; "
        "with or without padding and slopes",
        "each block of queries with the keys near it: time and memory grow with T, not T·S",
    ),
    Kernel(
        "sdpa, in chunks",
        lambda call: _written_out(call) and sdpa.too_much(call),
        lambda call: sdpa.in_chunks(call, sdpa.sdpa),
        f"a bias, or slots, of more than {_TOO_MUCH}",
        "they are written out for some queries at a time, never as a whole",
    ),
    Kernel(
        "sdpa, long",
        lambda call: _plain(call) and _half_on_gpu(call) and call.mask is None and _long(call),
        sdpa.sdpa_long,
        f"no mask, at least {LONG} queries and keys in 16 bits, on a GPU",
        "cuDNN's kernel is the fastest for long texts on a Hopper chip; flash comes second",
    ),
    Kernel(
        "sdpa",
        lambda _call: True,
        sdpa.sdpa,
        "everything else; windows and biases are written out as a mask",
        "torch picks among flash, efficient and math kernels; none builds the weights for long",
    ),
)


def choose(call: Call) -> Kernel:
    """The kernel for this work."""
    return next(row for row in TABLE if row.fits(call))
