"""REINFORCE: the estimate is right on average, and the baseline moves."""

import pytest
import torch

from regard.layers.draw import Draw, DrawnKeys
from regard.training import reinforce
from regard.training.reinforce import Baseline, accounts, surrogate


@pytest.fixture
def no_entropy(monkeypatch):
    monkeypatch.setattr(reinforce, "ENTROPY", 0.0)


def estimate(scores, rewards, baseline, n):
    """The mean over n draws of the gradient that the surrogate gives to the scores (S,)."""
    leaf = scores.clone().requires_grad_()
    draw = Draw()
    with accounts(torch.nn.ModuleDict({"draw": draw})) as drawn:
        weights = draw(leaf.expand(n, 1, 1, len(scores)), None)
    gains = (weights @ rewards).view(n, 1) - baseline
    (one,) = drawn.values()
    surrogate(one, gains, torch.ones(n, 1, dtype=torch.bool)).backward()
    return -leaf.grad / n


def exact(scores, rewards):
    leaf = scores.clone().requires_grad_()
    (leaf.softmax(dim=0) * rewards).sum().backward()
    return leaf.grad


@pytest.mark.parametrize("baseline", [0.0, -2.0])
def test_the_estimate_converges_to_the_exact_gradient(no_entropy, baseline):
    torch.manual_seed(0)
    scores = torch.tensor([0.3, -0.4, 1.1, 0.0], dtype=torch.float64)
    rewards = torch.tensor([-1.0, -3.0, -2.5, -0.5], dtype=torch.float64)
    wanted = exact(scores, rewards)
    errors = [
        (estimate(scores, rewards, baseline, n) - wanted).norm().item() for n in (100, 200_000)
    ]
    assert errors[1] < 0.02 * wanted.norm()
    assert errors[1] < errors[0] / 5


def test_a_fitting_baseline_makes_the_estimate_steadier(no_entropy):
    torch.manual_seed(0)
    scores = torch.tensor([0.3, -0.4, 1.1, 0.0], dtype=torch.float64)
    rewards = torch.tensor([-21.0, -23.0, -22.5, -20.5], dtype=torch.float64)

    def spread(baseline):
        return torch.stack([estimate(scores, rewards, baseline, 20) for _ in range(200)]).std()

    assert spread(-22.0) < spread(0.0) / 5


def test_padding_is_worth_nothing_and_entropy_something(monkeypatch):
    monkeypatch.setattr(reinforce, "ENTROPY", 0.5)
    drawn = DrawnKeys(torch.tensor([[[-1.0, -2.0]]]), torch.tensor([[[0.3, 0.7]]]))
    gains, real = torch.tensor([[2.0, 5.0]]), torch.tensor([[True, False]])
    assert surrogate([drawn], gains, real).item() == pytest.approx(-(-1.0 * 2.0 + 0.5 * 0.3))


def test_steps_and_all_at_once_are_the_same():
    whole = DrawnKeys(torch.randn(2, 3, 4), torch.rand(2, 3, 4))
    steps = [
        DrawnKeys(whole.log_prob[..., t : t + 1], whole.entropy[..., t : t + 1]) for t in range(4)
    ]
    gains, real = torch.randn(2, 4), torch.rand(2, 4) < 0.8
    torch.testing.assert_close(surrogate(steps, gains, real), surrogate([whole], gains, real))


def test_gains_are_the_reward_to_come_beyond_the_usual():
    baseline = Baseline()
    baseline.mean = -2.0
    log_probs = torch.tensor([[-1.0, -4.0, -9.0], [-2.0, -3.0, -5.0]])
    real = torch.tensor([[True, True, False], [True, True, True]])
    gains = baseline.gains(log_probs, real)
    # to come, less two a token: (-5 + 4, -4 + 2, 0) and (-10 + 6, -8 + 4, -5 + 2)
    torch.testing.assert_close(gains, torch.tensor([[-1.0, -2.0, 0.0], [-4.0, -4.0, -3.0]]))
    assert baseline.mean == pytest.approx(0.9 * -2.0 + 0.1 * -3.0)
    assert baseline.variance == pytest.approx(0.9 + 0.1 * (1 + 4 + 16 + 16 + 9) / 5)


def test_large_gains_are_divided_by_their_usual_size():
    baseline = Baseline()
    baseline.mean, baseline.variance = -2.0, 16.0
    gains = baseline.gains(torch.tensor([[-6.0]]), torch.tensor([[True]]))
    assert gains.tolist() == [[-1.0]]


def test_listening_leaves_no_hook_behind():
    model = torch.nn.ModuleDict({"draw": Draw()})
    with pytest.raises(RuntimeError, match="stop"), accounts(model):
        raise RuntimeError("stop")
    assert not model["draw"].account._forward_hooks
