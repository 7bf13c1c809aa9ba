"""The cell of a Long Short-Term Memory-Network (Cheng et al. 2016) in Triton.

    c = f ∘ c̃ + i ∘ ĉ  (+ what deep fusion brings)
    h = o ∘ tanh(c)

Gates lie side by side as i, f, o, ĉ, before anything is done to them. As in ``recurrence``, a
program does some columns of one row, the gradient computes gates again, and everything is added up
in float32.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from regard.kernels.gpu.recurrence import COLUMNS, block_size, tanh


@triton.jit
def _columns(x, d, here):
    """Some columns of a row, in float32."""
    return tl.load(x + d, mask=here, other=0.0).to(tl.float32)


@triton.jit
def _cell(gates, recalled, brought, d, here, WIDTH, BRINGS: tl.constexpr):
    """i, f, o, ĉ, c̃ and tanh(c) of some columns, and c."""
    i = tl.sigmoid(_columns(gates, d, here))
    f = tl.sigmoid(_columns(gates, WIDTH + d, here))
    o = tl.sigmoid(_columns(gates, 2 * WIDTH + d, here))
    g = tanh(_columns(gates, 3 * WIDTH + d, here))
    before = _columns(recalled, d, here)
    c = f * before + i * g
    if BRINGS:
        c += _columns(brought, d, here)
    return i, f, o, g, before, tanh(c), c


@triton.jit
def _tape_cell(
    gates, recalled, brought, entry, gates_row, recalled_row, brought_row, entry_row, WIDTH,
    BRINGS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = d < WIDTH
    _i, _f, o, _g, _before, squashed, c = _cell(
        gates + b * gates_row, recalled + b * recalled_row, brought + b * brought_row,
        d, here, WIDTH, BRINGS,
    )  # fmt: skip
    out = entry + b * entry_row + d
    tl.store(out, (o * squashed).to(out.dtype.element_ty), mask=here)
    tl.store(out + WIDTH, c.to(out.dtype.element_ty), mask=here)


@triton.jit
def _tape_cell_backward(
    gates, recalled, brought, grad_entry, grad_value, grad_h, grad_gates, grad_recalled,
    grad_brought, gates_row, recalled_row, brought_row, grad_entry_row, grad_gates_row,
    grad_recalled_row, grad_brought_row, WIDTH,
    BRINGS: tl.constexpr, LATER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = d < WIDTH
    i, f, o, g, before, squashed, _c = _cell(
        gates + b * gates_row, recalled + b * recalled_row, brought + b * brought_row,
        d, here, WIDTH, BRINGS,
    )  # fmt: skip
    grad_entry += b * grad_entry_row
    of_h, of_c = _columns(grad_entry, d, here), _columns(grad_entry, WIDTH + d, here)
    if LATER:
        grad_value += b * 2 * WIDTH
        of_h += _columns(grad_value, d, here) + _columns(grad_h + b * WIDTH, d, here)
        of_c += _columns(grad_value, WIDTH + d, here)
    of_c += of_h * o * (1.0 - squashed * squashed)
    out = grad_gates + b * grad_gates_row + d
    kind = out.dtype.element_ty
    tl.store(out, (of_c * g * i * (1.0 - i)).to(kind), mask=here)
    tl.store(out + WIDTH, (of_c * before * f * (1.0 - f)).to(kind), mask=here)
    tl.store(out + 2 * WIDTH, (of_h * squashed * o * (1.0 - o)).to(kind), mask=here)
    tl.store(out + 3 * WIDTH, (of_c * i * (1.0 - g * g)).to(kind), mask=here)
    out = grad_recalled + b * grad_recalled_row + d
    tl.store(out, (of_c * f).to(out.dtype.element_ty), mask=here)
    if BRINGS:
        out = grad_brought + b * grad_brought_row + d
        tl.store(out, of_c.to(out.dtype.element_ty), mask=here)


def tape_cell(gates: Tensor, recalled: Tensor, brought: Tensor | None, entry: Tensor) -> None:
    """gates (B, 4D), c̃ and what is brought (B, D) -> ``entry`` (B, 2D): h and c side by side."""
    B, D = recalled.shape
    extra = gates if brought is None else brought
    _tape_cell[(B, triton.cdiv(D, COLUMNS))](
        gates, recalled, extra, entry,
        gates.stride(0), recalled.stride(0), extra.stride(0), entry.stride(0), D,
        BRINGS=brought is not None, BLOCK=min(COLUMNS, block_size(D)),
    )  # fmt: skip


def tape_cell_backward(
    gates: Tensor,
    recalled: Tensor,
    brought: Tensor | None,
    grad_entry: Tensor,
    grad_gates: Tensor,
    grad_recalled: Tensor,
    grad_brought: Tensor | None,
    later: tuple[Tensor, Tensor] | None = None,
) -> None:
    """Write ``grad_gates`` (B, 4D), ``grad_recalled`` (B, D) and, where something is brought,
    ``grad_brought`` (B, D).

    Added to ``grad_entry`` (B, 2D) are gradients from ``later`` steps, contiguous: of the entry as
    a value (B, 2D), and of its h (B, D) as a key.
    """
    B, D = recalled.shape
    extra = gates if brought is None else brought
    of_extra = grad_gates if grad_brought is None else grad_brought
    value, of_h = (grad_entry, grad_entry) if later is None else later
    _tape_cell_backward[(B, triton.cdiv(D, COLUMNS))](
        gates, recalled, extra, grad_entry, value, of_h, grad_gates, grad_recalled, of_extra,
        gates.stride(0), recalled.stride(0), extra.stride(0), grad_entry.stride(0),
        grad_gates.stride(0), grad_recalled.stride(0), of_extra.stride(0), D,
        BRINGS=brought is not None, LATER=later is not None, BLOCK=min(COLUMNS, block_size(D)),
    )  # fmt: skip
