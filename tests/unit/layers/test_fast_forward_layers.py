"""Fast-forward connections against the paper's equations, position by position."""

import pytest
import torch

from regard.kernels.call import reference_only
from regard.layers.fast_forward import (
    INPUT_SCALE,
    EqualisedLinear,
    FastForwardLayer,
    FastForwardStack,
    PeepholeContextLSTM,
)
from regard.layers.recurrence import CellState

D = 4


def lengthened(layer):
    """Peepholes that are not zero, so that they can be missed."""
    with torch.no_grad():
        for peepholes in (x for name, x in layer.named_parameters() if name.endswith("peepholes")):
            peepholes.copy_(torch.randn_like(peepholes))
    return layer.double()


def by_equations(layer, x):
    """x (T, d_in) of one text -> f (T, 4D) and h (T, D)."""
    inner = layer.recurrence.inner
    h, c = torch.zeros(2, D, dtype=torch.float64)
    p_i, p_f, p_o = torch.zeros(3, D) if layer.peepholes is None else layer.peepholes
    fs, hs = [], []
    for row in x:
        fs.append(inner.weight_ih_l0 @ (INPUT_SCALE * row) + inner.bias_ih_l0)
        i, f, g, o = (fs[-1] + inner.weight_hh_l0 @ h + inner.bias_hh_l0).chunk(4)
        new = torch.sigmoid(f + p_f * c) * c + torch.sigmoid(i + p_i * c) * torch.tanh(g)
        h, c = torch.sigmoid(o + p_o * new) * torch.tanh(new), new
        hs.append(h)
    return torch.stack(fs), torch.stack(hs)


@pytest.mark.parametrize("peepholes", [False, True])
def test_a_layer_is_the_equations(rng, peepholes):
    layer = lengthened(FastForwardLayer(3, D, peepholes=peepholes))
    x = torch.randn(2, 5, 3, generator=rng, dtype=torch.float64)
    passed, state = layer(x)
    for row in range(2):
        f, h = by_equations(layer, x[row])
        torch.testing.assert_close(passed.f[row], f)
        torch.testing.assert_close(passed.h[row], h)
        torch.testing.assert_close(state.h[row, 0], h[-1])
    with reference_only():
        torch.testing.assert_close(layer(x)[0], passed)


@pytest.mark.parametrize("peepholes", [False, True])
def test_a_layer_goes_on_from_its_state(rng, peepholes):
    layer = lengthened(FastForwardLayer(3, D, peepholes=peepholes))
    x = torch.randn(2, 5, 3, generator=rng, dtype=torch.float64)
    whole, _ = layer(x)
    for cut in range(1, 5):
        head, state = layer(x[:, :cut])
        tail, _ = layer(x[:, cut:], state)
        torch.testing.assert_close(torch.cat((head.h, tail.h), dim=1), whole.h)


@pytest.mark.parametrize("from_the_end", [False, True])
@pytest.mark.parametrize("peepholes", [False, True])
def test_directions_alternate_and_half_of_f_is_passed_on(rng, from_the_end, peepholes):
    stack = lengthened(FastForwardStack([3, 3 * D, 3 * D], D, peepholes=peepholes)).eval()
    x = torch.randn(3, 5, 3, generator=rng, dtype=torch.float64)
    lengths = (5, 2, 4)
    mask = torch.arange(5) < torch.tensor(lengths)[:, None]
    top = stack.interleaved(x, mask, from_the_end=from_the_end)
    for row, length in enumerate(lengths):
        read, turned = x[row, :length], from_the_end
        for layer in stack.layers:
            f, h = by_equations(layer, read.flip(0) if turned else read)
            f, h = (f.flip(0), h.flip(0)) if turned else (f, h)
            read, turned = torch.cat((f[:, : 2 * D], h), dim=-1), not turned
        torch.testing.assert_close(top.f[row, :length], f)
        torch.testing.assert_close(top.h[row, :length], h)


def test_only_states_are_dropped_on_their_way_up(rng):
    stack = FastForwardStack([3, 3 * D], D, dropout=0.5)
    layer, above = stack.layers
    passed, _ = layer(torch.randn(2, 5, 3, generator=rng))
    read = stack.train().read_from(passed)
    assert torch.equal(read[..., : 2 * D], passed.f[..., : 2 * D])
    dropped = read[..., 2 * D :]
    assert (dropped == 0).any()
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], 2 * passed.h[kept])
    assert above.recurrence.inner.input_size == 3 * D


def test_a_cell_with_peepholes_reads_context_besides(rng):
    cell = lengthened(PeepholeContextLSTM(3, D, 5))
    y, found, s, c = (torch.randn(1, n, generator=rng, dtype=torch.float64) for n in (3, 5, D, D))
    gates = cell.words(y) + cell.context(found) + cell.state(s)
    i, f, g, o = gates.chunk(4, dim=-1)
    p_i, p_f, p_o = cell.peepholes
    new = torch.sigmoid(f + p_f * c) * c + torch.sigmoid(i + p_i * c) * torch.tanh(g)
    wanted = torch.sigmoid(o + p_o * new) * torch.tanh(new)
    got = cell(cell.words(y), cell.context(found), s, c)
    torch.testing.assert_close(got, (wanted, new))


def test_no_layers_above_leave_all_as_it_was(rng):
    stack, layer = FastForwardStack([], D), FastForwardLayer(3, D)
    passed, state = layer(torch.randn(2, 5, 3, generator=rng))
    nothing = CellState(state.h[:, :0], state.c[:, :0])
    assert stack.upwards(passed, nothing) == (passed, nothing)


def test_equalised_weights_begin_as_others_do_and_are_moved_less(rng):
    x = torch.randn(64, 5, generator=rng)
    torch.manual_seed(1)
    plain = torch.nn.Linear(5, 3)
    torch.manual_seed(1)
    equalised = EqualisedLinear(5, 3)
    torch.testing.assert_close(equalised(x), plain(x))
    moved = []
    for layer in (plain, equalised):
        before = layer(x)
        optimiser = torch.optim.Adam([layer.weight], lr=0.01)
        layer(x).sum().backward()
        optimiser.step()
        moved.append((layer(x) - before).norm().item())
    assert moved[1] / moved[0] == pytest.approx(INPUT_SCALE, rel=1e-3)


def test_a_fresh_layer_keeps_the_size_of_f():
    torch.manual_seed(0)
    layer = FastForwardLayer(3 * 64, 64)
    f = layer(torch.randn(8, 5, 3 * 64))[0].f
    assert 0.7 < f.std() < 1.4
