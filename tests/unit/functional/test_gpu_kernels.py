"""Our Triton kernels, run by Triton's interpreter: no GPU, the same arithmetic."""

import importlib.util
import os

import pytest
import torch

from regard.functional.attend import attend
from regard.functional.scores import scaled_dot_factors
from regard.functional.texts import Packing, Side

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1",
    reason="needs Triton and its interpreter, which is on where there is no GPU (conftest.py)",
)

SOURCES, TARGETS = [5, 9, 3, 20, 17, 1, 30], [7, 2, 11, 25, 9, 4, 31]
BLOCK = 64


def side(lengths, n, tail):
    real = torch.tensor(lengths)
    texts = torch.full((n,), tail, dtype=torch.int32)
    texts[: sum(lengths)] = torch.arange(len(lengths)).repeat_interleave(real)
    bounds = torch.tensor([0, *real.cumsum(0).tolist()], dtype=torch.int32)
    return Side(torch.zeros(n, dtype=torch.int64), texts, bounds)


def packing():
    source, target = side(SOURCES, 90, -1), side(TARGETS, 96, -2)
    rows, begin = [], 0
    for end in range(1, len(SOURCES) + 1):
        full = end == len(SOURCES)
        if full or max(sum(SOURCES[begin : end + 1]), sum(TARGETS[begin : end + 1])) > BLOCK:
            s, t = source.bounds, target.bounds
            rows.append([int(s[begin]), int(s[end]), int(t[begin]), int(t[end])])
            begin = end
    assert len(rows) > 1
    spans = torch.tensor([*rows, [0, 0, 0, 0]], dtype=torch.int32)
    return Packing(source, target, spans, BLOCK, longest=31)


def dot(q, k):
    return scaled_dot_factors(q, k).product()


@pytest.mark.parametrize("which", ["among_sources", "among_targets", "across"])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_over_short_texts_is_attention(rng, which, causal):
    from regard.functional.kernels.gpu.short_texts import attend_short_texts

    if causal and which == "across":
        pytest.skip("the future of another side is not hidden")
    texts = getattr(packing(), which)()
    T, S, H, D = len(texts.queries), len(texts.keys), 2, 16
    q = torch.randn(T, H, D, generator=rng, requires_grad=True)
    k, v = (torch.randn(S, H, D, generator=rng, requires_grad=True) for _ in range(2))
    scale = D**-0.5
    found, _ = attend_short_texts(
        q, k, v, texts.queries, texts.keys, texts.spans, scale, causal, texts.block
    )
    mask = texts.dense() & (torch.ones(T, S, dtype=torch.bool).tril() if causal else True)
    heads = [x.transpose(0, 1) for x in (q, k, v)]
    wanted = attend(*heads, score=dot, mask=mask).values.transpose(0, 1)
    torch.testing.assert_close(found, wanted)
    assert not found[texts.queries < 0].any()
    slope = torch.randn(T, H, D, generator=rng)
    torch.testing.assert_close(
        torch.autograd.grad(found, (q, k, v), slope), torch.autograd.grad(wanted, (q, k, v), slope)
    )


def test_it_reads_heads_that_lie_apart(rng):
    """Queries and keys are slices of one wide product, as a joint projection gives them."""
    from regard.functional.kernels.gpu.short_texts import attend_short_texts

    texts = packing().among_targets()
    wide = torch.randn(96, 3, 2, 16, generator=rng)
    parts = wide.unbind(dim=1)
    assert not parts[0].is_contiguous()
    how = (texts.queries, texts.keys, texts.spans, 0.25, True, texts.block)
    apart, _ = attend_short_texts(*parts, *how)
    together, _ = attend_short_texts(*(x.contiguous() for x in parts), *how)
    assert torch.equal(apart, together)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("block", [16, 64])
def test_losses_of_rows_and_their_gradients(rng, smoothing, block, monkeypatch):
    from regard.functional.kernels.gpu import loss_rows

    monkeypatch.setattr(loss_rows, "BLOCK", block)
    logits = torch.randn(9, 37, generator=rng)
    targets = torch.randint(1, 37, (9,), generator=rng)
    targets[2] = 0
    plain = logits.clone().requires_grad_()
    wanted = torch.nn.functional.cross_entropy(
        plain, targets, ignore_index=0, label_smoothing=smoothing, reduction="none"
    )
    (slope,) = torch.autograd.grad(wanted.sum(), plain)
    untouched = logits.clone()
    losses = loss_rows.cross_entropy_rows_(
        untouched, targets, pad=0, smoothing=smoothing, gradient=False
    )
    torch.testing.assert_close(losses, wanted.detach())
    assert torch.equal(untouched, logits)
    loss_rows.cross_entropy_rows_(logits, targets, pad=0, smoothing=smoothing, gradient=True)
    torch.testing.assert_close(logits, slope)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_a_linear_layer_for_few_rows_is_a_linear_layer(rng, relu, with_bias):
    from regard.functional.kernels.gpu import few_rows

    x, weight = torch.randn(2, 24, generator=rng), torch.randn(13, 24, generator=rng)
    bias = torch.randn(13, generator=rng) if with_bias else None
    wanted = torch.nn.functional.linear(x, weight, bias)
    found = few_rows.linear(x, weight, bias, relu=relu)
    torch.testing.assert_close(found, wanted.relu() if relu else wanted)
