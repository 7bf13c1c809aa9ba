"""Convolutions over positions: against loops, and causal ones read on where they stopped."""

import pytest
import torch
from torch import nn

from regard.layers.text_convolutions import (
    DilatedBlock,
    GatedConvolution,
    PastInputs,
    TextConvolution,
    WeightNormLinear,
    multiplicative_unit,
    normed_linear,
)

B, T, D, OUT = 2, 11, 5, 3
SHAPES = [(1, 1), (2, 1), (3, 1), (3, 4), (4, 3)]
every_shape = pytest.mark.parametrize(("kernel", "dilation"), SHAPES)


@pytest.fixture
def x(rng):
    return torch.randn(B, T, D, generator=rng, dtype=torch.float64)


def convolution(kernel, dilation):
    torch.manual_seed(1)
    product = nn.Linear(kernel * D, OUT).double()
    return TextConvolution(product, kernel, dilation=dilation)


def looped(convolution, x, before):
    """The sum over the kernel at each position; ``before`` positions of it come first."""
    kernel, dilation = convolution.kernel, convolution.dilation
    weight = convolution.product.weight.unflatten(1, (kernel, D))
    out = convolution.product.bias.expand(B, T, OUT).clone()
    for b in range(B):
        for t in range(T):
            for i in range(kernel):
                s = t - before + i * dilation
                if 0 <= s < T:
                    out[b, t] += weight[:, i] @ x[b, s]
    return out


@every_shape
def test_a_centred_kernel_sees_both_sides(x, kernel, dilation):
    one = convolution(kernel, dilation)
    before = (kernel - 1) * dilation // 2
    torch.testing.assert_close(one.centred(x), looped(one, x, before))


@every_shape
def test_in_a_packed_row_a_kernel_sees_its_own_text_alone(x, kernel, dilation):
    one, lengths = convolution(kernel, dilation), (4, 1, 6)
    texts = torch.arange(3, dtype=torch.int32).repeat_interleave(torch.tensor(lengths))
    row, none = x[:1], x.new_zeros(1, one.n_past, D)
    alone = row.split(lengths, dim=1)
    centred = torch.cat([one.centred(text) for text in alone], dim=1)
    torch.testing.assert_close(one.centred(row, texts), centred)
    causal = torch.cat([one.causal(text, none)[0] for text in alone], dim=1)
    torch.testing.assert_close(one.causal(row, none, texts)[0], causal)
    if kernel > 1:
        assert not torch.allclose(one.centred(row), centred)


@every_shape
def test_a_causal_kernel_sees_the_past_and_reads_on_from_any_cut(x, kernel, dilation):
    one = convolution(kernel, dilation)
    none = x.new_zeros(B, one.n_past, D)
    whole, past = one.causal(x, none)
    torch.testing.assert_close(whole, looped(one, x, one.n_past))
    assert past.shape == none.shape
    for cut in (1, 4, 10):
        first, between = one.causal(x[:, :cut], none)
        assert between.shape == none.shape  # however much was read
        second, after = one.causal(x[:, cut:], between)
        torch.testing.assert_close(torch.cat((first, second), dim=1), whole)
        assert torch.equal(after, past)


def test_rows_of_a_past_are_selected():
    past = PastInputs((torch.arange(6.0).view(3, 2, 1), torch.zeros(3, 0, 4)), length=7)
    chosen = past.select(torch.tensor([2, 2, 0, 1]))
    assert chosen.layers[0].flatten().tolist() == [4, 5, 4, 5, 0, 1, 2, 3]
    assert chosen.layers[1].shape == (4, 0, 4)
    assert chosen.length == 7


def test_the_rows_of_a_normed_weight_have_the_learned_lengths(x):
    layer = WeightNormLinear(D, OUT, std=0.4).double()
    begun = layer.weight
    torch.testing.assert_close(begun, layer.direction)
    with torch.no_grad():
        layer.direction.mul_(torch.tensor([[2.0], [0.3], [7.0]]))
        layer.bias.copy_(torch.tensor([1.0, 2.0, 3.0]))
    torch.testing.assert_close(layer.weight, begun)
    with torch.no_grad():
        layer.length.mul_(3)
    torch.testing.assert_close(layer(x), 3 * x @ begun.T + layer.bias)


@torch.no_grad()
def test_weights_begin_so_that_variances_stay():
    """N(0, √(p/n)), and √(4p/n) before gates; dropout makes the variance 1/p times as large."""
    x = torch.randn(40, 50, 64)
    assert normed_linear(64, 300)(x).std() == pytest.approx(1.0, rel=0.05)
    torch.manual_seed(3)
    dropped = normed_linear(64, 300, keep=0.5)
    assert dropped(nn.functional.dropout(x, 0.5)).std() == pytest.approx(1.0, rel=0.05)
    for dropout in (0.0, 0.4):
        gated = GatedConvolution(64, 300, 3, dropout=dropout).train()
        past = torch.randn(40, 2, 64)
        # A is twice as large as x, its gate about half open: E[A²σ(B)²] is 4 · .35.
        assert gated.causal(x, past)[0].square().mean() == pytest.approx(1.4, rel=0.1)
        found = gated.convolution.product.direction.std().item()
        assert found == pytest.approx((4 * (1 - dropout) / 192) ** 0.5, rel=0.02)


def test_a_gated_convolution_is_one_half_times_the_sigmoid_of_the_other(x):
    gated = GatedConvolution(D, OUT, 3, dropout=0.0).double()
    both = gated.convolution.centred(x)
    expected = both[..., :OUT] * both[..., OUT:].sigmoid()
    mask = torch.ones(B, T, 1, dtype=torch.bool)
    torch.testing.assert_close(gated.centred(x, mask), expected)


@pytest.mark.parametrize("multiplicative", [False, True])
def test_what_a_mask_hides_is_not_there(x, multiplicative):
    gated = GatedConvolution(D, OUT, 3, dropout=0.0).double()
    block = DilatedBlock(2, 3, 4, multiplicative=multiplicative, dropout=0.0).double()
    mask = (torch.arange(T) < 6).view(1, T, 1)
    for layer, read in ((gated, x), (block, x[..., :4])):
        shorter = layer.centred(read[:, :6], mask[:, :6])
        torch.testing.assert_close(layer.centred(read, mask)[:, :6], shorter)


def normed(norm, x):
    centred = x - x.mean()
    scale = (centred.square().mean() + norm.eps).sqrt()
    return centred / scale * norm.weight + norm.bias


def test_a_block_of_relus_is_the_papers_one_position_at_a_time(x):
    block, d = DilatedBlock(2, 3, 4, multiplicative=False, dropout=0.0).double(), 2
    x = x[..., : 2 * d]
    y, _ = block.causal(x, x.new_zeros(B, 8, d))
    weight = block.convolution.product.weight.unflatten(1, (3, d))
    for b in range(B):
        h = [normed(block.norms[0], x[b, t]).relu() for t in range(T)]
        h = [normed(block.norms[1], block.narrow(one)).relu() for one in h]
        for t in range(T):
            seen = [weight[:, i] @ h[t - 8 + 4 * i] for i in range(3) if t - 8 + 4 * i >= 0]
            middle = sum(seen) + block.convolution.product.bias
            out = block.widen(normed(block.norms[2], middle).relu())
            torch.testing.assert_close(y[b, t], x[b, t] + out)


def test_a_multiplicative_unit_is_the_papers_number_by_number(rng):
    h = torch.randn(B, T, D, generator=rng, dtype=torch.float64)
    parts = torch.randn(B, T, 4 * D, generator=rng, dtype=torch.float64)
    out = multiplicative_unit(h, parts)
    for b, t, i in ((0, 0, 0), (1, 10, 4), (0, 7, 2)):
        g1, g2, g3 = (parts[b, t, j * D + i].sigmoid() for j in range(3))
        u = parts[b, t, 3 * D + i].tanh()
        torch.testing.assert_close(out[b, t, i], g1 * (g2 * h[b, t, i] + g3 * u).tanh())
