"""Dropout by few random bits: the law of the dear one."""

import pytest
import torch

from regard.layers.dropout import Dropout, TokenDropout


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_share_of_zeros_is_p_and_the_rest_is_scaled(p, dtype):
    torch.manual_seed(0)
    out = Dropout(p)(torch.ones(1001, 1003, dtype=dtype))
    n = out.numel()
    zeros = (out == 0).sum().item()
    assert abs(zeros - p * n) < 5 * (n * p * (1 - p)) ** 0.5  # five deviations
    kept = out[out != 0]
    assert torch.equal(kept, torch.full_like(kept, 1 / (1 - p))) or dtype == torch.float32
    torch.testing.assert_close(kept.float(), torch.full(kept.shape, 1 / (1 - p)), rtol=1e-2, atol=0)
    torch.testing.assert_close(out.double().mean().item(), 1.0, rtol=1e-2, atol=0)


def test_neighbours_are_strangers():
    """Four units share a draw: whether one is dropped says nothing of the others."""
    torch.manual_seed(0)
    dropped = (Dropout(0.5)(torch.ones(400_000)) == 0).double()
    for step in (1, 2, 3, 4):
        together = (dropped[:-step] * dropped[step:]).mean().item()
        assert abs(together - 0.25) < 5 * (0.25 * 0.75 / 400_000) ** 0.5


def test_gradients_go_where_values_went(rng):
    x = torch.randn(7, 9, generator=rng, dtype=torch.float64, requires_grad=True)
    out = Dropout(0.3)(x)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(gradient * x, out)
    assert (gradient == 0).any()


def test_same_seed_same_units_other_seed_others():
    x = torch.ones(50)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(Dropout(0.5)(x))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_it_does_nothing_when_not_training_or_with_a_share_of_zero(rng):
    x = torch.randn(5, generator=rng)
    assert Dropout(0.9).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_words_are_hidden_whole_and_the_others_stay_as_they_are():
    torch.manual_seed(0)
    x = torch.full((100, 200, 4), 3.0, requires_grad=True)
    out = TokenDropout(0.25)(x)
    out.sum().backward()
    hidden = (out != 3.0).all(dim=-1)
    assert torch.equal(out[~hidden], x[~hidden])
    assert torch.equal(out[hidden], torch.tensor([0.5, -0.5, 0.5, -0.5]).expand(hidden.sum(), 4))
    assert torch.equal(x.grad, (~hidden).float().unsqueeze(-1).expand_as(x))
    assert abs(hidden.sum().item() - 5000) < 5 * (20_000 * 0.25 * 0.75) ** 0.5


def test_every_word_is_read_when_not_training_or_with_a_share_of_zero(rng):
    x = torch.randn(5, 2, generator=rng)
    assert TokenDropout(0.9).eval()(x) is x
    assert TokenDropout(0.0)(x) is x


@pytest.mark.parametrize(("p", "least", "most"), [(1e-6, 1.0, 1.0), (0.999999, 0.0, 0.01)])
def test_the_smallest_and_the_greatest_chances_are_no_accident(p, least, most):
    share = (Dropout(p)(torch.ones(10_000)) != 0).double().mean()
    assert least <= share <= most
