"""Experts against loops of the paper's formulas (Shazeer et al. 2017)."""

import math
import statistics

import pytest
import torch
import torch.nn.functional as F

from regard.core.errors import ConfigError
from regard.kernels.call import reference_only, without_host
from regard.kernels.grouped import (
    by_adding,
    by_product,
    group_bias,
    grouped,
    grouped_product,
    one_kernel,
    sorted_copies,
    unsorted,
)
from regard.layers.experts import Experts, Gate, chances
from regard.layers.feed_forward import ACTIVATIONS, FeedForward

D, N = 6, 9


def experts(n=5, k=2, **options):
    """With gates that tell experts apart."""
    torch.manual_seed(1)
    layer = Experts(D, 7, n_experts=n, top_k=k, **options).double()
    with torch.no_grad():
        for name, weight in layer.named_parameters():
            if "gate" in name or name.endswith("bias"):
                weight.normal_()
    return layer.eval()


def tokens(rng, *shape):
    return torch.randn(*shape, D, generator=rng, dtype=torch.float64)


def softplus(x):
    return math.log1p(math.exp(x))


def normal(x):
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


def row_by_loops(gate, x, noise):
    """One token: clean scores, noisy ones and spreads, each a list of E numbers."""
    w, w_noise = gate.weight.tolist(), gate.noise.tolist()
    clean = [sum(a * b for a, b in zip(x, row, strict=True)) for row in w]
    spread = [0.01 + softplus(sum(a * b for a, b in zip(x, row, strict=True))) for row in w_noise]
    return clean, [c + e * s for c, e, s in zip(clean, noise, spread, strict=True)], spread


def kept_by_loops(noisy, k):
    """G of one token: a softmax of the k largest, the rest 0."""
    best = sorted(range(len(noisy)), key=lambda i: -noisy[i])[:k]
    total = sum(math.exp(noisy[i]) for i in best)
    return [math.exp(noisy[i]) / total if i in best else 0.0 for i in range(len(noisy))]


def chance_by_loops(clean, noisy, spread, k, i):
    others = sorted((h for j, h in enumerate(noisy) if j != i), reverse=True)
    return normal((clean[i] - others[k - 1]) / spread[i])


def drawn(gate, x, seed):
    """What the gate draws, told again: the routing and the noise."""
    torch.manual_seed(seed)
    routing = gate(x)
    torch.manual_seed(seed)
    return routing, torch.randn(len(x), len(gate.weight), dtype=x.dtype).tolist()


def dense(weights, indices, n):
    return torch.zeros(len(weights), n, dtype=weights.dtype).scatter(1, indices, weights)


@pytest.mark.parametrize(("n", "k"), [(5, 2), (5, 1), (4, 3), (3, 3), (1, 1)])
@pytest.mark.parametrize("training", [False, True])
def test_gating_is_the_formula_by_loops(rng, n, k, training):
    gate, x = experts(n, k).gate.train(training), tokens(rng, N)
    routing, noise = drawn(gate, x, seed=3)
    found = dense(routing.weights, routing.experts, n)
    for row in range(N):
        given = noise[row] if training else [0.0] * n
        _, noisy, _ = row_by_loops(gate, x[row].tolist(), given)
        assert found[row].tolist() == pytest.approx(kept_by_loops(noisy, k))
    assert (routing.load is not None) == training


@pytest.mark.parametrize(("n", "k"), [(5, 2), (5, 1), (4, 3)])
def test_load_and_importance_are_the_formulas_by_loops(rng, n, k):
    layer, x = experts(n, k, balance=0.3).train(), tokens(rng, N)
    told = []
    layer.account.register_forward_hook(lambda _m, _x, balance: told.append(balance))
    torch.manual_seed(3)
    layer(x)
    _, noise = drawn(layer.gate, x, seed=3)
    importance, load = [0.0] * n, [0.0] * n
    for row in range(N):
        clean, noisy, spread = row_by_loops(layer.gate, x[row].tolist(), noise[row])
        for i, share in enumerate(kept_by_loops(noisy, k)):
            importance[i] += share
            load[i] += chance_by_loops(clean, noisy, spread, k, i)
    (found,) = told
    for value, busy in ((found.importance, importance), (found.load, load)):
        variation = statistics.pvariance(busy) / statistics.fmean(busy) ** 2
        assert value.item() == pytest.approx(0.3 * variation)


def test_where_all_are_in_the_load_is_the_same_for_all(rng):
    x = tokens(rng, N)
    assert (chances(x, x + 1, x.abs(), D) == 1).all()


def test_the_losses_send_gradients_to_both_gates(rng):
    layer = experts(5, 2).train()
    told = []
    layer.account.register_forward_hook(lambda _m, _x, balance: told.append(balance))
    layer(tokens(rng, N))
    told[0].load.backward(retain_graph=True)
    assert layer.gate.weight.grad.abs().sum() > 0
    assert layer.gate.noise.grad.abs().sum() > 0
    layer.zero_grad()
    told[0].importance.backward()
    assert layer.gate.weight.grad.abs().sum() > 0


def as_feed_forward(layer, i, activation="relu"):
    """Expert i as an ordinary feed-forward."""
    one = FeedForward(D, 7, bias=layer.inner.bias is not None, activation=activation).double()
    with torch.no_grad():
        for name in ("inner", "beside", "outer"):
            ours, linear = getattr(layer, name), getattr(one, name)
            if ours is not None:
                linear.weight.copy_(ours.weight[i].T)
                if ours.bias is not None:
                    linear.bias.copy_(ours.bias[i])
    return one


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
@pytest.mark.parametrize("bias", [True, False])
def test_with_all_experts_it_is_a_dense_mixture(rng, activation, bias):
    layer, x = experts(4, 4, activation=activation, bias=bias), tokens(rng, 3, 5)
    shares = F.softmax(x @ layer.gate.weight.T, dim=-1)
    wanted = sum(
        shares[..., i : i + 1] * as_feed_forward(layer, i, activation)(x) for i in range(4)
    )
    torch.testing.assert_close(layer(x), wanted)


def test_with_one_expert_it_is_a_feed_forward(rng):
    layer, x = experts(1, 1), tokens(rng, 3, 5)
    torch.testing.assert_close(layer(x), as_feed_forward(layer, 0)(x))


@pytest.mark.parametrize(("n", "k"), [(5, 2), (5, 1), (3, 3), (40, 3)])
@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_sorted_products_are_the_gathered_ones_with_gradients(rng, n, k, activation):
    layer, x = experts(n, k, activation=activation), tokens(rng, 3, 5)
    real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]]).bool()

    def outcome():
        given = x.clone().requires_grad_()
        y = layer(given, real)
        inputs = [given, *(p for name, p in layer.named_parameters() if "noise" not in name)]
        return y, torch.autograd.grad(y.square().sum(), inputs)

    fast = outcome()
    with reference_only():
        torch.testing.assert_close(outcome(), fast)


def test_padding_is_sent_nowhere(rng):
    layer, x = experts().train(), tokens(rng, 3, 5)
    real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]]).bool()
    seen, told = [], []
    layer.gate.register_forward_hook(lambda _m, given, _y: seen.append(given[0]))
    layer.account.register_forward_hook(lambda _m, _x, balance: told.append(balance))
    torch.manual_seed(3)
    y = layer(x, real)
    assert torch.equal(seen[0], x[real])
    assert (y[~real] == 0).all()
    assert (y[real] != 0).any()
    torch.manual_seed(3)
    again = layer(torch.where(real.unsqueeze(-1), x, 1e6), real)
    assert torch.equal(again, y)
    assert told[0] == told[1]
    assert (layer(x, torch.zeros_like(real)) == 0).all()


def test_without_asking_the_host_padding_counts_as_little(rng, monkeypatch):
    """A recording cannot leave rows out; what they say and whom they keep busy is left out."""
    monkeypatch.setattr(torch, "randn_like", torch.zeros_like)  # noise is drawn row by row
    layer, x = experts().train(), tokens(rng, 3, 5)
    real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]]).bool()

    def outcome():
        told, given = [], x.clone().requires_grad_()
        with layer.account.register_forward_hook(lambda _m, _x, one: told.append(one)):
            y = layer(given, real)
        total = y.square().sum() + 3 * told[0].importance + 2 * told[0].load
        return y, *told[0], torch.autograd.grad(total, [given, *layer.parameters()])

    asking = outcome()
    with without_host():
        found = outcome()
    torch.testing.assert_close(found, asking)
    assert asking[1] > 0


def test_gates_begin_with_zeros_and_chance_sends_tokens_everywhere():
    torch.manual_seed(1)
    gate = Gate(D, 8, 2).train()
    assert not gate.weight.any()
    assert not gate.noise.any()
    sent = gate(torch.randn(400, D)).experts.flatten().bincount(minlength=8)
    assert sent.min() > 50


@pytest.mark.parametrize("counts", [(3, 0, 4, 1), (0, 0, 0, 8), (0, 0, 0, 0)])
def test_grouped_products_are_those_of_each_row(rng, counts):
    weight = torch.randn(4, 8, 16, generator=rng)
    of_rows = torch.repeat_interleave(torch.arange(4), torch.tensor(counts))
    of_rows = of_rows[torch.randperm(len(of_rows), generator=rng)]
    x = torch.randn(len(of_rows), 8, generator=rng)
    groups = grouped(of_rows, 4)
    order = groups.order
    assert groups.counts.tolist() == list(counts)
    wanted = torch.stack([x[i] @ weight[of_rows[i]] for i in order]) if len(x) else x @ weight[0]
    torch.testing.assert_close(grouped_product(x[order], weight, groups), wanted)
    if len(x):
        rough = one_kernel(x[order], weight, groups).float()
        torch.testing.assert_close(rough, wanted, atol=0.1, rtol=0.02)


@pytest.mark.parametrize("n", [6, 0])
def test_rows_are_sorted_and_unsorted_as_by_indices(rng, n):
    k, x = 3, torch.randn(n, 5, generator=rng, dtype=torch.double, requires_grad=True)
    bias = torch.randn(4, 5, generator=rng, dtype=torch.double, requires_grad=True)
    experts_of = torch.randint(0, 4, (n * k,), generator=rng)
    groups = grouped(experts_of, 4)
    factors = torch.randn(n * k, 5, generator=rng, dtype=torch.double)

    def ours():
        rows = sorted_copies(x, k, groups) * factors + group_bias(bias, groups)
        return unsorted(rows, groups)

    def theirs():
        order = experts_of.argsort(stable=True)
        rows = x.repeat_interleave(k, dim=0)[order] * factors + bias[experts_of[order]]
        return rows[order.argsort()]

    found, wanted = ours(), theirs()
    torch.testing.assert_close(found, wanted)
    weigh = torch.randn(n * k, 5, generator=rng, dtype=torch.double)
    torch.testing.assert_close(
        torch.autograd.grad((found * weigh).sum(), (x, bias)),
        torch.autograd.grad((wanted * weigh).sum(), (x, bias)),
    )


def test_sums_of_groups_are_those_row_by_row(rng):
    x, of_rows = torch.randn(9, 5, generator=rng), torch.tensor([0, 0, 2, 2, 2, 3, 3, 3, 3])
    torch.testing.assert_close(by_product(x, of_rows, 5), by_adding(x, of_rows, 5))
    assert by_adding(x, of_rows, 5)[1].eq(0).all()


def test_numbers_are_narrow_but_gates_are_not(rng):
    layer = experts().float()
    x = torch.randn(4, D, generator=rng)
    with torch.autocast("cpu", torch.bfloat16):
        routing = layer.gate(x)
        assert layer(x).dtype == torch.bfloat16
    assert routing.weights.dtype == torch.float32
    assert torch.equal(routing.weights, layer.gate(x).weights)


def test_more_experts_than_there_are_is_refused():
    with pytest.raises(ConfigError, match="top_k=3 of 2 experts: a token cannot be sent to more"):
        Experts(D, 7, n_experts=2, top_k=3)


def test_every_activation_will_do(rng):
    for name in ACTIVATIONS:
        assert experts(activation=name)(tokens(rng, N)).isfinite().all()


def test_gradients_stay_finite_where_hardly_any_noise_is_left():
    gate = Gate(3, 5, 2)
    with torch.no_grad():
        gate.noise.fill_(-40.0)
    routing = gate(torch.ones(4, 3))
    routing.load.sum().backward()
    assert gate.noise.grad.isfinite().all()
    assert gate.weight.grad.isfinite().all()
