"""Fused recurrences, the readable loop, and the equations."""

import pytest
import torch

from regard.kernels.call import reference_only
from regard.layers.recurrence import CellState, ContextCell, ContextGRU, ContextLSTM, Recurrence

KINDS = [
    {"cell": "lstm"},
    {"cell": "gru"},
    {"cell": "lstm", "n_layers": 2, "bidirectional": True},
    {"cell": "gru", "n_layers": 3, "bidirectional": True},
    {"cell": "tanh"},
    {"cell": "tanh", "n_layers": 2, "bidirectional": True},
]


def made(cell, **options):
    return Recurrence(cell, 3, 4, **options).double().eval()


@pytest.mark.parametrize("lengths", [None, (5, 2, 4), (3, 0, 1), (0, 0, 0)], ids=str)
@pytest.mark.parametrize("options", KINDS, ids=str)
def test_step_by_step_is_the_fused_recurrence_with_gradients(rng, options, lengths):
    layer = made(**options)
    x = torch.randn(3, 5, 3, generator=rng, dtype=torch.float64)
    mask = None if lengths is None else torch.arange(5) < torch.tensor(lengths)[:, None]
    before = layer(torch.randn(3, 2, 3, generator=rng, dtype=torch.float64))[1]
    before = CellState(before.h.detach(), None if before.c is None else before.c.detach())

    def outcome():
        given = x.clone().requires_grad_()
        out, state = layer(given, mask, before)
        total = (out**2).sum() + (state.h * 3).sum()
        grads = torch.autograd.grad(total, [given, *layer.parameters()])
        return out, state.h, state.c, grads

    fused = outcome()
    with reference_only():
        torch.testing.assert_close(outcome(), fused)


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_padding_changes_nothing(rng, options):
    layer = made(**options)
    x = torch.randn(1, 3, 3, generator=rng, dtype=torch.float64)
    padded = torch.cat((x, torch.full((1, 2, 3), 9.0)), dim=1)
    out, state = layer(padded, torch.tensor([[True, True, True, False, False]]))
    alone, alone_state = layer(x)
    torch.testing.assert_close(out[:, :3], alone)
    torch.testing.assert_close(state.h, alone_state.h)
    assert (out[:, 3:] == 0).all()


@pytest.mark.parametrize("cell", ["lstm", "gru", "tanh"])
def test_a_state_goes_in_and_comes_out(rng, cell):
    layer = made(cell, n_layers=2)
    x = torch.randn(2, 5, 3, generator=rng, dtype=torch.float64)
    full, end = layer(x)
    for cut in range(1, 5):
        head, state = layer(x[:, :cut])
        tail, last = layer(x[:, cut:], None, state)
        torch.testing.assert_close(torch.cat((head, tail), dim=1), full)
        torch.testing.assert_close(last.h, end.h)


def test_the_gru_with_context_is_the_equations(rng):
    """z, r and the candidate as Bahdanau et al. write them, with the context in all three."""
    cell = ContextGRU(3, 4, 5).double()
    y, c, s = (torch.randn(n, generator=rng, dtype=torch.float64) for n in (3, 5, 4))
    w_z, w_r, w = cell.words.weight.chunk(3)
    b_z, b_r, b = cell.words.bias.chunk(3)
    c_z, c_r, c_n = cell.context.weight.chunk(3)
    u_z, u_r = cell.gates.weight.chunk(2)
    u = cell.candidate.weight
    z = 1 / (1 + torch.exp(-(w_z @ y + b_z + u_z @ s + c_z @ c)))
    r = 1 / (1 + torch.exp(-(w_r @ y + b_r + u_r @ s + c_r @ c)))
    new = torch.tanh(w @ y + b + u @ (r * s) + c_n @ c)
    wanted = (1 - z) * s + z * new
    got = cell(cell.words(y[None, None])[:, 0], cell.context(c[None]), s[None], None)
    torch.testing.assert_close(got[0][0], wanted)


def test_the_lstm_with_context_is_the_equations(rng):
    cell = ContextLSTM(3, 4, 5).double()
    y, c, s, kept = (torch.randn(n, generator=rng, dtype=torch.float64) for n in (3, 5, 4, 4))
    rows = (
        w @ y + b + u @ s + of_c @ c
        for w, b, u, of_c in zip(
            cell.words.weight.chunk(4),
            cell.words.bias.chunk(4),
            cell.state.weight.chunk(4),
            cell.context.weight.chunk(4),
            strict=True,
        )
    )
    i, f, g, o = rows
    new = kept / (1 + torch.exp(-f)) + torch.tanh(g) / (1 + torch.exp(-i))
    read, remembered = cell.words(y[None, None])[:, 0], cell.context(c[None])
    found = cell(read, remembered, s[None], kept[None])
    torch.testing.assert_close(found[1][0], new)
    torch.testing.assert_close(found[0][0], torch.tanh(new) / (1 + torch.exp(-o)))
    assert (cell.start(s[None]) == 0).all()


def test_the_plain_cell_with_context_is_the_equation(rng):
    cell = ContextCell(3, 4, 5).double()
    y, c, s = (torch.randn(n, generator=rng, dtype=torch.float64) for n in (3, 5, 4))
    wanted = torch.tanh(
        cell.words.weight @ y + cell.words.bias + cell.state.weight @ s + cell.context.weight @ c
    )
    found, none = cell(cell.words(y[None, None])[:, 0], cell.context(c[None]), s[None], None)
    torch.testing.assert_close(found[0], wanted)
    assert none is None
