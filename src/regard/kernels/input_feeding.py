"""Stacked LSTMs that read what attention made of the step before, for updates that are recorded.

    h = LSTMs([y_t; f_{t-1}]),   c = Σ α v,   f_t = tanh(W_c [c; h])         (Luong et al. 2015)

As in ``regard.kernels.recurrence``, all steps are one function. What a layer multiplies lies side
by side, what it reads and its state, so that a layer of a step is one product and one kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.kernels.attending_recurrence import SourceAttention, SourceGradients
from regard.kernels.call import product_type
from regard.kernels.gpu import triton_kernels
from regard.kernels.recurrence import contiguous_copy, product


class FedState(NamedTuple):
    """What a step begins with."""

    fed: Tensor
    """(B, D): the last attentional state."""
    h: Tensor
    """(B, L, D)"""
    c: Tensor
    """(B, L, D)"""


def fed_lstm(
    read: Tensor,
    source: SourceAttention,
    matrices: Sequence[Tensor],
    biases: Sequence[Tensor],
    join: Tensor,
    before: FedState,
    kept: Tensor | None = None,
) -> tuple[Tensor, FedState]:
    """Words' part of the lowest gates (B, T, 4D) -> attentional states (B, T, D), the last state.

    ``matrices`` are L times [W, U] (4D, 2D), of what a layer reads and of its state; the lowest W
    is that of f. ``biases`` (4D,) are those of the layers above it. ``join`` (D, Dv + D) reads the
    context and the state. ``kept`` (L - 1, T, B, D) multiplies what goes from a layer to the next.
    """
    kind = product_type(read)
    w_query, v = source.w_query, source.v
    out, h, c = _FedLstm.apply(
        source.score,
        source.mask,
        kept,
        read.to(kind),
        source.keys.to(kind).contiguous(),
        source.values.to(kind).contiguous(),
        None if v is None else v.to(kind),
        None if w_query is None else w_query.to(kind),
        join.to(kind),
        before.fed.to(kind),
        before.h.transpose(0, 1).to(kind),
        before.c.transpose(0, 1).float().contiguous(),
        *(one.to(kind) for one in (*matrices, *biases)),
    )
    return out, FedState(out[:, -1], h.transpose(0, 1), c.transpose(0, 1))


class _FedLstm(torch.autograd.Function):
    """Keeps what every product was given, and what those of states gave, for the way back."""

    @staticmethod
    def forward(
        ctx: Any,
        score: str,
        mask: Tensor,
        kept: Tensor | None,
        read: Tensor,
        keys: Tensor,
        values: Tensor,
        v: Tensor | None,
        w_query: Tensor | None,
        join: Tensor,
        fed: Tensor,
        h: Tensor,
        c: Tensor,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        gpu, attention = triton_kernels("recurrence"), triton_kernels("source_attention")
        (B, T, _), (L, _, D), Dv = read.shape, h.shape, values.shape[-1]
        inputs = read.new_empty(L, T + 1, B, 2 * D)
        inputs[0, 0, :, :D], inputs[:, 0, :, D:] = fed, h
        gates, memories = read.new_empty(L, T, B, 4 * D), c.new_empty(L, T + 1, B, D)
        memories[:, 0] = c
        joined, before_tanh = read.new_empty(T, B, Dv + D), torch.empty_like(fed)
        queries = read.new_empty(T, B, keys.shape[-1])
        seen = torch.empty(B, T, keys.shape[1], device=read.device)
        for t in range(T):
            for n in range(L):
                of_state = product(inputs[n, t], weights[n], None, gates[n, t])
                of_word = read[:, t] if n == 0 else weights[L + n - 1].expand(B, -1)
                state = inputs[n, t + 1, :, D:]
                gpu.lstm_forward(of_word, of_state, memories[n, t], state, memories[n, t + 1])
                if n + 1 < L:
                    _pass_on(state, None if kept is None else kept[n, t], inputs[n + 1, t, :, :D])
            joined[t, :, Dv:] = state
            query = state if w_query is None else torch.mm(state, w_query, out=queries[t])
            found = joined[t, :, :Dv]
            attention.attend(query, keys, v, values, mask, seen[:, t], found, score=score)
            product(joined[t], join, None, before_tanh)
            torch.tanh(before_tanh, out=inputs[0, t + 1, :, :D])
        ctx.score = score
        ctx.save_for_backward(
            kept, read, keys, values, v, w_query, join, inputs, gates, memories, joined, queries,
            seen, *weights,
        )  # fmt: skip
        out = inputs[0, 1:, :, :D].transpose(0, 1).contiguous()
        return out, inputs[:, T, :, D:].clone(), memories[:, T].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor, grad_h: Tensor, grad_c: Tensor) -> tuple[Any, ...]:
        (
            kept, read, keys, values, v, w_query, join, inputs, gates, memories, joined, queries,
            seen, *weights,
        ) = ctx.saved_tensors  # fmt: skip
        gpu = triton_kernels("recurrence")
        (L, T, B, _), D, Dv = gates.shape, join.shape[0], values.shape[-1]
        grad_out, grad_c = grad_out.contiguous(), contiguous_copy(grad_c)
        later = [
            torch.cat((torch.zeros_like(one), one), dim=1) for one in grad_h
        ]  # of inputs of the step after
        grad_gates, grad_before_tanh = torch.empty_like(gates), read.new_empty(T, B, D)
        grad_queries = read.new_empty(T, B, keys.shape[-1])
        of_source = SourceGradients(ctx.score, keys, values, v, seen)
        for t in reversed(range(T)):
            out, of_out = inputs[0, t + 1, :, :D], later[0][:, :D]
            gpu.tanh_backward(grad_out[:, t], of_out, out, grad_before_tanh[t])
            of_joined = grad_before_tanh[t] @ join
            of_context, of_h = of_joined.split_with_sizes((Dv, D), dim=1)
            query = inputs[L - 1, t + 1, :, D:] if w_query is None else queries[t]
            of_source.add(t, query, of_context[:, :0], of_context, grad_queries[t])
            if w_query is None:
                of_h = of_h + grad_queries[t]
            else:
                of_h = torch.addmm(of_h, grad_queries[t], w_query.t())
            for n in reversed(range(L)):
                of_word = read[:, t] if n == 0 else weights[L + n - 1].expand(B, -1)
                gpu.lstm_backward(
                    of_word, gates[n, t], memories[n, t], of_h, grad_c[n], grad_gates[n, t],
                    grad_hidden=later[n][:, D:],
                )  # fmt: skip
                later[n] = grad_gates[n, t] @ weights[n]
                if n:
                    of_h = torch.empty_like(of_h)
                    _pass_on(later[n][:, :D], None if kept is None else kept[n - 1, t], of_h)
        flat = [one.flatten(0, 1) for one in grad_gates]
        of_matrices = [
            one.t() @ given[:T].flatten(0, 1) for one, given in zip(flat, inputs, strict=True)
        ]
        of_w_query = None
        if w_query is not None:
            asked = inputs[L - 1, 1:, :, D:].flatten(0, 1)
            of_w_query = asked.t() @ grad_queries.flatten(0, 1)
        return (
            None,
            None,
            None,
            grad_gates[0].transpose(0, 1),
            *of_source.totals(),
            of_w_query,
            grad_before_tanh.flatten(0, 1).t() @ joined.flatten(0, 1),
            later[0][:, :D],
            torch.stack([one[:, D:] for one in later]),
            grad_c,
            *of_matrices,
            *(one.sum(dim=0) for one in flat[1:]),
        )


def _pass_on(x: Tensor, kept: Tensor | None, into: Tensor) -> None:
    """x, or what dropout keeps of it."""
    if kept is None:
        into.copy_(x)
    else:
        torch.mul(x, kept, out=into)
