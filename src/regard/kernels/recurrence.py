"""LSTMs and GRUs over all positions of a text, for updates that are recorded on a GPU.

Under autograd a step takes some sixty kernels, a product for the gradient of the weights and a sum
with that of the steps before among them. Here all steps are one function. Forwards a step is a
product and a kernel, backwards as many, and one more each where it attends to a source; a projected
state has products of its own. The gradients of all weights are one product over all steps in the
end. ``regard.layers`` has the loops that can be read; both are tested to agree.
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
MOST_KEYS = 128
"""Positions of a source that one program looks at."""


class StateWeights(NamedTuple):
    """What the state of a cell with n gates goes through."""

    matrix: Tensor
    """U (n·Dc, D)"""
    bias: Tensor | None = None
    """(n·Dc,)"""
    out: Tensor | None = None
    """(D, Dc): the projection to h, where the memory c is wider than h."""


class SourceAttention(NamedTuple):
    """What is looked at before each step, for what is added to the gates."""

    keys: Tensor
    """(B, S, A), prepared for the score"""
    values: Tensor
    """(B, S, V): of what is found, the first 4Dc numbers are added to the gates"""
    mask: Tensor
    """(B, S)"""
    w_query: Tensor
    """(D, A)"""
    v: Tensor
    """(A,)"""
    additive: bool
    """Whether the score is Σ v tanh(W_q h + k), else Σ v tanh(W_q h) k."""


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
    states, c = cell.apply(backwards, mask, read.to(kind), *matrices, *_begun(before, kind))
    return states, (states[:, 0 if backwards else -1], c)


def attending_lstm(
    read: Tensor, attention: SourceAttention, weights: StateWeights, before: State
) -> tuple[Tensor, Tensor, State]:
    """Words' part of the gates (B, T, 4Dc), after h and c -> states (B, T, D), contexts (B, T, V),
    the last h and c. The h before a step asks.
    """
    kind = product_type(read)
    joined = torch.cat((attention.w_query.t(), weights.matrix)).to(kind)
    states, contexts, c = _AttendingLstm.apply(
        attention.additive,
        attention.mask,
        read.to(kind),
        attention.keys.to(kind).contiguous(),
        attention.values.to(kind).contiguous(),
        attention.v.to(kind),
        joined,
        None if weights.out is None else weights.out.to(kind),
        *_begun(before, kind),
    )
    return states, contexts, (states[:, -1], c)


def _begun(before: State, kind: torch.dtype) -> State:
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
        of_states, memories = _steps(read, T), _steps(c, T + 1)
        memories[0] = c
        states = read.new_empty(B, T, h.shape[1])
        hidden = states if out is None else read.new_zeros(B, T, c.shape[1])
        for n, t in enumerate(_times(T, backwards)):
            of_state = _product(h, matrix, bias, of_states[n])
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
        grad_states, grad_c = grad_states.contiguous(), _copied(grad_c)
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
                    gpu.part(grad_h, grad_states[:, t], real, grad_hidden[:, t], kept)
                of_h = grad_hidden[:, t] @ out
                gpu.lstm_backward(
                    *given, of_h, grad_c, grad_gates[:, t],
                    mask=real, grad_kept=None if real is None else torch.empty_like(of_h),
                )  # fmt: skip
            if kept is None:
                grad_h = grad_gates[:, t] @ matrix
            else:
                grad_h = torch.addmm(kept, grad_gates[:, t], matrix)
        flat, previous = grad_gates.flatten(0, 1), _before(first, states, ctx.backwards)
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
        of_states, memories = _steps(read, T), _steps(c, T + 1)
        memories[0] = c
        for n, t in enumerate(_times(T, backwards)):
            of_state = _product(h, matrix, bias, of_states[n])
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
        grad_states, grad_c = grad_states.contiguous(), _copied(grad_c)
        grad_read, grad_of_states = torch.empty_like(read), torch.empty_like(read)
        grad_h = torch.zeros_like(first)
        for n, t in reversed([*enumerate(_times(T, ctx.backwards))]):
            gpu.gru_backward(
                read[:, t], of_states[n], memories[n], grad_h, grad_c,
                grad_read[:, t], grad_of_states[:, t],
                grad_hidden=grad_states[:, t], mask=None if mask is None else mask[:, t],
            )  # fmt: skip
            grad_h = grad_of_states[:, t] @ matrix
        flat, previous = grad_of_states.flatten(0, 1), _before(first, states, ctx.backwards)
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


class _AttendingLstm(torch.autograd.Function):
    """The same with a look before each step; it keeps the weights of every look."""

    @staticmethod
    def forward(
        ctx: Any,
        additive: bool,
        mask: Tensor,
        read: Tensor,
        keys: Tensor,
        values: Tensor,
        v: Tensor,
        joined: Tensor,
        out: Tensor | None,
        h: Tensor,
        c: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        gpu, looks = triton_kernels("recurrence"), triton_kernels("source_attention")
        (B, T, _), (_, S, A) = read.shape, keys.shape
        first = h
        projected, memories = read.new_empty(T, B, joined.shape[0]), _steps(c, T + 1)
        memories[0] = c
        states = read.new_empty(B, T, h.shape[1])
        hidden = states if out is None else read.new_zeros(B, T, c.shape[1])
        weights = torch.empty(B, T, S, device=read.device)
        contexts = read.new_empty(B, T, values.shape[-1])
        for t in range(T):
            query, of_state = _product(h, joined, None, projected[t]).split_with_sizes(
                (A, joined.shape[0] - A), dim=1
            )
            found = contexts[:, t]
            looks.attend(query, keys, v, values, mask, weights[:, t], found, additive=additive)
            into = hidden[:, t]
            gpu.lstm_forward(read[:, t], of_state, memories[t], into, memories[t + 1], found=found)
            if out is not None:
                torch.mm(into, out.t(), out=states[:, t])
            h = states[:, t]
        ctx.additive = additive
        ctx.save_for_backward(
            read, keys, values, v, joined, out, first, projected, memories, states, hidden, weights,
            contexts,
        )  # fmt: skip
        return states, contexts, memories[T].clone()

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_states: Tensor, grad_contexts: Tensor, grad_c: Tensor
    ) -> tuple[Any, ...]:
        (
            read, keys, values, v, joined, out, first, projected, memories, states, hidden, weights,
            contexts,
        ) = ctx.saved_tensors  # fmt: skip
        gpu, looks = triton_kernels("recurrence"), triton_kernels("source_attention")
        T, A = read.shape[1], keys.shape[-1]
        grad_states, grad_contexts = grad_states.contiguous(), grad_contexts.contiguous()
        grad_c, grad_h, grads = (
            _copied(grad_c),
            torch.zeros_like(first),
            torch.empty_like(projected),
        )
        grad_hidden = torch.empty_like(grad_states)  # where there is a projection
        grad_keys = torch.zeros_like(keys, dtype=torch.float32)
        grad_v = grad_keys.new_zeros(keys.shape[0], A)
        grad_found = torch.empty_like(contexts)
        for t in reversed(range(T)):
            query, of_state = projected[t, :, :A], projected[t, :, A:]
            grad_query, grad_gates = grads[t, :, :A], grads[t, :, A:]
            of_hidden: Tensor | None = grad_states[:, t]
            if out is not None:
                torch.add(grad_h, grad_states[:, t], out=grad_hidden[:, t])
                grad_h, of_hidden = grad_hidden[:, t] @ out, None
            gpu.lstm_backward(
                read[:, t], of_state, memories[t], grad_h, grad_c, grad_gates,
                found=contexts[:, t], grad_hidden=of_hidden,
            )  # fmt: skip
            looks.attend_backward(
                query, keys, v, values, weights[:, t], grad_gates, grad_contexts[:, t],
                grad_query, grad_keys, grad_v, grad_found[:, t], additive=ctx.additive,
            )  # fmt: skip
            grad_h = grads[t] @ joined
        before = _before(first, states, backwards=False).transpose(0, 1)
        return (
            None,
            None,
            grads[:, :, A:].transpose(0, 1),
            grad_keys.to(keys.dtype),
            weights.to(values.dtype).mT @ grad_found,
            grad_v.sum(dim=0).to(v.dtype),
            grads.flatten(0, 1).t() @ before.flatten(0, 1),
            None if out is None else grad_hidden.flatten(0, 1).t() @ hidden.flatten(0, 1),
            grad_h,
            grad_c,
        )


unrolled_lstm, unrolled_gru = partial(_unrolled, _Lstm), partial(_unrolled, _Gru)


def _times(n: int, backwards: bool) -> Sequence[int]:
    return range(n - 1, -1, -1) if backwards else range(n)


def _copied(x: Tensor) -> Tensor:
    """A copy whose rows lie one behind the other, whatever x's do."""
    return x.clone(memory_format=torch.contiguous_format)


def _steps(x: Tensor, n: int) -> Tensor:
    """Room for n steps of x."""
    return x.new_empty(n, x.shape[0], x.shape[-1])


def _product(h: Tensor, matrix: Tensor, bias: Tensor | None, into: Tensor) -> Tensor:
    if bias is None:
        return torch.mm(h, matrix.t(), out=into)
    return torch.addmm(bias, h, matrix.t(), out=into)


def _before(first: Tensor, states: Tensor, backwards: bool) -> Tensor:
    """The states (B, T, D) that steps began with."""
    if backwards:
        return torch.cat((states[:, 1:], first[:, None]), dim=1)
    return torch.cat((first[:, None], states[:, :-1]), dim=1)
