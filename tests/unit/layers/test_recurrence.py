"""Fused recurrences, the readable loop, and the equations."""

import pytest
import torch

from regard.kernels.call import reference_only
from regard.layers.context_cells import ContextCell, ContextGRU, ContextLSTM
from regard.layers.recurrence import BothWays, CellState, Recurrence, begin_orthogonal, turned_round
from regard.models.captioner import Captioner, CaptionerConfig
from regard.models.memory_network import TapeCell
from regard.models.presets import build
from regard.models.recurrent import RecurrentConfig

KINDS = [
    {"cell": "lstm"},
    {"cell": "gru"},
    {"cell": "lstm", "n_layers": 2, "bidirectional": True},
    {"cell": "gru", "n_layers": 3, "bidirectional": True},
    {"cell": "tanh"},
    {"cell": "tanh", "n_layers": 2, "bidirectional": True},
    {"cell": "lstm", "d_out": 2},
    {"cell": "lstm", "n_layers": 2, "bidirectional": True, "d_out": 3},
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


def test_a_projection_narrows_what_the_lstm_tells_and_reads_of_itself(rng):
    cell = ContextLSTM(3, 4, 5, d_out=2).double()
    y, found, s, kept = (
        torch.randn(1, n, generator=rng, dtype=torch.float64) for n in (3, 5, 2, 4)
    )
    gates = cell.words(y) + cell.context(found) + s @ cell.state.weight.T
    i, f, g, o = gates.chunk(4, dim=-1)
    c = f.sigmoid() * kept + i.sigmoid() * g.tanh()
    wanted = (o.sigmoid() * c.tanh()) @ cell.to_out.weight.T
    got = cell(cell.words(y), cell.context(found), s, kept)
    torch.testing.assert_close(got, (wanted, c))
    assert got[0].shape == (1, 2)


def forget_gates(model):
    """The sum of the biases of each LSTM's forget gates; i comes before f everywhere."""
    for module in model.modules():
        if isinstance(module, Recurrence):
            names = [name for name, _ in module.inner.named_parameters()]
            for name in [name for name in names if name.startswith("bias_ih")]:
                both = module.inner.get_parameter(name) + module.inner.get_parameter(
                    name.replace("_ih", "_hh")
                )
                yield both.chunk(4)[1]
        if isinstance(module, ContextLSTM | TapeCell):
            yield module.words.bias.chunk(4)[1]
        if hasattr(module, "from_input"):
            yield module.from_input.bias.chunk(4)[1]


def lstms():
    yield Recurrence("lstm", 3, 4, n_layers=2, bidirectional=True)
    yield Recurrence("lstm", 3, 4, d_out=2)
    yield ContextLSTM(3, 4, 5)
    yield TapeCell(3, 4)
    for decoder in ("tell", "attend"):
        sizes = {"n_target_vocab": 9, "d_model": 8, "image_size": 32}
        yield Captioner(CaptionerConfig(**sizes, encoder="conv", decoder=decoder))


def test_every_fresh_lstm_begins_by_remembering():
    for model in lstms():
        gates = list(forget_gates(model))
        assert gates
        for bias in gates:
            torch.testing.assert_close(bias, torch.ones_like(bias))


def test_states_that_are_compared_as_they_are_begin_as_torchs():
    sizes = {"n_source_vocab": 9, "n_target_vocab": 9, "d_model": 4, "decoder": "plain"}
    plain, attending = (RecurrentConfig(**sizes, score=score) for score in (None, "dot"))
    assert (plain.compares_states, attending.compares_states) == (False, True)
    assert all((bias == 1).all() for bias in forget_gates(build(plain)))
    for recurrence in (build(attending).encoder.recurrence, build(attending).decoder.recurrence):
        weights = recurrence.inner.state_dict().values()
        assert all(weight.abs().max() <= 4**-0.5 for weight in weights)  # d_model^-0.5


def test_other_cells_have_no_forget_gate_to_open():
    torch.manual_seed(3)
    ours = made("gru").inner
    torch.manual_seed(3)
    theirs = torch.nn.GRU(3, 4).double()
    assert torch.equal(ours.bias_ih_l0, theirs.bias_ih_l0)


def test_a_text_turned_round_keeps_its_padding_at_the_end(rng):
    ids = torch.tensor([[5, 6, 7, 0], [8, 0, 0, 0], [0, 0, 0, 0], [1, 2, 3, 4]])
    turned = turned_round(ids, ids != 0)
    assert turned.tolist() == [[7, 6, 5, 0], [8, 0, 0, 0], [0, 0, 0, 0], [4, 3, 2, 1]]
    x = torch.randn(4, 4, 3, generator=rng)
    assert torch.equal(turned_round(x, ids != 0)[0], x[0, [2, 1, 0, 3]])


def test_layers_of_a_state_are_taken_and_put_together():
    h, c = torch.arange(24.0).view(2, 3, 4), torch.arange(30.0).view(2, 3, 5)
    state = CellState(h, c)
    again = state.layers(0, 1).followed_by(state.layers(1, 3))
    assert torch.equal(again.h, h)
    assert torch.equal(again.c, c)
    assert state.layers(1, 2).c.tolist() == c[:, 1:2].tolist()
    assert CellState(h, None).layers(0, 2).followed_by(CellState(h, None)).c is None


def test_two_directions_become_one_state_of_another_width():
    begin = BothWays(2, 3, d_out=4, d_memory=6)
    state = begin(CellState(torch.ones(1, 4, 2), torch.ones(1, 4, 3)))
    assert state.h.shape == (1, 2, 4)
    assert state.c.shape == (1, 2, 6)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "d_out" not in kind])
def test_gates_of_a_translator_begin_orthogonal_and_with_large_inputs(kind):
    torch.manual_seed(4)
    recurrence = Recurrence(d_in=20, d_hidden=30, **kind).double()
    biases = {n: p.clone() for n, p in recurrence.named_parameters() if "bias" in n}
    begin_orthogonal(recurrence)
    for name, weight in recurrence.inner.named_parameters():
        for gate in weight.split(30) if "weight" in name else ():
            if "weight_hh" in name:
                torch.testing.assert_close(gate @ gate.mT, torch.eye(30, dtype=gate.dtype))
            else:
                largest = 2 * (6 / (30 + gate.shape[1])) ** 0.5
                assert 0.9 * largest < gate.abs().max() <= largest
    for name, bias in biases.items():  # forget gates stay open
        assert torch.equal(recurrence.get_parameter(name), bias)


@pytest.mark.parametrize("cell", ["lstm", "gru", "tanh"])
def test_words_in_float32_are_read_where_products_are_narrow(cell):
    recurrence, x = Recurrence(cell, 6, 8, n_layers=2, dropout=0.0), torch.randn(3, 5, 6)
    with torch.autocast("cpu", torch.bfloat16):
        found, _ = recurrence(x, None, recurrence.start(x))
    wanted, _ = recurrence(x, None, recurrence.start(x))
    torch.testing.assert_close(found.float(), wanted, atol=0.05, rtol=0.05)
