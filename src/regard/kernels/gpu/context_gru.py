"""The steps of a GRU whose three parts read a context (Bahdanau et al. 2015), in Triton.

    z = σ(W_z y + U_z s + C_z c)            read, of_state and found, which are added
    r = σ(W_r y + U_r s + C_r c)
    s' = (1 - z) ∘ s + z ∘ tanh(W y + U (r ∘ s) + C c)

The candidate multiplies r ∘ s, so a step has two products, and a kernel behind each, both ways. As
in ``recurrence``, a program does some columns of one row, gradients compute gates again, and
everything is added up in float32.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from regard.kernels.gpu.recurrence import COLUMNS, block_size, gate, tanh


@triton.jit
def _place(BLOCK: tl.constexpr):
    """Row and columns of a program."""
    return tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)


@triton.jit
def _candidate(read, found, of_recalled, d, here, WIDTH):
    x = tl.load(of_recalled + d, mask=here, other=0.0).to(tl.float32)
    return tanh(gate(read, found, read, 2 * WIDTH + d, here, False) + x)


@triton.jit
def _reset_state(
    read, of_state, found, s, recalled, read_row, of_state_row, found_row, WIDTH,
    BLOCK: tl.constexpr,
):  # fmt: skip
    b, d = _place(BLOCK)
    here = d < WIDTH
    at = WIDTH + d
    r = tl.sigmoid(
        gate(
            read + b * read_row, of_state + b * of_state_row, found + b * found_row, at, here, True
        )
    )
    x = r * tl.load(s + b * WIDTH + d, mask=here, other=0.0)
    tl.store(recalled + b * WIDTH + d, x.to(recalled.dtype.element_ty), mask=here)


@triton.jit
def _update_state(
    read, of_state, found, of_recalled, s, new_h, new_s,
    read_row, of_state_row, found_row, new_h_row, WIDTH, BLOCK: tl.constexpr,
):  # fmt: skip
    b, d = _place(BLOCK)
    here = d < WIDTH
    read += b * read_row
    found += b * found_row
    z = tl.sigmoid(gate(read, of_state + b * of_state_row, found, d, here, True))
    new = _candidate(read, found, of_recalled + b * WIDTH, d, here, WIDTH)
    after = (1.0 - z) * tl.load(s + b * WIDTH + d, mask=here, other=0.0) + z * new
    tl.store(new_h + b * new_h_row + d, after.to(new_h.dtype.element_ty), mask=here)
    tl.store(new_s + b * WIDTH + d, after, mask=here)


@triton.jit
def _update_state_backward(
    read, of_state, found, of_recalled, s, grad_h, grad_states, grad_s, grad_parts,
    read_row, of_state_row, found_row, grad_states_row, grad_parts_row, WIDTH, BLOCK: tl.constexpr,
):  # fmt: skip
    b, d = _place(BLOCK)
    here = d < WIDTH
    read += b * read_row
    found += b * found_row
    z = tl.sigmoid(gate(read, of_state + b * of_state_row, found, d, here, True))
    new = _candidate(read, found, of_recalled + b * WIDTH, d, here, WIDTH)
    before = tl.load(s + b * WIDTH + d, mask=here, other=0.0)
    of_s = tl.load(grad_h + b * WIDTH + d, mask=here, other=0.0).to(tl.float32)
    of_s += tl.load(grad_states + b * grad_states_row + d, mask=here, other=0.0).to(tl.float32)
    place = grad_s + b * WIDTH + d
    of_s += tl.load(place, mask=here, other=0.0)
    out = grad_parts + b * grad_parts_row + d
    of_z = of_s * (new - before) * z * (1.0 - z)
    of_new = of_s * z * (1.0 - new * new)
    tl.store(out, of_z.to(out.dtype.element_ty), mask=here)
    tl.store(out + 2 * WIDTH, of_new.to(out.dtype.element_ty), mask=here)
    tl.store(place, of_s * (1.0 - z), mask=here)


@triton.jit
def _reset_state_backward(
    read, of_state, found, s, grad_recalled, grad_s, grad_parts,
    read_row, of_state_row, found_row, grad_parts_row, WIDTH, BLOCK: tl.constexpr,
):  # fmt: skip
    b, d = _place(BLOCK)
    here = d < WIDTH
    at = WIDTH + d
    r = tl.sigmoid(
        gate(
            read + b * read_row, of_state + b * of_state_row, found + b * found_row, at, here, True
        )
    )
    of_x = tl.load(grad_recalled + b * WIDTH + d, mask=here, other=0.0).to(tl.float32)
    of_r = of_x * tl.load(s + b * WIDTH + d, mask=here, other=0.0) * r * (1.0 - r)
    out = grad_parts + b * grad_parts_row + at
    tl.store(out, of_r.to(out.dtype.element_ty), mask=here)
    place = grad_s + b * WIDTH + d
    tl.store(place, tl.load(place, mask=here, other=0.0) + of_x * r, mask=here)


def reset_state(read: Tensor, of_state: Tensor, found: Tensor, s: Tensor, recalled: Tensor) -> None:
    """Write ``recalled`` r ∘ s (B, D).

    ``read`` and ``found`` begin with three parts, (B, 3D): of z, of r and of the candidate;
    ``of_state`` (B, 2D) has the first two; s (B, D) is float32.
    """
    _reset_state[_grid(s)](
        read, of_state, found, s, recalled,
        read.stride(0), of_state.stride(0), found.stride(0), s.shape[1], BLOCK=_block(s.shape[1]),
    )  # fmt: skip


def update_state(
    read: Tensor,
    of_state: Tensor,
    found: Tensor,
    of_recalled: Tensor,
    s: Tensor,
    new_h: Tensor,
    new_s: Tensor,
) -> None:
    """Given U (r ∘ s) (B, D) -> the new state, as it is multiplied and in float32."""
    _update_state[_grid(s)](
        read, of_state, found, of_recalled, s, new_h, new_s,
        read.stride(0), of_state.stride(0), found.stride(0), new_h.stride(0), s.shape[1],
        BLOCK=_block(s.shape[1]),
    )  # fmt: skip


def update_state_backward(
    read: Tensor,
    of_state: Tensor,
    found: Tensor,
    of_recalled: Tensor,
    s: Tensor,
    grad_h: Tensor,
    grad_states: Tensor,
    grad_s: Tensor,
    grad_parts: Tensor,
) -> None:
    """Write the first and the third of ``grad_parts`` (B, 3D), and ``grad_s`` (B, D), in float32.

    The new state's gradient is the sum of ``grad_h``, ``grad_states`` and what ``grad_s`` was.
    """
    _update_state_backward[_grid(s)](
        read, of_state, found, of_recalled, s, grad_h, grad_states, grad_s, grad_parts,
        read.stride(0), of_state.stride(0), found.stride(0), grad_states.stride(0),
        grad_parts.stride(0), s.shape[1], BLOCK=_block(s.shape[1]),
    )  # fmt: skip


def reset_state_backward(
    read: Tensor,
    of_state: Tensor,
    found: Tensor,
    s: Tensor,
    grad_recalled: Tensor,
    grad_s: Tensor,
    grad_parts: Tensor,
) -> None:
    """Write the second of ``grad_parts`` (B, 3D), and add to ``grad_s`` (B, D)."""
    _reset_state_backward[_grid(s)](
        read, of_state, found, s, grad_recalled, grad_s, grad_parts,
        read.stride(0), of_state.stride(0), found.stride(0), grad_parts.stride(0), s.shape[1],
        BLOCK=_block(s.shape[1]),
    )  # fmt: skip


def _grid(s: Tensor) -> tuple[int, int]:
    return len(s), triton.cdiv(s.shape[1], COLUMNS)


def _block(width: int) -> int:
    return min(COLUMNS, block_size(width))
