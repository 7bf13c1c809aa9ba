"""LSTMs and GRUs that look at a source before every step, for updates that are recorded on a GPU.

As in ``regard.kernels.recurrence``, all steps are one function, and the gradients of all weights
are products over all steps in the end. The state before a step asks; what it finds is weighed by
two kernels (``regard.kernels.gpu.source_attention``), and its first numbers enter the gates.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.kernels.call import product_type
from regard.kernels.gpu import triton_kernels
from regard.kernels.recurrence import (
    State,
    StateWeights,
    contiguous_copy,
    empty_steps,
    initial_state,
    previous_states,
    product,
)

MOST_KEYS = 128
"""Positions of a source that one program looks at."""


class SourceAttention(NamedTuple):
    """A source that every step looks at."""

    keys: Tensor
    """(B, S, A), prepared for the score"""
    values: Tensor
    """(B, S, Dv)"""
    mask: Tensor
    """(B, S)"""
    score: str
    """Of q = W_q h, or of h itself, and k: see ``regard.kernels.gpu.source_attention``."""
    w_query: Tensor | None = None
    """(D, A); of ``additive`` and ``tanh_product``"""
    v: Tensor | None = None
    """(A,); of these two and ``sharp_cosine``"""


class SourceGradients:
    """What a source's parts get from the steps that looked at it, added up step by step."""

    def __init__(
        self, score: str, keys: Tensor, values: Tensor, v: Tensor | None, weights: Tensor
    ) -> None:
        """``weights`` (B, T, S) are those of all steps."""
        (B, _, A), T, Dv = keys.shape, weights.shape[1], values.shape[-1]
        self._gpu = triton_kernels("source_attention")
        self._score, self._keys, self._values, self._v = score, keys, values, v
        self._weights, self._found = weights, values.new_empty(B, T, Dv)
        self._of_keys = torch.zeros_like(keys, dtype=torch.float32)
        self._of_v = self._of_keys.new_zeros(B, A)

    def add(
        self, t: int, query: Tensor, grad_gates: Tensor, grad_context: Tensor, grad_query: Tensor
    ) -> None:
        """Those of a step; its query's are written to ``grad_query``.

        ``grad_gates`` is added to the first columns of ``grad_context``.
        """
        self._gpu.attend_backward(
            query, self._keys, self._v, self._values, self._weights[:, t], grad_gates, grad_context,
            grad_query, self._of_keys, self._of_v, self._found[:, t], score=self._score,
        )  # fmt: skip

    def totals(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Of keys, values and v."""
        return (
            self._of_keys.to(self._keys.dtype),
            self._weights.to(self._values.dtype).mT @ self._found,
            None if self._v is None else self._of_v.sum(dim=0).to(self._v.dtype),
        )


def attending_lstm(
    read: Tensor, source: SourceAttention, weights: StateWeights, before: State
) -> tuple[Tensor, Tensor, State]:
    """Words' part of the gates (B, T, 4Dc), after h and c -> states (B, T, D), contexts (B, T, Dv),
    the last h and c. The h before a step asks; of what it finds the first 4Dc numbers are added to
    the gates.
    """
    kind = product_type(read)
    out = None if weights.out is None else weights.out.to(kind)
    states, contexts, c = _AttendingLstm.apply(
        *_inputs(read, source, weights.matrix), out, *initial_state(before, kind)
    )
    return states, contexts, (states[:, -1], c)


def attending_gru(
    read: Tensor, source: SourceAttention, gates: Tensor, candidate: Tensor, before: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Words' part of z, r and the candidate (B, T, 3D), after the state ``before`` (B, D) -> states
    (B, T, D), contexts (B, T, Dv), the last state.

    ``gates`` U (2D, D) are those of z and r, ``candidate`` (D, D) multiplies r ∘ s. Of what is
    found the first 3D numbers are added.
    """
    kind = product_type(read)
    states, contexts, _ = _AttendingGru.apply(
        *_inputs(read, source, gates), candidate.to(kind), *initial_state((before, before), kind)
    )
    return states, contexts, states[:, -1]


def _inputs(read: Tensor, source: SourceAttention, matrix: Tensor) -> tuple[Any, ...]:
    """What both functions begin with; a state is multiplied by W_q and U at once."""
    assert source.w_query is not None, "the state asks through a matrix"
    assert source.v is not None, "both scores that have a matrix have one"
    kind = product_type(read)
    return (
        source.score,
        source.mask,
        read.to(kind),
        source.keys.to(kind).contiguous(),
        source.values.to(kind).contiguous(),
        source.v.to(kind),
        torch.cat((source.w_query.t(), matrix)).to(kind),
    )


class _AttendingLstm(torch.autograd.Function):
    """An LSTM that attends before each step; keeps the weights of every step for the way back."""

    @staticmethod
    def forward(
        ctx: Any,
        score: str,
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
        gpu, attention = triton_kernels("recurrence"), triton_kernels("source_attention")
        (B, T, _), (_, S, A) = read.shape, keys.shape
        first = h
        projected, memories = read.new_empty(T, B, joined.shape[0]), empty_steps(c, T + 1)
        memories[0] = c
        states = read.new_empty(B, T, h.shape[1])
        hidden = states if out is None else read.new_zeros(B, T, c.shape[1])
        weights = torch.empty(B, T, S, device=read.device)
        contexts = read.new_empty(B, T, values.shape[-1])
        for t in range(T):
            query, of_state = product(h, joined, None, projected[t]).split_with_sizes(
                (A, joined.shape[0] - A), dim=1
            )
            found = contexts[:, t]
            attention.attend(query, keys, v, values, mask, weights[:, t], found, score=score)
            into = hidden[:, t]
            gpu.lstm_forward(read[:, t], of_state, memories[t], into, memories[t + 1], found=found)
            if out is not None:
                torch.mm(into, out.t(), out=states[:, t])
            h = states[:, t]
        ctx.score = score
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
        gpu, T, A = triton_kernels("recurrence"), read.shape[1], keys.shape[-1]
        grad_states, grad_contexts = grad_states.contiguous(), grad_contexts.contiguous()
        grad_c, grad_h, grads = (
            contiguous_copy(grad_c),
            torch.zeros_like(first),
            torch.empty_like(projected),
        )
        grad_hidden = torch.empty_like(grad_states)  # where there is a projection
        of_source = SourceGradients(ctx.score, keys, values, v, weights)
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
            of_source.add(t, query, grad_gates, grad_contexts[:, t], grad_query)
            grad_h = grads[t] @ joined
        before = previous_states(first, states, backwards=False).transpose(0, 1)
        return (
            None,
            None,
            grads[:, :, A:].transpose(0, 1),
            *of_source.totals(),
            grads.flatten(0, 1).t() @ before.flatten(0, 1),
            None if out is None else grad_hidden.flatten(0, 1).t() @ hidden.flatten(0, 1),
            grad_h,
            grad_c,
        )


class _AttendingGru(torch.autograd.Function):
    """The same of a GRU, whose candidate has a product of its own. Its state is kept as h, for
    products, and as c, in float32.
    """

    @staticmethod
    def forward(
        ctx: Any,
        score: str,
        mask: Tensor,
        read: Tensor,
        keys: Tensor,
        values: Tensor,
        v: Tensor,
        joined: Tensor,
        candidate: Tensor,
        h: Tensor,
        c: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        gpu, attention = triton_kernels("context_gru"), triton_kernels("source_attention")
        (B, T, _), (_, S, A) = read.shape, keys.shape
        first, memories = h, empty_steps(c, T + 1)
        memories[0] = c
        projected = read.new_empty(T, B, joined.shape[0])
        recalled, of_recalled = empty_steps(h, T), empty_steps(h, T)
        states, contexts = read.new_empty(B, T, h.shape[1]), read.new_empty(B, T, values.shape[-1])
        weights = torch.empty(B, T, S, device=read.device)
        for t in range(T):
            query, of_state = product(h, joined, None, projected[t]).split_with_sizes(
                (A, joined.shape[0] - A), dim=1
            )
            found = contexts[:, t]
            attention.attend(query, keys, v, values, mask, weights[:, t], found, score=score)
            gpu.reset_state(read[:, t], of_state, found, memories[t], recalled[t])
            again = product(recalled[t], candidate, None, of_recalled[t])
            gpu.update_state(
                read[:, t], of_state, found, again, memories[t], states[:, t], memories[t + 1]
            )
            h = states[:, t]
        ctx.score = score
        ctx.save_for_backward(
            read, keys, values, v, joined, candidate, first, projected, memories, recalled,
            of_recalled, states, weights, contexts,
        )  # fmt: skip
        return states, contexts, memories[T].clone()

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_states: Tensor, grad_contexts: Tensor, grad_c: Tensor
    ) -> tuple[Any, ...]:
        (
            read, keys, values, v, joined, candidate, first, projected, memories, recalled,
            of_recalled, states, weights, contexts,
        ) = ctx.saved_tensors  # fmt: skip
        gpu = triton_kernels("context_gru")
        T, A, n = read.shape[1], keys.shape[-1], joined.shape[0]
        grad_states, grad_contexts = grad_states.contiguous(), grad_contexts.contiguous()
        grad_c, grad_h = contiguous_copy(grad_c), torch.zeros_like(first)
        grads = read.new_empty(T, len(read), n + len(candidate))  # of query, z, r, candidate
        of_source = SourceGradients(ctx.score, keys, values, v, weights)
        for t in reversed(range(T)):
            grad_parts = grads[t, :, A:]
            given = (read[:, t], projected[t, :, A:], contexts[:, t])
            gpu.update_state_backward(
                *given, of_recalled[t], memories[t], grad_h, grad_states[:, t], grad_c, grad_parts
            )
            grad_recalled = grads[t, :, n:] @ candidate
            gpu.reset_state_backward(*given, memories[t], grad_recalled, grad_c, grad_parts)
            query, grad_query = projected[t, :, :A], grads[t, :, :A]
            of_source.add(t, query, grad_parts, grad_contexts[:, t], grad_query)
            grad_h = grads[t, :, :n] @ joined
        before = previous_states(first, states, backwards=False).transpose(0, 1)
        flat = grads.flatten(0, 1)
        return (
            None,
            None,
            grads[:, :, A:].transpose(0, 1),
            *of_source.totals(),
            flat[:, :n].t() @ before.flatten(0, 1),
            flat[:, n:].t() @ recalled.flatten(0, 1),
            grad_h,
            grad_c,
        )
