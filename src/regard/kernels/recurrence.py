"""LSTMs and GRUs over all positions of a text, for updates that are recorded on a GPU.

Under autograd a step takes some sixty kernels, a product for the gradient of the weights and a sum
with that of the steps before among them. Here all steps are one function. Forwards a step is a
product and a kernel, backwards as many; a projected state has products of its own. The gradients of
all weights are one product over all steps in the end. ``regard.kernels.attending_recurrence`` has
cells that look at a source, ``regard.layers`` the loops that can be read; they are tested to agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.kernels.call import product_type
from regard.kernels.gpu import triton_kernels

State = tuple[Tensor, Tensor]
"""h and c (B, D)"""


class StateWeights(NamedTuple):
    """What the state of a cell with n gates goes through."""

    matrix: Tensor
    """U (n·Dc, D)"""
    bias: Tensor | None = None
    """(n·Dc,)"""
    out: Tensor | None = None
    """(D, Dc): the projection to h, where the memory c is wider than h."""


def _unrolled(
    cell: type[torch.autograd.Function],
    read: Tensor,
    weights: StateWeights,
    before: State,
    mask: Tensor | None = None,
    *,
    backwards: bool = False,
) -> tuple[Tensor, State]:
    """W x + b (B, T, n·Dc) of all positions, after h and c -> states (B, T, D), the last h and c.

    Where ``mask`` (B, T) is False a state is the one before it. States are as narrow as products
    are, and c is float32; of a GRU, which has no projection, it is h.
    """
    kind = product_type(read)
    matrices = (None if one is None else one.to(kind) for one in weights)
    states, c = cell.apply(backwards, mask, read.to(kind), *matrices, *initial_state(before, kind))
    return states, (states[:, 0 if backwards else -1], c)


def initial_state(before: State, kind: torch.dtype) -> State:
    """h in the type of products and c in float32, rows one behind the other."""
    return before[0].to(kind).contiguous(), before[1].float().contiguous()


class _Lstm(torch.autograd.Function):
    """Keeps what each step was given, and computes its gates again on the way back."""

    @staticmethod
    def forward(
        ctx: Any,
        backwards: bool,
        mask: Tensor | None,
        read: Tensor,
        matrix: Tensor,
        bias: Tensor | None,
        out: Tensor | None,
        h: Tensor,
        c: Tensor,
    ) -> tuple[Tensor, Tensor]:
        gpu, (B, T, _) = triton_kernels("recurrence"), read.shape
        first = h
        of_states, memories = empty_steps(read, T), empty_steps(c, T + 1)
        memories[0] = c
        states = read.new_empty(B, T, h.shape[1])
        hidden = states if out is None else read.new_zeros(B, T, c.shape[1])
        for n, t in enumerate(_times(T, backwards)):
            of_state = product(h, matrix, bias, of_states[n])
            into = hidden[:, t]  # zeros where h has another width: nothing of it is kept
            kept = None if mask is None else (h if out is None else into, mask[:, t])
            gpu.lstm_forward(read[:, t], of_state, memories[n], into, memories[n + 1], kept=kept)
            if out is not None and mask is not None:
                torch.where(mask[:, t, None], into @ out.t(), h, out=states[:, t])
            elif out is not None:
                torch.mm(into, out.t(), out=states[:, t])
            h = states[:, t]
        ctx.backwards = backwards
        ctx.save_for_backward(
            mask, read, matrix, bias, out, first, of_states, memories, states, hidden
        )
        return states, memories[T].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor, grad_c: Tensor) -> tuple[Any, ...]:
        mask, read, matrix, bias, out, first, of_states, memories, states, hidden = (
            ctx.saved_tensors
        )
        gpu, T = triton_kernels("recurrence"), read.shape[1]
        grad_states, grad_c = grad_states.contiguous(), contiguous_copy(grad_c)
        grad_h, grad_gates = torch.zeros_like(first), torch.empty_like(read)
        grad_hidden = torch.empty_like(grad_states)  # where there is a projection
        kept = None if mask is None else torch.empty_like(first)
        for n, t in reversed([*enumerate(_times(T, ctx.backwards))]):
            given = (read[:, t], of_states[n], memories[n])
            real = None if mask is None else mask[:, t]
            if out is None:
                gpu.lstm_backward(
                    *given, grad_h, grad_c, grad_gates[:, t],
                    grad_hidden=grad_states[:, t], mask=real, grad_kept=kept,
                )  # fmt: skip
            else:
                if real is None:
                    torch.add(grad_h, grad_states[:, t], out=grad_hidden[:, t])
                else:
                    gpu.split_by_mask(grad_h, grad_states[:, t], real, grad_hidden[:, t], kept)
                of_h = grad_hidden[:, t] @ out
                gpu.lstm_backward(
                    *given, of_h, grad_c, grad_gates[:, t],
                    mask=real, grad_kept=None if real is None else torch.empty_like(of_h),
                )  # fmt: skip
            if kept is None:
                grad_h = grad_gates[:, t] @ matrix
            else:
                grad_h = torch.addmm(kept, grad_gates[:, t], matrix)
        flat, previous = grad_gates.flatten(0, 1), previous_states(first, states, ctx.backwards)
        return (
            None,
            None,
            grad_gates,
            flat.t() @ previous.flatten(0, 1),
            None if bias is None else flat.sum(dim=0),
            None if out is None else grad_hidden.flatten(0, 1).t() @ hidden.flatten(0, 1),
            grad_h,
            grad_c,
        )


class _Gru(torch.autograd.Function):
    """The same for a GRU, whose state is kept as h, for products, and as c, in float32."""

    @staticmethod
    def forward(
        ctx: Any,
        backwards: bool,
        mask: Tensor | None,
        read: Tensor,
        matrix: Tensor,
        bias: Tensor | None,
        _out: None,
        h: Tensor,
        c: Tensor,
    ) -> tuple[Tensor, Tensor]:
        gpu, T = triton_kernels("recurrence"), read.shape[1]
        first, states = h, read.new_empty(*read.shape[:2], h.shape[1])
        of_states, memories = empty_steps(read, T), empty_steps(c, T + 1)
        memories[0] = c
        for n, t in enumerate(_times(T, backwards)):
            of_state = product(h, matrix, bias, of_states[n])
            real = None if mask is None else mask[:, t]
            gpu.gru_forward(
                read[:, t], of_state, memories[n], states[:, t], memories[n + 1], mask=real
            )
            h = states[:, t]
        ctx.backwards = backwards
        ctx.save_for_backward(mask, read, matrix, bias, first, of_states, memories, states)
        return states, memories[T].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor, grad_c: Tensor) -> tuple[Any, ...]:
        mask, read, matrix, bias, first, of_states, memories, states = ctx.saved_tensors
        gpu, T = triton_kernels("recurrence"), read.shape[1]
        grad_states, grad_c = grad_states.contiguous(), contiguous_copy(grad_c)
        grad_read, grad_of_states = torch.empty_like(read), torch.empty_like(read)
        grad_h = torch.zeros_like(first)
        for n, t in reversed([*enumerate(_times(T, ctx.backwards))]):
            gpu.gru_backward(
                read[:, t], of_states[n], memories[n], grad_h, grad_c,
                grad_read[:, t], grad_of_states[:, t],
                grad_hidden=grad_states[:, t], mask=None if mask is None else mask[:, t],
            )  # fmt: skip
            grad_h = grad_of_states[:, t] @ matrix
        flat, previous = grad_of_states.flatten(0, 1), previous_states(first, states, ctx.backwards)
        return (
            None,
            None,
            grad_read,
            flat.t() @ previous.flatten(0, 1),
            None if bias is None else flat.sum(dim=0),
            None,
            grad_h,
            grad_c,
        )


unrolled_lstm, unrolled_gru = partial(_unrolled, _Lstm), partial(_unrolled, _Gru)


def _times(n: int, backwards: bool) -> Sequence[int]:
    return range(n - 1, -1, -1) if backwards else range(n)


def contiguous_copy(x: Tensor) -> Tensor:
    """A copy whose rows lie one behind the other, whatever x's do."""
    return x.clone(memory_format=torch.contiguous_format)


def empty_steps(x: Tensor, n: int) -> Tensor:
    """Room for n steps of x."""
    return x.new_empty(n, x.shape[0], x.shape[-1])


def product(h: Tensor, matrix: Tensor, bias: Tensor | None, into: Tensor) -> Tensor:
    """h Wᵀ + b, written where it is kept."""
    if bias is None:
        return torch.mm(h, matrix.t(), out=into)
    return torch.addmm(bias, h, matrix.t(), out=into)


def previous_states(first: Tensor, states: Tensor, backwards: bool) -> Tensor:
    """The states (B, T, D) that steps began with."""
    if backwards:
        return torch.cat((states[:, 1:], first[:, None]), dim=1)
    return torch.cat((first[:, None], states[:, :-1]), dim=1)
