"""Stacked LSTMs or GRUs over padded sequences.

Torch's fused recurrences do the work. Where only readable kernels are wanted (counting FLOPs,
comparing), the same weights run step by step; both are tested to agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.kernels.call import may_fuse

Cell = Literal["lstm", "gru"]


@dataclass(frozen=True, slots=True)
class CellState:
    """h and, for an LSTM, c: (B, N, D), where N counts layers, directions side by side."""

    h: Tensor
    c: Tensor | None

    def select(self, rows: Tensor) -> CellState:
        """Rows of the batch by index, in that order."""
        c = None if self.c is None else self.c.index_select(0, rows)
        return CellState(self.h.index_select(0, rows), c)


class Recurrence(nn.Module):
    """x (B, T, d_in) -> (B, T, D), or (B, T, 2D) when read in both directions."""

    def __init__(
        self,
        cell: Cell,
        d_in: int,
        d_hidden: int,
        *,
        n_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        kind = nn.LSTM if cell == "lstm" else nn.GRU
        self.cell = cell
        self.inner = kind(
            d_in,
            d_hidden,
            n_layers,
            batch_first=True,
            bidirectional=bidirectional,
            dropout=dropout if n_layers > 1 else 0.0,
        )

    def forward(
        self, x: Tensor, mask: Tensor | None = None, state: CellState | None = None
    ) -> tuple[Tensor, CellState]:
        """Outputs, and the state after each row's last real position.

        ``mask`` (B, T) is True at real positions, which come first; others give zeros.
        """
        state = state or self.start(x)
        return self._fused(x, mask, state) if may_fuse() else self._by_steps(x, mask, state)

    def start(self, x: Tensor) -> CellState:
        """Zeros for each row of x."""
        n = self.inner.num_layers * (2 if self.inner.bidirectional else 1)
        h = x.new_zeros(x.shape[0], n, self.inner.hidden_size)
        return CellState(h, h if self.cell == "lstm" else None)

    def _fused(self, x: Tensor, mask: Tensor | None, state: CellState) -> tuple[Tensor, CellState]:
        before = _torch_state(state)
        if mask is None:
            out, after = self.inner(x, before)
        else:
            lengths = mask.sum(dim=1).cpu()
            packed = pack_padded_sequence(
                x, lengths.clamp(min=1), batch_first=True, enforce_sorted=False
            )
            packed, after = self.inner(packed, before)
            out, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])
            if not lengths.all():
                return _unread(~mask.any(dim=1), out, _our_state(after), state)
        return out, _our_state(after)

    def _by_steps(
        self, x: Tensor, mask: Tensor | None, state: CellState
    ) -> tuple[Tensor, CellState]:
        """The same, one position at a time; padding leaves a state as it was."""
        n_directions = 2 if self.inner.bidirectional else 1
        ends: list[tuple[Tensor, Tensor]] = []
        for layer in range(self.inner.num_layers):
            if layer:
                x = nn.functional.dropout(x, self.inner.dropout, self.training)
            outputs = []
            for backward in range(n_directions):
                n = layer * n_directions + backward
                c = state.h if state.c is None else state.c
                out, end = self._one_way(x, mask, (state.h[:, n], c[:, n]), layer, bool(backward))
                outputs.append(out)
                ends.append(end)
            x = torch.cat(outputs, dim=-1)
        h = torch.stack([end[0] for end in ends], dim=1)
        memory = torch.stack([end[1] for end in ends], dim=1)
        return x, CellState(h, memory if self.cell == "lstm" else None)

    def _one_way(
        self,
        x: Tensor,
        mask: Tensor | None,
        state: tuple[Tensor, Tensor],
        layer: int,
        backward: bool,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        suffix = f"_l{layer}" + ("_reverse" if backward else "")
        weights = {n: getattr(self.inner, n + suffix) for n in ("weight_ih", "weight_hh")}
        biases = {n: getattr(self.inner, n + suffix) for n in ("bias_ih", "bias_hh")}
        step = _lstm_step if self.cell == "lstm" else _gru_step
        times = range(x.shape[1])
        outputs: dict[int, Tensor] = {}
        for t in reversed(times) if backward else times:
            from_x = nn.functional.linear(x[:, t], weights["weight_ih"], biases["bias_ih"])
            from_h = nn.functional.linear(state[0], weights["weight_hh"], biases["bias_hh"])
            new = step(from_x, from_h, *state)
            if mask is not None:
                real = mask[:, t, None]
                outputs[t] = new[0] * real
                new = (torch.where(real, new[0], state[0]), torch.where(real, new[1], state[1]))
            else:
                outputs[t] = new[0]
            state = new
        return torch.stack([outputs[t] for t in times], dim=1), state


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


def _lstm_step(from_x: Tensor, from_h: Tensor, _h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    i, f, g, o = (from_x + from_h).chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru_step(from_x: Tensor, from_h: Tensor, h: Tensor, _c: Tensor) -> tuple[Tensor, Tensor]:
    xr, xz, xn = from_x.chunk(3, dim=-1)
    hr, hz, hn = from_h.chunk(3, dim=-1)
    z = (xz + hz).sigmoid()
    h = (1 - z) * (xn + (xr + hr).sigmoid() * hn).tanh() + z * h
    return h, h
