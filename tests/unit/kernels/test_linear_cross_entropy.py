"""The last layer and the loss in one, against the plain form."""

import pytest
import torch

from regard.core.errors import ConfigError
from regard.kernels import linear_cross_entropy as module
from regard.kernels.linear_cross_entropy import linear_cross_entropy
from regard.training.losses import cross_entropy

PAD = 0


@pytest.fixture(params=[1, 100, 10**6], ids=["a row at a time", "some rows", "all at once"])
def _pieces(request, monkeypatch):
    monkeypatch.setattr(module, "ON_CPU", request.param)


def inputs(rng, dtype=torch.float64):
    states = torch.randn(13, 7, generator=rng, dtype=dtype, requires_grad=True)
    weight = torch.randn(23, 7, generator=rng, dtype=dtype, requires_grad=True)
    bias = torch.randn(23, generator=rng, dtype=dtype, requires_grad=True)
    targets = torch.randint(1, 23, (13,), generator=rng)
    targets[3] = targets[11] = PAD
    return states, weight, bias, targets


@pytest.mark.usefixtures("_pieces")
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("in_place", [False, True], ids=["plain", "triton, padded vocabulary"])
def test_value_and_gradients_are_those_of_the_plain_loss(
    rng, smoothing, with_bias, in_place, monkeypatch
):
    if in_place:
        pytest.importorskip("triton")
        monkeypatch.setattr(module, "_takes_triton", lambda _states: True)
    on_gpu = in_place and torch.cuda.is_available()  # without one Triton's interpreter takes over
    device = torch.device("cuda" if on_gpu else "cpu")
    *leaves, targets = (x.detach().to(device) for x in inputs(rng, torch.float32))
    states, weight, bias = (x.requires_grad_() for x in leaves)
    bias = bias if with_bias else None
    learned = [x for x in (states, weight, bias) if x is not None]
    one = linear_cross_entropy(states, weight, bias, targets, pad=PAD, label_smoothing=smoothing)
    logits = torch.nn.functional.linear(states, weight, bias)
    other = cross_entropy(logits[None], targets[None], pad=PAD, label_smoothing=smoothing)
    torch.testing.assert_close(one, other)
    torch.testing.assert_close(
        torch.autograd.grad(one / 3, learned), torch.autograd.grad(other / 3, learned)
    )


@pytest.mark.usefixtures("_pieces")
def test_gradients_are_right(rng):
    states, weight, bias, targets = inputs(rng)

    def loss(*learned):
        return linear_cross_entropy(*learned, targets, pad=PAD, label_smoothing=0.1)

    assert torch.autograd.gradcheck(loss, (states, weight, bias))


def test_padding_changes_nothing(rng):
    states, weight, bias, targets = inputs(rng)
    real = targets != PAD
    kept = linear_cross_entropy(
        states[real], weight, bias, targets[real], pad=PAD, label_smoothing=0.1
    )
    all_ = linear_cross_entropy(states, weight, bias, targets, pad=PAD, label_smoothing=0.1)
    torch.testing.assert_close(all_, kept)
    (gradient,) = torch.autograd.grad(all_, states)
    assert not gradient[~real].any()
    assert gradient[real].any(dim=1).all()


def test_no_more_logits_exist_than_asked_for(rng, monkeypatch):
    """The largest tensor that is made, watched by torch itself."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        rows = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor) and out.shape[1:] == (23,) and len(out) != 7:
                self.rows = max(self.rows, out.shape[0])
            return out

    monkeypatch.setattr(module, "ON_CPU", 4 * 23)
    states, weight, bias, targets = inputs(rng)
    with Largest() as seen:
        linear_cross_entropy(states, weight, bias, targets, pad=PAD, label_smoothing=0.1).backward()
    assert seen.rows == 4


def test_it_takes_part_in_autocast(rng):
    states, weight, bias, targets = inputs(rng, torch.float32)
    exact = linear_cross_entropy(states, weight, bias, targets, pad=PAD, label_smoothing=0.1)
    with torch.autocast("cpu", torch.bfloat16):
        narrow = linear_cross_entropy(states, weight, bias, targets, pad=PAD, label_smoothing=0.1)
    assert narrow.dtype == torch.float32
    assert narrow != exact
    torch.testing.assert_close(narrow, exact, rtol=2e-2, atol=0.0)
    (gradient,) = torch.autograd.grad(narrow, weight)
    assert gradient.dtype == torch.float32


def test_nothing_is_kept_for_gradients_that_nobody_can_ask_for(rng, monkeypatch):
    monkeypatch.setattr(module, "_Gradients", None)
    states, weight, bias, targets = inputs(rng)
    with torch.no_grad():
        linear_cross_entropy(states, weight, bias, targets, pad=PAD, label_smoothing=0.1)


def test_second_derivatives_are_refused(rng):
    states, weight, bias, targets = inputs(rng)
    loss = linear_cross_entropy(states, weight, bias, targets, pad=PAD, label_smoothing=0.1)
    with pytest.raises(ConfigError, match="no second derivatives"):
        torch.autograd.grad(loss, states, create_graph=True)
