"""What a kernel is asked to do, and a switch that leaves all work to the readable one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import torch
from torch import Tensor

from regard.functional import masks, positions
from regard.functional.attend import ScoreFn
from regard.functional.masks import Mask, Nearby
from regard.functional.positions import Alibi, Bias
from regard.functional.scores import Factors
from regard.kernels.gpu import HAS_TRITON

_reference_only: ContextVar[bool] = ContextVar("reference_only", default=False)
_without_host: ContextVar[bool] = ContextVar("without_host", default=False)


class Call(NamedTuple):
    """One attention, normalised by softmax, which nobody wants to see inside."""

    factors: Factors
    """q (…, T, D), k (…, S, D) and the scale. Where there is a ``score``: queries, and keys that
    were made ready for it; they may differ in width."""
    v: Tensor
    """(…, S, Dv)"""
    mask: Mask
    """Boolean and broadcastable to (…, T, S), or the texts of a packed row."""
    causal: bool
    near: Nearby | None = None
    """A window by positions; what it hides is hidden besides."""
    bias: Bias = None
    """What is added to the scores."""
    score: ScoreFn | None = None
    """For scores that are no inner product; None where the factors say it all."""

    @property
    def n_queries(self) -> int:
        """T"""
        return self.factors.q.shape[-2]

    @property
    def n_keys(self) -> int:
        """S"""
        return self.factors.k.shape[-2]

    @property
    def on_gpu(self) -> bool:
        """Whether it is to be done on a GPU."""
        return self.factors.q.is_cuda

    @property
    def half(self) -> bool:
        """Whether products are of 16 bits, which most GPU kernels insist on."""
        return product_type(self.factors.q) in (torch.bfloat16, torch.float16)

    @property
    def learned(self) -> bool:
        """Whether gradients will be asked for."""
        return torch.is_grad_enabled() and self.factors.q.requires_grad

    @property
    def by_positions(self) -> bool:
        """Whether inner products of q, k, v (B, H, T or S, width) change by positions alone.

        A mask must then say the same to all queries, as that of padding does; slopes may be added.
        """
        q, k, _ = self.factors
        mask, shape = self.mask, q.shape[:-2]
        padding = isinstance(mask, Tensor) and (mask.dim() < 2 or mask.shape[-2] == 1)
        added = self.bias is not None and not isinstance(self.bias, Alibi)
        fits = q.dim() == 4 and k.shape[:-2] == shape == self.v.shape[:-2]
        return self.score is None and fits and not added and (mask is None or padding)

    @property
    def is_bare(self) -> bool:
        """Whether there is neither a mask nor a bias."""
        return self.mask is None and self.bias is None

    def padding(self) -> Tensor | None:
        """A mask that says the same to all queries, as (B or 1, H or 1, 1, S)."""
        if not isinstance(self.mask, Tensor):
            return None
        shape = (*(1 for _ in range(4 - self.mask.dim())), *self.mask.shape)
        return self.mask.view(shape).expand(-1, -1, -1, self.n_keys)

    def first(self, of: Nearby | Alibi) -> int:
        """Where the first query stands, as a window or a bias sees it."""
        return self.n_keys - self.n_queries if of.first is None else of.first

    def visible(self) -> Tensor | None:
        """All that may be seen, written out; None hides nothing."""
        T, S, device = self.n_queries, self.n_keys, self.factors.q.device
        seen = masks.dense(self.mask)
        if self.near is not None:
            seen = masks.both(seen, self.near.dense(T, S, device=device))
        if isinstance(self.bias, Tensor):
            seen = masks.both(seen, self.bias > -torch.inf)
        return masks.both(seen, masks.causal(T, S, device=device)) if self.causal else seen

    def added(self) -> Tensor | None:
        """The bias, written out."""
        bias = positions.dense_bias(self.bias, self.n_queries, self.n_keys)
        return None if bias is None else bias.to(self.factors.q.dtype)

    def scores(self) -> Tensor:
        """(…, T, S), bias and all."""
        q, k, _ = self.factors
        scores = self.factors.product() if self.score is None else self.score(q, k)
        bias = self.added()
        return scores if bias is None else scores + bias

    def part(self, begin: int, end: int) -> Call:
        """The same for the queries begin … end alone; what is future to all of them is left out.

        With ``causal`` there must be as many keys as queries, or more.
        """
        q, k, scale = self.factors
        n_keys = self.n_keys - self.n_queries + end if self.causal else self.n_keys
        mask, near, bias = masks.dense(self.mask), self.near, self.bias
        if near is not None:
            near = near._replace(first=self.first(near) + begin)
        if isinstance(bias, Alibi):
            bias = bias._replace(first=self.first(bias) + begin)
        elif bias is not None:
            bias = _rows(bias, begin, end, n_keys)
        return Call(
            Factors(q[..., begin:end, :], k[..., :n_keys, :], scale),
            self.v[..., :n_keys, :],
            None if mask is None else _rows(mask, begin, end, n_keys),
            self.causal,
            near,
            bias,
            self.score,
        )


def product_type(x: Tensor) -> torch.dtype:
    """The type in which products with x are computed: that of autocast, where it is on.

    Autocast leaves doubles as they are.
    """
    kind = x.device.type
    autocast = x.dtype != torch.float64 and not x.is_meta and torch.is_autocast_enabled(kind)
    return torch.get_autocast_dtype(kind) if autocast else x.dtype


def _rows(x: Tensor, begin: int, end: int, n_keys: int) -> Tensor:
    """Some rows, and the first columns, of what broadcasts to (…, T, S)."""
    if x.dim() > 1 and x.shape[-2] > 1:
        x = x[..., begin:end, :]
    return x[..., :n_keys] if x.dim() and x.shape[-1] > 1 else x


@contextmanager
def reference_only() -> Iterator[None]:
    """Inside the block the readable kernel does all the work: for counting and for comparing."""
    token = _reference_only.set(True)
    try:
        yield
    finally:
        _reference_only.reset(token)


def may_fuse() -> bool:
    """Whether fused kernels are allowed just now; in compiled code, always."""
    return torch.compiler.is_compiling() or not _reference_only.get()


@contextmanager
def without_host() -> Iterator[None]:
    """Inside the block no kernel may depend on numbers that the host would have to ask for: its
    launches are being recorded, or will be.
    """
    token = _without_host.set(True)
    try:
        yield
    finally:
        _without_host.reset(token)


def may_ask() -> bool:
    """Whether the host may wait for numbers of the device just now."""
    return not _without_host.get()


def is_recorded(x: Tensor) -> bool:
    """Whether launches on x's GPU are being recorded, and kernels of our own may be among them."""
    return x.is_cuda and HAS_TRITON and may_fuse() and not may_ask()
