"""``regard bench attention``: causal attention beside each of torch's kernels, forced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from regard.bench.contest import BenchRequest, Contender, Work, Workload, compete, grow
from regard.bench.measures import DTYPES
from regard.bench.results import OURS, Bench, BenchRow
from regard.bench.updates import LENGTHS, default, shape
from regard.core.errors import ConfigError
from regard.functional.scores import NamedScore
from regard.kernels.attention import attention
from regard.kernels.call import Call
from regard.kernels.table import TABLE, choose
from regard.tasks.opening import pick_device

USUAL = {"cpu": (512, 2048), "cuda": (8192, 32768)}
"""Lengths where nothing else is asked for."""
TOKENS = {"cpu": 4096, "cuda": 32768}
"""Positions of a batch; a longer text is a batch of its own."""
BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}
ON_CPU = ("flash", "math")
TORCH, FLEX = "torch SDPA", "torch flex_attention"
Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Inputs:
    """B texts of T positions, in H heads of width D."""

    B: int
    H: int
    T: int
    D: int
    dtype: torch.dtype
    device: torch.device

    def tensors(self) -> list[Tensor]:
        """Random q, k, v and the gradient of the output (B, H, T, D)."""
        size = (self.B, self.H, self.T, self.D)
        return [torch.randn(size, device=self.device).to(self.dtype) for _ in range(4)]

    def flops(self, backward: bool) -> float:
        """Half of all pairs are seen; two products forward, five backward, of 2·D FLOPs a pair."""
        products = 7 if backward else 2
        return products * 2 * self.D * self.B * self.H * self.T**2 / 2


def attention_bench(asked: BenchRequest, *, size: str | None = None) -> Bench:
    """Forward alone, and forward and backward; TFLOP/s."""
    device = pick_device(asked.device)
    if "int8" in asked.precisions:
        raise ConfigError("attention is computed in fp32 or bf16, not in int8")
    config = shape(size or default("size", device), 16)
    n_heads, width = config.n_heads, config.d_model // config.n_heads
    who = asked.chosen({TORCH: "torch", FLEX: "torch"})
    lengths = LENGTHS if asked.long else USUAL.get(device.type, USUAL["cpu"])
    plan = asked.plan()
    rows: list[BenchRow] = []
    for backward in (True, False):
        points = []
        for n in lengths:
            what = f"causal attention, {'forward+backward' if backward else 'forward'}, {n:,}"
            task = Workload(what=what, unit="TFLOP/s", unit_size=1e12, flops=1.0, by="length", at=n)
            B = max(1, TOKENS.get(device.type, TOKENS["cpu"]) // n)
            contenders: list[Contender] = []
            for name in asked.precisions:
                inputs = Inputs(B, n_heads, n, width, DTYPES[name], device)
                contenders += _contenders(inputs, name, who, backward)
            points.append((task, contenders))
        if asked.long:
            rows += grow(points, plan)
        else:
            rows += [row for point in points for row in compete(*point, plan)]
    heads = {"n_heads": n_heads, "head_width": width}
    return plan.bench(rows, {"shape": heads, "lengths": list(lengths)})


def why_table() -> list[dict[str, str]]:
    """Which kernel is chosen for which work, and why; the first that fits is taken."""
    return [{"kernel": row.name, "when": row.when, "why": row.why} for row in TABLE]


def _contenders(
    inputs: Inputs, precision: str, who: set[str], backward: bool
) -> Iterator[Contender]:
    if OURS in who:
        start = partial(_start, _ours, inputs, backward)
        yield Contender(OURS, _kernel(inputs), precision, start)
    on_gpu = inputs.device.type == "cuda"
    if TORCH in who:
        for name in BACKENDS if on_gpu else ON_CPU:
            start = partial(_start, partial(_forced, BACKENDS[name]), inputs, backward)
            yield Contender(TORCH, name, precision, start)
    if FLEX in who and (on_gpu or not backward):  # it has no backward on a CPU
        yield Contender(FLEX, "", precision, partial(_flex, inputs, backward))


def _kernel(inputs: Inputs) -> str:
    """The name of the kernel that we would take for such tensors."""
    row = torch.empty(inputs.D, dtype=inputs.dtype, device=inputs.device)
    q = row.expand(inputs.B, inputs.H, inputs.T, inputs.D)
    factors = NamedScore("scaled_dot").factors(q, q)
    assert factors is not None
    return choose(Call(factors, q, None, True)).name


def _ours(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return attention(q, k, v, causal=True)


def _forced(backend: SDPBackend, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    with sdpa_kernel(backend):
        return scaled_dot_product_attention(q, k, v, is_causal=True)


def _flex(inputs: Inputs, backward: bool) -> Work:
    """Compiled, without which it is only a reference."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def causal(_b: Tensor, _h: Tensor, t: Tensor, s: Tensor) -> Tensor:
        return s <= t

    seen = create_block_mask(causal, None, None, inputs.T, inputs.T, device=inputs.device)
    compiled: Any = torch.compile(flex_attention)
    return _start(partial(compiled, block_mask=seen), inputs, backward)


def _start(attend: Attention, inputs: Inputs, backward: bool) -> Work:
    *qkv, grad = inputs.tensors()
    flops = inputs.flops(backward)
    for one in qkv:
        one.requires_grad_(backward)

    def run() -> float:
        with torch.set_grad_enabled(backward):
            out = attend(*qkv)
        if backward:
            out.backward(grad)
            for one in qkv:
                one.grad = None
        return flops

    return Work(run)
