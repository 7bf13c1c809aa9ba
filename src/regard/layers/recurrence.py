"""Stacked LSTMs, GRUs or tanh cells over padded sequences.

Torch's fused recurrences do the work. Where launches are recorded and rows are padded, which is
more than these can, ``regard.kernels.recurrence`` does it for LSTMs and GRUs. Other cells, and all
where only readable kernels are wanted (counting FLOPs, comparing), run step by step. They are
tested to agree.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.core.registry import Registry
from regard.kernels import call, recurrence
from regard.kernels.call import may_ask, may_fuse, product_type
from regard.kernels.recurrence import StateWeights

# Torch says on a CPU which of its kernels it takes for an LSTM with a projection.
warnings.filterwarnings("ignore", message="LSTM with projections is not supported with oneDNN")
# And on a GPU that averaged weights, which a validation puts in their place, lie apart.
warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous")


@dataclass(frozen=True, slots=True)
class CellState:
    """h and, for an LSTM, c: (B, N, D), where N counts layers, directions side by side.

    Of an LSTM with a projection, h is narrower than c.
    """

    h: Tensor
    c: Tensor | None

    def layers(self, first: int, end: int) -> CellState:
        """Some of the layers, counted from 0."""
        c = None if self.c is None else self.c[:, first:end]
        return CellState(self.h[:, first:end], c)

    def followed_by(self, *others: CellState) -> CellState:
        """These layers, then those of the others."""
        every = (self, *others)
        c = [one.c for one in every if one.c is not None]
        h = torch.cat([one.h for one in every], dim=1)
        return CellState(h, torch.cat(c, dim=1) if c else None)

    def select(self, rows: Tensor) -> CellState:
        """Rows of the batch by index, in that order."""
        c = None if self.c is None else self.c.index_select(0, rows)
        return CellState(self.h.index_select(0, rows), c)


def one_layer(s: Tensor, c: Tensor | None) -> CellState:
    """s and c (B, D) as the state of one layer."""
    return CellState(s.unsqueeze(1), None if c is None else c.unsqueeze(1))


Step = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


@lru_cache
def _compiled(step: Step) -> Step:
    return torch.compile(step, dynamic=True)


@dataclass(frozen=True, slots=True)
class CellKind:
    """One row of the table of cells."""

    fused: Callable[..., nn.RNNBase]
    """Torch's recurrence of such cells."""
    step: Step
    """(W x + b, U h + b', h, c) -> the new h and c; c is h where there is none."""
    has_c: bool = False
    """Whether there is a memory c beside h."""
    one_bias: bool = True
    """Whether what x and h give is added and nothing else, so that one bias does for both."""
    unrolled: Callable[..., Any] | None = None
    """A kernel of ours that takes all steps, where updates are recorded."""

    def stepping(self, device: torch.device) -> Step:
        """``step``; made into one kernel where a recording on a GPU will repeat it so often."""
        recorded = device.type == "cuda" and not may_ask()
        return _compiled(self.step) if recorded else self.step


def _lstm(from_x: Tensor, from_h: Tensor, _h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    i, f, g, o = (from_x + from_h).chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru(from_x: Tensor, from_h: Tensor, h: Tensor, _c: Tensor) -> tuple[Tensor, Tensor]:
    xr, xz, xn = from_x.chunk(3, dim=-1)
    hr, hz, hn = from_h.chunk(3, dim=-1)
    z = (xz + hz).sigmoid()
    h = (1 - z) * (xn + (xr + hr).sigmoid() * hn).tanh() + z * h
    return h, h


def _tanh(from_x: Tensor, from_h: Tensor, _h: Tensor, _c: Tensor) -> tuple[Tensor, Tensor]:
    h = (from_x + from_h).tanh()
    return h, h


CELLS: Registry[CellKind] = Registry("cell")
CELLS.add("lstm")(CellKind(nn.LSTM, _lstm, has_c=True, unrolled=recurrence.unrolled_lstm))
CELLS.add("gru")(CellKind(nn.GRU, _gru, one_bias=False, unrolled=recurrence.unrolled_gru))
CELLS.add("tanh")(CellKind(nn.RNN, _tanh))


FORGET_BIAS = 1.0
"""Of a fresh LSTM's forget gates: what is in c stays there until something is learned (Gers 2000,
Jozefowicz et al. 2015). Without it half of c is gone after a step, and so is the gradient."""


@torch.no_grad()
def open_forget_gates(bias: Tensor, *others: Tensor) -> None:
    """Gates (4D,) in the order i, f, …: the forget gates' biases begin with ``FORGET_BIAS`` in all.

    The others are added to the first.
    """
    d = len(bias) // 4
    for one, value in ((bias, FORGET_BIAS), *((other, 0.0) for other in others)):
        one[d : 2 * d] = value


INPUT_GAIN = 2.0
"""Of a translator's fresh input weights, times Glorot's. What a cell tells is a gate times a tanh,
less than half of what it was told; two layers and an attention later hardly anything is left of
the source with torch's weights, which are half as large as Glorot's, and little can be learned."""


@torch.no_grad()
def begin_gates(from_input: Tensor, from_state: Tensor, gain: float = INPUT_GAIN) -> None:
    """Fresh weights (n D, d_in) and (n D, D) of a cell's n gates.

    Those of inputs by Glorot's rule times ``gain``; recurrent ones orthogonal, so that they
    neither shrink nor stretch a state (Saxe et al. 2014).
    """
    d = from_state.shape[1]
    for gate in from_input.split(d):
        nn.init.xavier_uniform_(gate, gain)
    for gate in from_state.split(d):
        nn.init.orthogonal_(gate)


def begin_orthogonal(recurrence: Recurrence) -> None:
    """``begin_gates`` of every layer and direction."""
    weights = dict(recurrence.inner.named_parameters())
    for name in [name for name in weights if name.startswith("weight_ih")]:
        begin_gates(weights[name], weights[name.replace("_ih", "_hh")])


class Recurrence(nn.Module):
    """x (B, T, d_in) -> (B, T, D), or (B, T, 2D) when read in both directions.

    An LSTM whose memory is wider than what it tells has ``d_out``: h = W (o ∘ tanh(c)) is so wide
    (Sak et al. 2014). Its forget gates begin open, unless ``remembers`` is False.
    """

    def __init__(
        self,
        cell: str,
        d_in: int,
        d_hidden: int,
        *,
        n_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        d_out: int | None = None,
        remembers: bool = True,
    ) -> None:
        super().__init__()
        self.kind = CELLS[cell]
        self.d_out = d_hidden if d_out is None else d_out
        self.inner = self.kind.fused(
            d_in,
            d_hidden,
            n_layers,
            batch_first=True,
            bidirectional=bidirectional,
            dropout=dropout if n_layers > 1 else 0.0,
            **({} if d_out is None else {"proj_size": d_out}),
        )
        if self.kind.has_c and remembers:
            biases = dict(self.inner.named_parameters())
            for name in [name for name in biases if name.startswith("bias_ih")]:
                open_forget_gates(biases[name], biases[name.replace("_ih", "_hh")])

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        state: CellState | None = None,
        lengths: Tensor | None = None,
    ) -> tuple[Tensor, CellState]:
        """Outputs, and the state after each row's last real position.

        ``mask`` (B, T) is True at real positions, which come first; others give zeros. Who calls
        several layers counts them once: ``lengths`` (B,) on the CPU, which waits for a GPU.
        """
        state = state or self.start(x)
        if self._unrolls(x) or not may_fuse() or (mask is not None and not may_ask()):
            return self._by_layers(x, mask, state)
        return self._fused(x, mask, state, lengths)

    def _unrolls(self, x: Tensor) -> bool:
        """Whether x is read by kernels of our own, all positions in one call."""
        return self.kind.unrolled is not None and call.is_recorded(x)

    def start(self, x: Tensor) -> CellState:
        """Zeros for each row of x."""
        n = self.inner.num_layers * (2 if self.inner.bidirectional else 1)
        h = x.new_zeros(x.shape[0], n, self.d_out)
        c = x.new_zeros(x.shape[0], n, self.inner.hidden_size) if self.kind.has_c else None
        return CellState(h, c)

    def _fused(
        self, x: Tensor, mask: Tensor | None, state: CellState, lengths: Tensor | None
    ) -> tuple[Tensor, CellState]:
        x = x.to(product_type(x))  # as oneDNN does not
        before = _torch_state(state)
        if mask is None:
            out, after = self.inner(x, before)
        else:
            lengths = mask.sum(dim=1).cpu() if lengths is None else lengths
            packed = pack_padded_sequence(
                x, lengths.clamp(min=1), batch_first=True, enforce_sorted=False
            )
            packed, after = self.inner(packed, before)
            out, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])
            if not lengths.all():
                return _unread(~mask.any(dim=1), out, _our_state(after), state)
        return out, _our_state(after)

    def _by_layers(
        self, x: Tensor, mask: Tensor | None, state: CellState
    ) -> tuple[Tensor, CellState]:
        """The same, a layer and a direction at a time; padding leaves a state as it was."""
        c = state.h if state.c is None else state.c
        ends: list[tuple[Tensor, Tensor]] = []
        for layer in range(self.inner.num_layers):
            if layer:
                x = F.dropout(x, self.inner.dropout, self.training)
            outputs = []
            for way in ("", "_reverse") if self.inner.bidirectional else ("",):
                before = (state.h[:, len(ends)], c[:, len(ends)])
                out, end = self._one_way(x, mask, before, f"_l{layer}{way}")
                outputs.append(out)
                ends.append(end)
            x = torch.cat(outputs, dim=-1)
        h, memory = (torch.stack(parts, dim=1) for parts in zip(*ends, strict=True))
        return x, CellState(h, memory if self.kind.has_c else None)

    def _one_way(
        self, x: Tensor, mask: Tensor | None, state: tuple[Tensor, Tensor], suffix: str
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        w_x, b_x, weights = self.weights(suffix)
        read, backwards = F.linear(x, w_x, b_x), suffix.endswith("reverse")
        run = self.kind.unrolled if self._unrolls(x) else None
        out, last = (run or self._by_steps)(read, weights, state, mask, backwards=backwards)
        return (out if mask is None else out * mask.unsqueeze(-1)), last

    def weights(self, suffix: str) -> tuple[Tensor, Tensor, StateWeights]:
        """W and its bias, and what the state goes through, of a layer and a direction: ``_l0``,
        ``_l0_reverse``, …
        """
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        w_x, w_h, b_x, b_h = (getattr(self.inner, name + suffix) for name in names)
        of_x, of_h = (b_x + b_h, None) if self.kind.one_bias else (b_x, b_h)
        return w_x, of_x, StateWeights(w_h, of_h, getattr(self.inner, f"weight_hr{suffix}", None))

    def _by_steps(
        self,
        read: Tensor,
        weights: StateWeights,
        state: tuple[Tensor, Tensor],
        mask: Tensor | None,
        *,
        backwards: bool,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """W x + b (B, T, n·D) -> states (B, T, D), the last h and c: one position at a time."""
        states, times, step = {}, range(read.shape[1]), self.kind.stepping(read.device)
        for t in reversed(times) if backwards else times:
            of_state = F.linear(state[0], weights.matrix, weights.bias)
            h, c = step(read[:, t], of_state, *state)
            h = h if weights.out is None else F.linear(h, weights.out)
            if mask is not None:
                real = mask[:, t, None]
                h, c = torch.where(real, h, state[0]), torch.where(real, c, state[1])
            states[t] = h
            state = (h, c)
        return torch.stack([states[t] for t in times], dim=1), state


def _unread(
    empty: Tensor, out: Tensor, after: CellState, before: CellState
) -> tuple[Tensor, CellState]:
    """Where rows are ``empty`` (B,), which torch cannot: zeros, and the state that they had."""
    rows = empty[:, None, None]
    h = torch.where(rows, before.h, after.h)
    if after.c is None or before.c is None:
        return out.masked_fill(rows, 0.0), CellState(h, None)
    return out.masked_fill(rows, 0.0), CellState(h, torch.where(rows, before.c, after.c))


def _our_state(state: Tensor | tuple[Tensor, Tensor]) -> CellState:
    h, c = state if isinstance(state, tuple) else (state, None)
    return CellState(h.transpose(0, 1), None if c is None else c.transpose(0, 1))


def _torch_state(state: CellState) -> Tensor | tuple[Tensor, Tensor]:
    h = state.h.transpose(0, 1).contiguous()
    return h if state.c is None else (h, state.c.transpose(0, 1).contiguous())


class BothWays(nn.Module):
    """The last states of reading forwards and backwards to one state a layer: tanh(W [h→; h←]).

    h, and c where there is one, are ``d_h`` and ``d_c`` wide each way; what is made of them may be
    as wide, or wider.
    """

    def __init__(
        self, d_h: int, d_c: int | None, *, d_out: int | None = None, d_memory: int | None = None
    ) -> None:
        super().__init__()
        self.h = nn.Linear(2 * d_h, d_out or d_h)
        self.c = None if d_c is None else nn.Linear(2 * d_c, d_memory or d_c)

    def forward(self, last: CellState) -> CellState:
        """(B, 2N, D), directions side by side -> (B, N, D)"""
        h = self.h(last.h.unflatten(1, (-1, 2)).flatten(2)).tanh()
        if self.c is None or last.c is None:
            return CellState(h, None)
        return CellState(h, self.c(last.c.unflatten(1, (-1, 2)).flatten(2)))


def turned_round(x: Tensor, mask: Tensor) -> Tensor:
    """(B, S) or (B, S, D): each row's real positions turned round, its padding left at the end."""
    at = torch.arange(mask.shape[1], device=x.device)
    turned = mask.sum(dim=1, keepdim=True) - 1 - at  # (B, S)
    index = torch.where(mask, turned, at)
    if x.dim() == 3:
        return x.gather(1, index.unsqueeze(2).expand_as(x))
    return x.gather(1, index)
