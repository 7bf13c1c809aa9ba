"""Our Triton kernels, run by Triton's interpreter: no GPU, the same arithmetic."""

import importlib.util
import os

import pytest
import torch

from regard.functional.attend import attend
from regard.functional.packing import PackedSide, Packing, packed_rows
from regard.functional.scores import scaled_dot_factors
from regard.kernels import sdpa, small_batch
from regard.kernels.call import Call

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
    return PackedSide(torch.zeros(n, dtype=torch.int64), texts, bounds)


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
    from regard.kernels.gpu.packed_attention import attend_packed

    if causal and which == "across":
        pytest.skip("the future of another side is not hidden")
    texts = getattr(packing(), which)()
    T, S, H, D = len(texts.queries), len(texts.keys), 2, 16
    q = torch.randn(T, H, D, generator=rng, requires_grad=True)
    k, v = (torch.randn(S, H, D, generator=rng, requires_grad=True) for _ in range(2))
    scale = D**-0.5
    found, _ = attend_packed(
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
    from regard.kernels.gpu.packed_attention import attend_packed

    texts = packing().among_targets()
    wide = torch.randn(96, 3, 2, 16, generator=rng)
    parts = wide.unbind(dim=1)
    assert not parts[0].is_contiguous()
    how = (texts.queries, texts.keys, texts.spans, 0.25, True, texts.block)
    apart, _ = attend_packed(*parts, *how)
    together, _ = attend_packed(*(x.contiguous() for x in parts), *how)
    assert torch.equal(apart, together)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("at_once", [16, 64])
def test_losses_of_rows_and_their_gradients(rng, smoothing, at_once, monkeypatch):
    from regard.kernels.gpu import cross_entropy

    monkeypatch.setattr(cross_entropy, "BLOCK", 16)
    monkeypatch.setattr(cross_entropy, "AT_ONCE", at_once)  # longer rows are read in pieces
    logits = torch.randn(9, 37, generator=rng)
    targets = torch.randint(1, 37, (9,), generator=rng)
    targets[2] = 0
    plain = logits.clone().requires_grad_()
    wanted = torch.nn.functional.cross_entropy(
        plain, targets, ignore_index=0, label_smoothing=smoothing, reduction="none"
    )
    (slope,) = torch.autograd.grad(wanted.sum(), plain)
    untouched = logits.clone()
    losses = cross_entropy.cross_entropy_rows_(
        untouched, targets, pad=0, smoothing=smoothing, gradient=False
    )
    torch.testing.assert_close(losses, wanted.detach())
    assert torch.equal(untouched, logits)
    cross_entropy.cross_entropy_rows_(logits, targets, pad=0, smoothing=smoothing, gradient=True)
    torch.testing.assert_close(logits, slope)


def few_rows_given(rng, *, D=24, N=13):
    z, weight = torch.randn(3, D, generator=rng), torch.randn(N, D, generator=rng)
    norm = (torch.randn(D, generator=rng), torch.randn(D, generator=rng), 1e-5)
    return z * 3 + 1, weight, torch.randn(N, generator=rng), norm


@pytest.mark.parametrize("then", ["none", "relu", "gelu", "gelu_tanh", "silu", "swiglu"])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("kind", ["none", "layer", "rms"])
def test_few_rows_enter_a_sublayer_as_the_readable_form_says(rng, then, with_bias, kind):
    from regard.kernels.gpu import small_batch as gpu_rows

    z, weight, bias, (w, b, eps) = few_rows_given(rng, N=14)
    norm = None if kind == "none" else (w, b if kind == "layer" else None, eps)
    given = (z, norm, weight, bias if with_bias else None)
    wanted = small_batch.enter(*given, then=then)
    torch.testing.assert_close(gpu_rows.enter(*given, then=then), wanted)
    assert wanted.shape == (3, 7 if then == "swiglu" else 14)


def test_few_rows_write_where_they_are_told_to(rng, monkeypatch):
    from regard.kernels.gpu import small_batch as gpu_rows

    monkeypatch.setattr(gpu_rows, "MANY", 20)  # as many outputs as a vocabulary has
    z, weight, _, norm = few_rows_given(rng, N=77)
    out, wanted = torch.zeros(2, 3, 77, dtype=torch.float64)
    assert gpu_rows.enter(z, norm, weight, None, out=out) is out
    assert small_batch.enter(z, norm, weight, None, out=wanted) is wanted
    torch.testing.assert_close(out, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("position", [0, 1, 127, 128, 139])
@pytest.mark.parametrize("rotary", [True, False])
@pytest.mark.parametrize("n_groups", [1, 2, 6])
def test_the_newest_token_looks_at_its_text_as_the_readable_form_says(
    rng, position, rotary, n_groups
):
    from regard.kernels import steps
    from regard.kernels.gpu import cached_attention

    H, G, D, L, R = 6, n_groups, 16, 140, 2
    past = torch.randn(2, 3, G, L, D, generator=rng)
    qkv = torch.randn(R, (H + 2 * G) * D, generator=rng)
    turns = torch.randn(L, D // 2, dtype=torch.complex64, generator=rng) if rotary else None
    at, other = torch.tensor([position]), past.clone()
    found = cached_attention.attend_own(qkv, past, at, turns, 0.3)
    torch.testing.assert_close(found, steps.attend_own(qkv, other, at, turns, 0.3))
    torch.testing.assert_close(past, other)


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("with_norm", [False, True])
def test_few_rows_leave_a_sublayer_as_the_readable_form_says(rng, with_bias, with_norm):
    from regard.kernels.gpu import small_batch as gpu_rows

    z, _, _, norm = few_rows_given(rng)
    x, weight, bias = (torch.randn(*size, generator=rng) for size in ((3, 37), (24, 37), (24,)))
    given = (x, weight, bias if with_bias else None, z, norm if with_norm else None)
    torch.testing.assert_close(gpu_rows.leave(*given), small_batch.leave(*given))


@pytest.mark.parametrize("n", [1, 6])
def test_few_rows_find_their_best_tokens_while_the_vocabulary_is_read(rng, n):
    from regard.kernels.gpu import small_batch as gpu_rows

    z, tokens, _, norm = few_rows_given(rng, N=101)
    found = gpu_rows.best_tokens(z, norm, tokens, n, n_hidden=2)
    wanted = small_batch.best_tokens(z, norm, tokens, n, n_hidden=2)
    torch.testing.assert_close(found[0], wanted.log_prob)
    assert torch.equal(found[1], wanted.ids)


@pytest.mark.parametrize("S", [1, 13, 30, 64, 100])
def test_a_padded_batch_is_short_texts_too(rng, S):
    lengths = torch.randint(1, S + 1, (7, 1), generator=rng)
    real = torch.arange(S) < lengths
    texts = packed_rows(real)
    alone = torch.eye(7, dtype=torch.bool).repeat_interleave(S, 0).repeat_interleave(S, 1)
    assert torch.equal(texts.dense(), alone & real.flatten()[:, None] & real.flatten())
    q, k, v = torch.randn(3, 7 * S, 2, 16, generator=rng)
    parts = (part.transpose(0, 1).unsqueeze(0) for part in (q, k, v))
    found = sdpa.short_texts(texts_call(*parts, texts))
    parts = (part.unflatten(0, (7, S)).transpose(1, 2) for part in (q, k, v))
    wanted = attend(*parts, score=dot, mask=real[:, None, None]).values * real[:, None, :, None]
    torch.testing.assert_close(found[0], wanted.transpose(0, 1).flatten(1, 2))


def texts_call(q, k, v, texts):
    return Call(scaled_dot_factors(q, k), v, texts, causal=False)


def test_long_texts_are_no_short_ones():
    assert packed_rows(torch.ones(2, 129, dtype=torch.bool)) is None


@pytest.mark.parametrize("T", [5, 64, 65, 80, 131])
def test_attention_over_rows_of_one_length_is_attention(rng, T):
    """Steps of 64 with a smaller tile, a full one or none after them."""
    from regard.kernels.gpu.joined_attention import attend_joined

    qkv = torch.randn(2, T, 3, 2, 16, generator=rng, requires_grad=True)
    found, _ = attend_joined(qkv, 0.25)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    wanted = attend(q, k, v, score=dot).values.transpose(1, 2)
    torch.testing.assert_close(found, wanted)
    slope = torch.randn(found.shape, generator=rng)
    torch.testing.assert_close(
        torch.autograd.grad(found, qkv, slope), torch.autograd.grad(wanted, qkv, slope)
    )


def test_short_texts_take_sums_with_float32_under_autocast(rng):
    """Queries and values to which float32 was added, beside keys of 16 bits: one type for all."""
    texts = packed_rows(torch.ones(3, 5, dtype=torch.bool))
    q, k, v = torch.randn(3, 1, 2, 15, 16, generator=rng)
    wanted = sdpa.short_texts(texts_call(q, k, v, texts))
    with torch.autocast("cpu", torch.float16):  # the interpreter has no bf16
        found = sdpa.short_texts(texts_call(q, k.half(), v, texts))
    assert found.dtype == torch.float16
    torch.testing.assert_close(found.float(), wanted, rtol=0.02, atol=0.02)
