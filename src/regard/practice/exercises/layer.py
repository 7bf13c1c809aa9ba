"""An encoder layer: attention and a feed-forward network, each with Add & Norm.

The layer of the paper normalises after it adds:

    x = norm_1(x + attention(x))
    x = norm_2(x + feed_forward(x))

    layer_norm(x, gain, bias)                    each vector to mean 0 and variance 1, times gain,
                                                 plus bias                        (…, D)
    feed_forward(x, w_1, b_1, w_2, b_2)          max(0, x w_1 + b_1) w_2 + b_2    (…, D)
    EncoderLayer.forward(x, mask)                the two lines above              (B, T, D)

Attention is given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from typing_extensions import override

from regard.practice.modules import randomised, with_parameters_of
from regard.practice.sheet import Arguments, Sheet

sheet = Sheet()

EPSILON = 1e-5


@sheet.blank(
    "Mean and variance are those of one vector: along the last axis, with keepdim=True.",
    "The variance divides by D (x.var(…, unbiased=False)), and EPSILON goes under the root.",
)
def layer_norm(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """x (…, D), gain and bias (D,) -> (x - mean) / √(variance + EPSILON) · gain + bias."""
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + EPSILON) * gain + bias


@sheet.blank(
    "Two affine maps with a ReLU between them, the same at every position.",
    "torch.relu(x @ w_1 + b_1) @ w_2 + b_2",
)
def feed_forward(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    """x (…, D), w_1 (D, F), b_1 (F,), w_2 (F, D), b_2 (D,) -> (…, D)."""
    return torch.relu(x @ w_1 + b_1) @ w_2 + b_2


class SelfAttention(nn.Module):
    """Multi-head self-attention, with all heads' projections in one matrix."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.to_qkv = nn.Linear(d_model, 3 * d_model)
        self.to_out = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, T, D), mask (B, 1, 1, T) or (1, 1, T, T), True = may look -> (B, T, D)."""
        B, T, D = x.shape
        heads = self.to_qkv(x).view(B, T, 3, self.n_heads, D // self.n_heads)
        q, k, v = heads.permute(2, 0, 3, 1, 4)  # each (B, H, T, Dh)
        scores = q @ k.mT / math.sqrt(D // self.n_heads)
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        return self.to_out((weights @ v).transpose(1, 2).flatten(2))


@sheet.blank(
    "Add what attention returns to x itself, then normalise: that is the x of the second line.",
    "The feed-forward network reads the result of norm_1, and that result is what it is added to.",
    keep=("__init__",),
)
class EncoderLayer(nn.Module):
    """One layer of the encoder, as in the paper: add, then normalise."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int) -> None:
        super().__init__()
        self.attention = SelfAttention(d_model, n_heads)
        self.norm_1 = nn.LayerNorm(d_model)
        self.feed_forward = nn.Sequential(
            nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model)
        )
        self.norm_2 = nn.LayerNorm(d_model)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, T, D), mask for the attention -> (B, T, D)."""
        x = self.norm_1(x + self.attention(x, mask))
        return self.norm_2(x + self.feed_forward(x))


# ------------------------------------------------------------------ examples


@sheet.cases(layer_norm)
def _vectors() -> Iterator[Arguments]:
    yield {"x": torch.tensor([1.0, 3.0]), "gain": torch.ones(2), "bias": torch.zeros(2)}
    scale = {"gain": torch.tensor([1.0, 2.0, 3.0]), "bias": torch.tensor([0.0, 1.0, -1.0])}
    yield {"x": torch.tensor([[0.0, 3.0, 6.0], [1.0, 1.0, 4.0]]), **scale}
    yield {"x": torch.tensor([[0.0, 0.001, 0.002]]), **scale}  # here EPSILON matters
    yield {"x": torch.arange(24.0).view(2, 4, 3).sin(), **scale}


@sheet.cases(feed_forward)
def _networks() -> Iterator[Arguments]:
    one = torch.eye(2)
    zero = torch.zeros(2)
    yield {"x": torch.tensor([[1.0, -1.0]]), "w_1": one, "b_1": zero, "w_2": one, "b_2": zero}
    rng = torch.Generator().manual_seed(1)
    yield {
        "x": torch.randn(2, 3, 4, generator=rng),
        "w_1": torch.randn(4, 6, generator=rng),
        "b_1": torch.randn(6, generator=rng),
        "w_2": torch.randn(6, 4, generator=rng),
        "b_2": torch.randn(4, generator=rng),
    }


@sheet.cases(EncoderLayer)
def _layers() -> Iterator[Arguments]:
    rng = torch.Generator().manual_seed(2)
    seen = torch.ones(1, 1, 1, 1, dtype=torch.bool)
    yield {"x": torch.randn(1, 1, 2, generator=rng), "mask": seen, "n_heads": 1, "d_ff": 3}
    yield {"x": torch.randn(2, 3, 4, generator=rng), "mask": seen, "n_heads": 2, "d_ff": 6}
    causal = torch.ones(3, 3, dtype=torch.bool).tril()[None, None]
    yield {"x": torch.randn(2, 3, 4, generator=rng), "mask": causal, "n_heads": 2, "d_ff": 5}


@sheet.use(EncoderLayer)
def _built(kind: type[nn.Module], x: Tensor, mask: Tensor, n_heads: int, d_ff: int) -> Tensor:
    reference = randomised(EncoderLayer(x.shape[-1], n_heads, d_ff))
    built = with_parameters_of(reference, kind(x.shape[-1], n_heads, d_ff))
    made: Tensor = built(x, mask)
    return made


# ------------------------------------------------------------------ mistakes


def _normed(x: Tensor, deviation: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    return (x - x.mean(dim=-1, keepdim=True)) / deviation * gain + bias


@sheet.mistake(layer_norm, "gain and bias are missing: … · gain + bias")
def _without_gain(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    return layer_norm(x, torch.ones_like(gain), torch.zeros_like(bias))


@sheet.mistake(
    layer_norm,
    "your variance divides by D - 1: torch does so unless told unbiased=False (correction=0)",
)
def _unbiased(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    return _normed(x, torch.sqrt(x.var(dim=-1, keepdim=True) + EPSILON), gain, bias)


@sheet.mistake(layer_norm, "your deviation divides by D - 1, and EPSILON stands outside the root")
def _unbiased_outside(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    return _normed(x, x.std(dim=-1, keepdim=True) + EPSILON, gain, bias)


@sheet.mistake(layer_norm, "EPSILON stands outside the root: add it to the variance")
def _outside(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    return _normed(x, x.std(dim=-1, keepdim=True, unbiased=False) + EPSILON, gain, bias)


@sheet.mistake(layer_norm, "EPSILON is missing under the root: a constant vector divides by 0")
def _no_epsilon(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    return _normed(x, x.std(dim=-1, keepdim=True, unbiased=False), gain, bias)


@sheet.mistake(layer_norm, "you divide by the variance: divide by its square root")
def _by_variance(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    return _normed(x, x.var(dim=-1, keepdim=True, unbiased=False) + EPSILON, gain, bias)


@sheet.mistake(
    layer_norm,
    "one mean and variance for all vectors: each vector has its own, along the last axis",
)
def _over_all(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    return (x - x.mean()) / torch.sqrt(x.var(unbiased=False) + EPSILON) * gain + bias


@sheet.mistake(
    layer_norm, "you normalise along the first axis (a batch norm): take the last, one vector"
)
def _along_the_batch(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    mean, variance = x.mean(dim=0), x.var(dim=0, unbiased=False)
    return (x - mean) / torch.sqrt(variance + EPSILON) * gain + bias


@sheet.mistake(feed_forward, "the ReLU is missing: without it two maps are one")
def _linear(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return (x @ w_1 + b_1) @ w_2 + b_2


@sheet.mistake(feed_forward, "the ReLU stands behind the second map: it stands between the two")
def _relu_last(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return torch.relu((x @ w_1 + b_1) @ w_2 + b_2)


@sheet.mistake(feed_forward, "a ReLU too many: none stands behind the second map")
def _relu_twice(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return torch.relu(feed_forward(x, w_1, b_1, w_2, b_2))


@sheet.mistake(feed_forward, "the biases are missing: + b_1, + b_2")
def _unbiased_maps(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return torch.relu(x @ w_1) @ w_2


@sheet.mistake(feed_forward, "you add x: the residual is the layer's, not the network's")
def _residual(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return x + feed_forward(x, w_1, b_1, w_2, b_2)


@sheet.mistake(EncoderLayer, "both residuals are missing: add x before each norm")
class _NoResiduals(EncoderLayer):
    @override
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.norm_2(self.feed_forward(self.norm_1(self.attention(x, mask))))


@sheet.mistake(EncoderLayer, "the residual around attention is missing: norm_1(x + attention(x))")
class _NoFirstResidual(EncoderLayer):
    @override
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.norm_1(self.attention(x, mask))
        return self.norm_2(x + self.feed_forward(x))


@sheet.mistake(
    EncoderLayer, "the residual around the feed-forward network is missing: norm_2(x + …)"
)
class _NoSecondResidual(EncoderLayer):
    @override
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.norm_1(x + self.attention(x, mask))
        return self.norm_2(self.feed_forward(x))


@sheet.mistake(
    EncoderLayer,
    "you normalise before (x + attention(norm_1(x))): a good layer, but the paper's adds first and "
    "normalises the sum",
)
class _NormFirst(EncoderLayer):
    @override
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x), mask)
        return x + self.feed_forward(self.norm_2(x))


@sheet.mistake(
    EncoderLayer,
    "the norm is in the wrong place: you normalise what is added, x + norm(…); normalise the sum",
)
class _NormOfPart(EncoderLayer):
    @override
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.norm_1(self.attention(x, mask))
        return x + self.norm_2(self.feed_forward(x))


@sheet.mistake(EncoderLayer, "the norms are missing: normalise each sum")
class _NoNorms(EncoderLayer):
    @override
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attention(x, mask)
        return x + self.feed_forward(x)


@sheet.mistake(EncoderLayer, "you use norm_1 twice: the second sum has norm_2")
class _OneNorm(EncoderLayer):
    @override
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.norm_1(x + self.attention(x, mask))
        return self.norm_1(x + self.feed_forward(x))


@sheet.mistake(
    EncoderLayer,
    "the second residual adds the layer's input: add what norm_1 returned, x = norm_1(…) first",
)
class _OldResidual(EncoderLayer):
    @override
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        attended = self.norm_1(x + self.attention(x, mask))
        return self.norm_2(x + self.feed_forward(attended))


@sheet.mistake(EncoderLayer, "the mask is not used: hand it to the attention")
class _NoMask(EncoderLayer):
    @override
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return super().forward(x, torch.ones_like(mask))
