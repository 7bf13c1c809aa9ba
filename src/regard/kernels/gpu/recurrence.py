"""The steps of LSTMs and GRUs in Triton.

One program does some columns of one row of a cell's step. All that is between two products of a
step is one kernel. Rows of a step may lie apart (their strides are given), so that steps are read
from, and written to, where all of them lie. Gradients compute gates again. Everything is added up
in float32.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

COLUMNS = 256
"""Columns of a state that a program does."""


@triton.jit
def tanh(x):
    """Which Triton has for some chips only."""
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
def gate(read, of_state, found, at, here, FINDS: tl.constexpr):
    """One part of the gates, before anything is done to it."""
    x = tl.load(read + at, mask=here, other=0.0).to(tl.float32)
    x += tl.load(of_state + at, mask=here, other=0.0).to(tl.float32)
    if FINDS:
        x += tl.load(found + at, mask=here, other=0.0).to(tl.float32)
    return x


@triton.jit
def _gates(read, of_state, found, c, d, here, WIDTH, FINDS: tl.constexpr):
    """i, f, g, o of some columns, and the memory before them."""
    i = tl.sigmoid(gate(read, of_state, found, d, here, FINDS))
    f = tl.sigmoid(gate(read, of_state, found, WIDTH + d, here, FINDS))
    g = tanh(gate(read, of_state, found, 2 * WIDTH + d, here, FINDS))
    o = tl.sigmoid(gate(read, of_state, found, 3 * WIDTH + d, here, FINDS))
    return i, f, g, o, tl.load(c + d, mask=here, other=0.0)


@triton.jit
def _lstm_forward(
    read, of_state, found, h, c, mask, new_h, new_c,
    read_row, of_state_row, found_row, h_row, mask_row, new_h_row, WIDTH,
    FINDS: tl.constexpr, MASKED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = d < WIDTH
    c += b * WIDTH
    i, f, g, o, before = _gates(
        read + b * read_row, of_state + b * of_state_row, found + b * found_row, c,
        d, here, WIDTH, FINDS,
    )  # fmt: skip
    memory = f * before + i * g
    hidden = o * tanh(memory)
    if MASKED:
        real = tl.load(mask + b * mask_row) != 0
        kept = tl.load(h + b * h_row + d, mask=here, other=0.0).to(tl.float32)
        hidden = tl.where(real, hidden, kept)
        memory = tl.where(real, memory, before)
    tl.store(new_h + b * new_h_row + d, hidden.to(new_h.dtype.element_ty), mask=here)
    tl.store(new_c + b * WIDTH + d, memory, mask=here)


@triton.jit
def _lstm_backward(
    read, of_state, found, c, mask, grad_h, grad_hidden, grad_c, grad_gates, grad_kept,
    read_row, of_state_row, found_row, mask_row, grad_hidden_row, grad_gates_row, WIDTH,
    FINDS: tl.constexpr, MASKED: tl.constexpr, HIDDEN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = d < WIDTH
    i, f, g, o, before = _gates(
        read + b * read_row, of_state + b * of_state_row, found + b * found_row, c + b * WIDTH,
        d, here, WIDTH, FINDS,
    )  # fmt: skip
    memory = tanh(f * before + i * g)
    of_h = tl.load(grad_h + b * WIDTH + d, mask=here, other=0.0).to(tl.float32)
    if HIDDEN:
        of_h += tl.load(grad_hidden + b * grad_hidden_row + d, mask=here, other=0.0).to(tl.float32)
    grad_c += b * WIDTH + d
    of_c = tl.load(grad_c, mask=here, other=0.0)
    of_memory = of_c + of_h * o * (1.0 - memory * memory)
    of_i = of_memory * g * i * (1.0 - i)
    of_f = of_memory * before * f * (1.0 - f)
    of_g = of_memory * i * (1.0 - g * g)
    of_o = of_h * memory * o * (1.0 - o)
    of_before = of_memory * f
    if MASKED:
        real = tl.load(mask + b * mask_row) != 0
        of_i = tl.where(real, of_i, 0.0)
        of_f = tl.where(real, of_f, 0.0)
        of_g = tl.where(real, of_g, 0.0)
        of_o = tl.where(real, of_o, 0.0)
        of_before = tl.where(real, of_before, of_c)
        kept = tl.where(real, 0.0, of_h)
        tl.store(grad_kept + b * WIDTH + d, kept.to(grad_kept.dtype.element_ty), mask=here)
    tl.store(grad_c, of_before, mask=here)
    out = grad_gates + b * grad_gates_row + d
    tl.store(out, of_i.to(out.dtype.element_ty), mask=here)
    tl.store(out + WIDTH, of_f.to(out.dtype.element_ty), mask=here)
    tl.store(out + 2 * WIDTH, of_g.to(out.dtype.element_ty), mask=here)
    tl.store(out + 3 * WIDTH, of_o.to(out.dtype.element_ty), mask=here)


@triton.jit
def _gru_parts(read, of_state, c, d, here, WIDTH):
    """r, z, n of some columns, what r multiplies, and the state before them."""
    r = tl.sigmoid(gate(read, of_state, read, d, here, False))
    z = tl.sigmoid(gate(read, of_state, read, WIDTH + d, here, False))
    recalled = tl.load(of_state + 2 * WIDTH + d, mask=here, other=0.0).to(tl.float32)
    n = tl.load(read + 2 * WIDTH + d, mask=here, other=0.0).to(tl.float32) + r * recalled
    return r, z, tanh(n), recalled, tl.load(c + d, mask=here, other=0.0)


@triton.jit
def _gru_forward(
    read, of_state, c, mask, new_h, new_c,
    read_row, of_state_row, mask_row, new_h_row, WIDTH,
    MASKED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = d < WIDTH
    _r, z, n, _recalled, before = _gru_parts(
        read + b * read_row, of_state + b * of_state_row, c + b * WIDTH, d, here, WIDTH
    )
    new = (1.0 - z) * n + z * before
    if MASKED:
        new = tl.where(tl.load(mask + b * mask_row) != 0, new, before)
    tl.store(new_h + b * new_h_row + d, new.to(new_h.dtype.element_ty), mask=here)
    tl.store(new_c + b * WIDTH + d, new, mask=here)


@triton.jit
def _gru_backward(
    read, of_state, c, mask, grad_h, grad_hidden, grad_c, grad_read, grad_of_state,
    read_row, of_state_row, mask_row, grad_hidden_row, grad_read_row, grad_of_state_row, WIDTH,
    MASKED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = d < WIDTH
    r, z, n, recalled, before = _gru_parts(
        read + b * read_row, of_state + b * of_state_row, c + b * WIDTH, d, here, WIDTH
    )
    of_new = tl.load(grad_h + b * WIDTH + d, mask=here, other=0.0).to(tl.float32)
    of_new += tl.load(grad_hidden + b * grad_hidden_row + d, mask=here, other=0.0).to(tl.float32)
    grad_c += b * WIDTH + d
    of_new += tl.load(grad_c, mask=here, other=0.0)
    of_before = of_new * z
    if MASKED:
        real = tl.load(mask + b * mask_row) != 0
        of_before = tl.where(real, of_before, of_new)
        of_new = tl.where(real, of_new, 0.0)
    tl.store(grad_c, of_before, mask=here)
    of_n = of_new * (1.0 - z) * (1.0 - n * n)
    of_z = of_new * (before - n) * z * (1.0 - z)
    of_r = of_n * recalled * r * (1.0 - r)
    out = grad_read + b * grad_read_row + d
    tl.store(out, of_r.to(out.dtype.element_ty), mask=here)
    tl.store(out + WIDTH, of_z.to(out.dtype.element_ty), mask=here)
    tl.store(out + 2 * WIDTH, of_n.to(out.dtype.element_ty), mask=here)
    out = grad_of_state + b * grad_of_state_row + d
    tl.store(out, of_r.to(out.dtype.element_ty), mask=here)
    tl.store(out + WIDTH, of_z.to(out.dtype.element_ty), mask=here)
    tl.store(out + 2 * WIDTH, (of_n * r).to(out.dtype.element_ty), mask=here)


@triton.jit
def _split_by_mask(x, y, mask, taken, left, y_row, mask_row, taken_row, WIDTH, BLOCK: tl.constexpr):
    b = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = d < WIDTH
    total = tl.load(x + b * WIDTH + d, mask=here, other=0.0).to(tl.float32)
    total += tl.load(y + b * y_row + d, mask=here, other=0.0).to(tl.float32)
    real = tl.load(mask + b * mask_row) != 0
    tl.store(
        taken + b * taken_row + d, tl.where(real, total, 0.0).to(taken.dtype.element_ty), mask=here
    )
    tl.store(left + b * WIDTH + d, tl.where(real, 0.0, total).to(left.dtype.element_ty), mask=here)


@triton.jit
def _tanh_backward(x, y, squashed, out, x_row, y_row, squashed_row, WIDTH, BLOCK: tl.constexpr):
    b = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = d < WIDTH
    total = tl.load(x + b * x_row + d, mask=here, other=0.0).to(tl.float32)
    total += tl.load(y + b * y_row + d, mask=here, other=0.0).to(tl.float32)
    z = tl.load(squashed + b * squashed_row + d, mask=here, other=0.0).to(tl.float32)
    found = total * (1.0 - z * z)
    tl.store(out + b * WIDTH + d, found.to(out.dtype.element_ty), mask=here)


def lstm_forward(
    read: Tensor,
    of_state: Tensor,
    c: Tensor,
    new_h: Tensor,
    new_c: Tensor,
    *,
    found: Tensor | None = None,
    kept: tuple[Tensor, Tensor] | None = None,
) -> None:
    """Gates' parts (B, 4D), which are added, and c (B, D) -> ``new_h`` and ``new_c`` (B, D).

    ``kept`` are h and a mask (B,): where that is False, a row keeps its h and c.
    """
    h, mask = (read, read) if kept is None else kept
    B, D = c.shape
    _lstm_forward[(B, triton.cdiv(D, COLUMNS))](
        read, of_state, read if found is None else found, h, c, mask, new_h, new_c,
        read.stride(0), of_state.stride(0), 0 if found is None else found.stride(0),
        h.stride(0), mask.stride(0), new_h.stride(0), D,
        FINDS=found is not None, MASKED=kept is not None, BLOCK=min(COLUMNS, block_size(D)),
    )  # fmt: skip


def lstm_backward(
    read: Tensor,
    of_state: Tensor,
    c: Tensor,
    grad_h: Tensor,
    grad_c: Tensor,
    grad_gates: Tensor,
    *,
    found: Tensor | None = None,
    grad_hidden: Tensor | None = None,
    mask: Tensor | None = None,
    grad_kept: Tensor | None = None,
) -> None:
    """Write ``grad_gates`` (B, 4D), and ``grad_c`` (B, D) in place of that of the new c.

    ``grad_h`` is that of the step after, ``grad_hidden`` is added to it; with a ``mask``, what of
    it goes on to the h before is written to ``grad_kept``.
    """
    B, D = c.shape
    hidden = read if grad_hidden is None else grad_hidden
    masked = read if mask is None else mask
    _lstm_backward[(B, triton.cdiv(D, COLUMNS))](
        read, of_state, read if found is None else found, c, masked, grad_h, hidden, grad_c,
        grad_gates, read if grad_kept is None else grad_kept,
        read.stride(0), of_state.stride(0), 0 if found is None else found.stride(0),
        masked.stride(0), hidden.stride(0), grad_gates.stride(0), D,
        FINDS=found is not None, MASKED=mask is not None, HIDDEN=grad_hidden is not None,
        BLOCK=min(COLUMNS, block_size(D)),
    )  # fmt: skip


def gru_forward(
    read: Tensor,
    of_state: Tensor,
    c: Tensor,
    new_h: Tensor,
    new_c: Tensor,
    *,
    mask: Tensor | None = None,
) -> None:
    """W x and U h (B, 3D), and the state c (B, D) in float32 -> the new one as h and as c."""
    B, D = c.shape
    masked = read if mask is None else mask
    _gru_forward[(B, triton.cdiv(D, COLUMNS))](
        read, of_state, c, masked, new_h, new_c,
        read.stride(0), of_state.stride(0), masked.stride(0), new_h.stride(0), D,
        MASKED=mask is not None, BLOCK=min(COLUMNS, block_size(D)),
    )  # fmt: skip


def gru_backward(
    read: Tensor,
    of_state: Tensor,
    c: Tensor,
    grad_h: Tensor,
    grad_c: Tensor,
    grad_read: Tensor,
    grad_of_state: Tensor,
    *,
    grad_hidden: Tensor,
    mask: Tensor | None = None,
) -> None:
    """Write ``grad_read`` and ``grad_of_state`` (B, 3D), and ``grad_c`` (B, D) in place.

    All of the state's gradient that does not go through U h is in ``grad_c``.
    """
    B, D = c.shape
    masked = read if mask is None else mask
    _gru_backward[(B, triton.cdiv(D, COLUMNS))](
        read, of_state, c, masked, grad_h, grad_hidden, grad_c, grad_read, grad_of_state,
        read.stride(0), of_state.stride(0), masked.stride(0), grad_hidden.stride(0),
        grad_read.stride(0), grad_of_state.stride(0), D,
        MASKED=mask is not None, BLOCK=min(COLUMNS, block_size(D)),
    )  # fmt: skip


def split_by_mask(x: Tensor, y: Tensor, mask: Tensor, taken: Tensor, left: Tensor) -> None:
    """x + y (B, D) -> ``taken``, where the mask (B,) is True, and ``left``, where it is not; each
    is zero in the other's rows.
    """
    B, D = x.shape
    _split_by_mask[(B, triton.cdiv(D, COLUMNS))](
        x, y, mask, taken, left, y.stride(0), mask.stride(0), taken.stride(0), D,
        BLOCK=min(COLUMNS, block_size(D)),
    )  # fmt: skip


def tanh_backward(x: Tensor, y: Tensor, squashed: Tensor, out: Tensor) -> None:
    """Write ``out`` (B, D): the gradient in front of a tanh that gave ``squashed`` (B, D); behind
    it, it is x + y.
    """
    B, D = out.shape
    _tanh_backward[(B, triton.cdiv(D, COLUMNS))](
        x, y, squashed, out, x.stride(0), y.stride(0), squashed.stride(0), D,
        BLOCK=min(COLUMNS, block_size(D)),
    )  # fmt: skip


def block_size(n: int) -> int:
    """The power of two that holds n, 16 at least."""
    return max(16, triton.next_power_of_2(n))
