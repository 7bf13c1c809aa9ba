"""LSTM layers with fast-forward connections (Zhou et al. 2016), for stacks of many layers.

What a layer's gates read of its input is passed upwards beside its states, past all that is not
linear:

    f^k_t = W^k [half of f^{k-1}_t; h^{k-1}_t]      (4D,): the four gates, before the state is added
    h^k_t = LSTM(f^k_t, h^k of the step before)

There is no other product between an input and its gates. In a column every other layer reads its
text from the end.

The path of f is linear and has no bound. An update of Adam moves every weight by about its rate,
hence f by the rate times the sum of 3D inputs, in every layer: at rates that suit all else gates
are soon saturated. So the inputs of these products are a tenth of what they are, and their fresh
weights ten times as large (an equalised learning rate, Karras et al. 2018): the same functions,
smaller steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import override

from regard.kernels import call, recurrence
from regard.kernels.call import may_fuse
from regard.kernels.recurrence import StateWeights
from regard.layers.context_cells import ContextLSTM
from regard.layers.dropout import Dropout
from regard.layers.recurrence import (
    CellState,
    Recurrence,
    begin_gates,
    one_layer,
    open_forget_gates,
    turned_round,
)

INPUT_SCALE = 0.1
"""Of what is read by products that f goes through."""


class EqualisedLinear(nn.Linear):
    """A linear layer of inputs times ``INPUT_SCALE`` and fresh weights as many times larger."""

    @override
    def reset_parameters(self) -> None:
        super().reset_parameters()
        with torch.no_grad():
            self.weight.div_(INPUT_SCALE)

    @override
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input * INPUT_SCALE)


def peephole_step(gates: Tensor, peepholes: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Gates i, f, g, o (B, 4D) that also see c (B, D), the output gate the new one -> h and c.

    ``peepholes`` (3, D) are the weights of i, f and o (Gers & Schmidhuber 2000).
    """
    i, f, g, o = gates.chunk(4, dim=-1)
    of_i, of_f, of_o = peepholes
    new = (f + of_f * c).sigmoid() * c + (i + of_i * c).sigmoid() * g.tanh()
    return (o + of_o * new).sigmoid() * new.tanh(), new


class Passed(NamedTuple):
    """What a layer gives to the one above."""

    f: Tensor
    """(B, T, 4D)"""
    h: Tensor
    """(B, T, D)"""

    def turned(self, mask: Tensor) -> Passed:
        """The real positions of each row from the end."""
        return Passed(turned_round(self.f, mask), turned_round(self.h, mask))


class FastForwardLayer(nn.Module):
    """x (B, T, d_in) -> f (B, T, 4D) and h (B, T, D).

    Torch's fused LSTM reads x, which costs the product W x a second time and spares a loop over
    the steps; where launches are recorded, our own reads f. Neither knows peepholes: with them the
    steps are taken one by one.
    """

    def __init__(self, d_in: int, d_hidden: int, *, peepholes: bool = False) -> None:
        super().__init__()
        self.recurrence = Recurrence("lstm", d_in, d_hidden)
        weights = dict(self.recurrence.inner.named_parameters())
        begin_gates(weights["weight_ih_l0"], weights["weight_hh_l0"], gain=1 / INPUT_SCALE)
        # f goes upwards, so what opens the forget gates is added behind it.
        open_forget_gates(weights["bias_hh_l0"], weights["bias_ih_l0"])
        self.peepholes = nn.Parameter(torch.zeros(3, d_hidden)) if peepholes else None

    def forward(self, x: Tensor, state: CellState | None = None) -> tuple[Passed, CellState]:
        """x after ``state`` -> what is passed upwards, and the new state."""
        x = x * INPUT_SCALE
        f = self._product(x, "ih")
        state = state or self.recurrence.start(x)
        if self.peepholes is None and call.is_recorded(x):
            weights = StateWeights(*self._weights("hh"))
            h, last = recurrence.unrolled_lstm(f, weights, (state.h[:, 0], _memory(state)))
            state = one_layer(*last)
        elif self.peepholes is None and may_fuse():
            h, state = self.recurrence(x, None, state)
        else:
            h, state = self._by_steps(f, state)
        return Passed(f, h), state

    def _by_steps(self, f: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        h, c, outputs = state.h[:, 0], _memory(state), []
        for read in f.unbind(dim=1):
            of_state = self._product(h, "hh")
            if self.peepholes is None:
                h, c = self.recurrence.kind.step(read, of_state, h, c)
            else:
                h, c = peephole_step(read + of_state, self.peepholes, c)
            outputs.append(h)
        return torch.stack(outputs, dim=1), one_layer(h, c)

    def _product(self, x: Tensor, name: str) -> Tensor:
        """With the LSTM's matrix for inputs (``ih``) or for states (``hh``)."""
        return F.linear(x, *self._weights(name))

    def _weights(self, name: str) -> tuple[Tensor, Tensor]:
        get = self.recurrence.inner.get_parameter
        return get(f"weight_{name}_l0"), get(f"bias_{name}_l0")


def _memory(state: CellState) -> Tensor:
    """The c (B, D) of one layer."""
    assert state.c is not None, "an LSTM has one"
    return state.c[:, 0]


class FastForwardStack(nn.Module):
    """Layers, each of which reads half of the f below it, and the h after dropout."""

    def __init__(
        self, widths: Sequence[int], d_hidden: int, *, dropout: float = 0.0, peepholes: bool = False
    ) -> None:
        """``widths`` are those of what the layers read, the lowest first."""
        super().__init__()
        self.layers = nn.ModuleList(
            FastForwardLayer(width, d_hidden, peepholes=peepholes) for width in widths
        )
        self.dropout = Dropout(dropout)

    def read_from(self, passed: Passed) -> Tensor:
        """What a layer reads of the one below: (B, T, 3D)."""
        half = passed.f.shape[-1] // 2
        return torch.cat((passed.f[..., :half], self.dropout(passed.h)), dim=-1)

    def upwards(self, passed: Passed, state: CellState) -> tuple[Passed, CellState]:
        """All layers forwards, above a layer that passed this on, after their states."""
        after = []
        for i, layer in enumerate(self.layers):
            passed, now = layer(self.read_from(passed), state.layers(i, i + 1))
            after.append(now)
        return passed, after[0].followed_by(*after[1:]) if after else state

    def interleaved(self, x: Tensor, mask: Tensor, *, from_the_end: bool) -> Passed:
        """A text x (B, S, width) to what the top layer passes on; every other layer reads back.

        The lowest does with ``from_the_end``, otherwise the second. ``mask`` (B, S) is True at
        real positions, which come first.
        """
        passed: Passed | None = None
        for i, layer in enumerate(self.layers):
            read = x if passed is None else self.read_from(passed)
            turned = from_the_end == (i % 2 == 0)
            passed, _ = layer(turned_round(read, mask) if turned else read)
            passed = passed.turned(mask) if turned else passed
        assert passed is not None, "there is at least one layer"
        return passed


class PeepholeContextLSTM(ContextLSTM):
    """An LSTM that reads word, state and context, and whose gates see its memory."""

    def __init__(self, d_word: int, d_hidden: int, d_context: int) -> None:
        super().__init__(d_word, d_hidden, d_context)
        self.peepholes = nn.Parameter(torch.zeros(3, d_hidden))

    @override
    def forward(
        self, read: Tensor, remembered: Tensor, s: Tensor, c: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        assert c is not None, "an LSTM has one"
        return peephole_step(read + remembered + self.state(s), self.peepholes, c)
