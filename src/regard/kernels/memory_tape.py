"""Memory-networks (Cheng et al. 2016) over all positions of a text, for recorded updates on a GPU.

As in ``regard.kernels.recurrence``, all steps are one function, and the gradients of weights are
products over all steps in the end. What is looked at grows by an entry a step, and later steps give
it gradients, so these are added up when the way back comes to the step that wrote it.
``regard.models.memory_network`` has the loops that can be read; they are tested to agree.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.kernels.attending_recurrence import SourceAttention, SourceGradients
from regard.kernels.call import product_type
from regard.kernels.gpu import triton_kernels
from regard.kernels.recurrence import contiguous_copy, previous_states


class TapeWeights(NamedTuple):
    """What scores a past step, Σ v tanh(W_q q + W_k h), and what h̃ gives to the gates."""

    w_query: Tensor
    """(D, A)"""
    w_key: Tensor
    """(D, A)"""
    v: Tensor
    """(A,)"""
    recalled: Tensor
    """(4D, D)"""


def unrolled_tape(
    read: Tensor, asked: Tensor, weights: TapeWeights, brought: Tensor | None
) -> tuple[Tensor, Tensor]:
    """All steps on an empty tape -> h and c of each side by side (B, T, 2D), the last h̃ (B, D).

    Words give ``read`` (B, T, 4D) to the gates and ``asked`` (B, T, A) to the queries; ``brought``
    (B, T, D) is added to each step's c.
    """
    kind = product_type(read)
    joined = torch.cat((weights.w_query.t(), weights.recalled))
    extra = None if brought is None else brought.to(kind).contiguous()
    tape, last = _Tape.apply(
        *(one.to(kind) for one in (read, asked, joined, weights.w_key, weights.v)), extra
    )
    return tape, last


class _Tape(torch.autograd.Function):
    """Keeps gates before anything is done to them, what was recalled and the weights of each step.

    ``joined`` [W_q; W] multiplies h̃ of a step once, for the query of the next and its own gates.
    """

    @staticmethod
    def forward(
        ctx: Any,
        read: Tensor,
        asked: Tensor,
        joined: Tensor,
        w_key: Tensor,
        v: Tensor,
        brought: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        gpu, attention = triton_kernels("memory_tape"), triton_kernels("source_attention")
        (B, T, A), D = asked.shape, len(w_key)
        sums = read.new_zeros(T, B, len(joined))  # a query of the next step, gates of this one
        sums[:-1, :, :A], sums[:, :, A:] = asked[:, 1:].transpose(0, 1), read.transpose(0, 1)
        tape, keys = read.new_empty(B, T, 2 * D), read.new_empty(B, T, A)
        recalled = read.new_zeros(T, B, 2 * D)  # h̃ and c̃: none in the first step
        weights = torch.empty(B, T, T, device=read.device)
        for t in range(T):
            if t:
                attention.attend(
                    sums[t - 1, :, :A], keys[:, :t], v, tape[:, :t], None, weights[:, t, :t],
                    recalled[t], score="additive",
                )  # fmt: skip
                sums[t].addmm_(recalled[t, :, :D], joined.t())
            extra = None if brought is None else brought[:, t]
            gpu.tape_cell(sums[t, :, A:], recalled[t, :, D:], extra, tape[:, t])
            torch.mm(tape[:, t, :D], w_key, out=keys[:, t])
        ctx.save_for_backward(brought, joined, w_key, v, sums, tape, keys, recalled, weights)
        return tape, recalled[-1, :, :D].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_tape: Tensor, grad_last: Tensor) -> tuple[Tensor | None, ...]:
        brought, joined, w_key, v, sums, tape, keys, recalled, weights = ctx.saved_tensors
        gpu, attention = triton_kernels("memory_tape"), triton_kernels("source_attention")
        (B, T, A), D = keys.shape, len(w_key)
        grad_tape, grads = grad_tape.contiguous(), torch.zeros_like(sums)
        grad_recalled = torch.empty_like(tape)
        grad_keys = torch.zeros_like(keys, dtype=torch.float32)
        grad_v, of_value = grad_keys.new_zeros(B, A), grad_keys.new_empty(B, 2 * D)
        grad_brought = None if brought is None else torch.empty_like(brought)
        for t in reversed(range(T)):
            later = None
            if t + 1 < T:
                attention.find(weights[:, t + 1 :, t], grad_recalled[:, t + 1 :], of_value)
                later = of_value, grad_keys[:, t].to(keys.dtype) @ w_key.t()
            extra, of_extra = (
                None if one is None else one[:, t] for one in (brought, grad_brought)
            )
            found = grad_recalled[:, t]
            gpu.tape_cell_backward(
                sums[t, :, A:], recalled[t, :, D:], extra, grad_tape[:, t], grads[t, :, A:],
                found[:, D:], of_extra, later,
            )  # fmt: skip
            if t == 0:
                break
            torch.mm(grads[t], joined, out=found[:, :D])
            if t == T - 1:
                found[:, :D] += grad_last
            attention.attend_backward(
                sums[t - 1, :, :A], keys[:, :t], v, tape[:, :t], weights[:, t, :t], found[:, :0],
                found, grads[t - 1, :, :A], grad_keys[:, :t], grad_v, found, score="additive",
            )  # fmt: skip
        of_queries = grads[:, :, :A].transpose(0, 1)  # of the steps after
        hidden = tape[..., :D].flatten(0, 1)
        return (
            grads[:, :, A:].transpose(0, 1),
            previous_states(torch.zeros_like(of_queries[:, 0]), of_queries, backwards=False),
            grads.flatten(0, 1).t() @ recalled[..., :D].flatten(0, 1),
            hidden.t() @ grad_keys.to(keys.dtype).flatten(0, 1),
            grad_v.sum(dim=0).to(v.dtype),
            grad_brought,
        )


def fed_looks(asked: Tensor, source: SourceAttention, before: Tensor) -> Tensor:
    """Steps that look at a source, each asking with what the one before found -> (B, T, Dv).

    A query is ``asked`` (B, T, A) of the step plus W_q times the first D numbers found by the step
    before; in the first step, times ``before`` (B, D).
    """
    kind, w_query, v = product_type(asked), source.w_query, source.v
    assert w_query is not None, "what was found asks through a matrix"
    assert v is not None, "both scores that have a matrix have one"
    parts = (asked, source.keys.contiguous(), source.values.contiguous(), v, w_query, before)
    found: Tensor = _FedLooks.apply(source.score, source.mask, *(one.to(kind) for one in parts))
    return found


class _FedLooks(torch.autograd.Function):
    """Keeps queries and weights of every step."""

    @staticmethod
    def forward(
        ctx: Any,
        score: str,
        mask: Tensor,
        asked: Tensor,
        keys: Tensor,
        values: Tensor,
        v: Tensor,
        w_query: Tensor,
        before: Tensor,
    ) -> Tensor:
        attention, (B, T, _), D = triton_kernels("source_attention"), asked.shape, len(w_query)
        queries = contiguous_copy(asked.transpose(0, 1))  # sums are taken in place
        weights = torch.empty(B, T, keys.shape[1], device=keys.device)
        contexts = values.new_empty(B, T, values.shape[-1])
        first = before
        for t in range(T):
            queries[t].addmm_(before, w_query)
            attention.attend(
                queries[t], keys, v, values, mask, weights[:, t], contexts[:, t], score=score
            )
            before = contexts[:, t, :D]
        ctx.score = score
        ctx.save_for_backward(keys, values, v, w_query, first, queries, weights, contexts)
        return contexts

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_contexts: Tensor) -> tuple[Any, ...]:
        keys, values, v, w_query, first, queries, weights, contexts = ctx.saved_tensors
        grad_contexts, grad_queries = grad_contexts.contiguous(), torch.empty_like(queries)
        of_source = SourceGradients(ctx.score, keys, values, v, weights)
        fed = torch.zeros_like(first)
        for t in reversed(range(len(queries))):
            of_source.add(t, queries[t], fed, grad_contexts[:, t], grad_queries[t])
            fed = grad_queries[t] @ w_query.t()
        asked_by = previous_states(first, contexts[..., : len(w_query)], backwards=False)
        of_queries = grad_queries.transpose(0, 1)
        return (
            None,
            None,
            of_queries,
            *of_source.totals(),
            asked_by.flatten(0, 1).t() @ of_queries.flatten(0, 1),
            fed,
        )
