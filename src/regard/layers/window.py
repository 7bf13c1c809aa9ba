"""Which keys a query may see, beyond what the caller's mask hides."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor, nn
from typing_extensions import override

from regard.core.errors import ConfigError
from regard.core.registry import Registry
from regard.functional import masks
from regard.functional.masks import Block, Mask, Near, Nearby


class Restriction(NamedTuple):
    """What a window asks of the kernel."""

    mask: Mask
    """Boolean, broadcastable to (B, H, T, S)."""
    causal: bool
    """Whether the future is hidden besides; kept apart because kernels do it for free."""
    prior: Tensor | None = None
    """Multiplies the weights after normalising."""
    near: Nearby | None = None
    """A window by positions, which kernels know better than to write out."""


class Window(nn.Module):
    """The window ``global``: all that the mask allows. The others derive from it."""

    def __init__(self, d_query: int, half_width: int, n_heads: int | None = None) -> None:
        super().__init__()
        if half_width < 1:
            raise ConfigError(f"half_width={half_width}: a local window needs at least 1")
        self.half_width = half_width

    def forward(self, q: Tensor, n_keys: int, mask: Mask, causal: bool, first: int) -> Restriction:
        """q (B, H, T, Dq), whose first query stands at position ``first`` -> what it may see."""
        return Restriction(mask, causal)


class CausalWindow(Window):
    """``causal``: nothing that comes later."""

    @override
    def forward(self, q: Tensor, n_keys: int, mask: Mask, causal: bool, first: int) -> Restriction:
        return Restriction(mask, causal=True)


class MonotonicWindow(Window):
    """``local_m``: D keys to either side of the query's own position (Luong et al. 2015)."""

    @override
    def forward(self, q: Tensor, n_keys: int, mask: Mask, causal: bool, first: int) -> Restriction:
        return Restriction(mask, causal, near=Near(self.half_width, first))


class BlockWindow(Window):
    """``block``: positions are cut into blocks of 2D, and a query sees its own (Liu et al. 2018).

    A query of a decoder sees the block of the source that has the number of its own.
    """

    @override
    def forward(self, q: Tensor, n_keys: int, mask: Mask, causal: bool, first: int) -> Restriction:
        return Restriction(mask, causal, near=Block(2 * self.half_width, first))


class PredictedWindow(Window):
    """``local_p``: D keys to either side of a centre that the query predicts (Luong et al. 2015).

    S in p = S·sigmoid(…) is the number of keys that the query may see by the mask and by
    causality: a sentence's true length, padding not counted.
    """

    def __init__(self, d_query: int, half_width: int, n_heads: int | None = None) -> None:
        super().__init__(d_query, half_width)
        heads = () if n_heads is None else (n_heads,)
        std = 1.0 / math.sqrt(d_query)
        self.weight = nn.Parameter(torch.randn(*heads, d_query, d_query) * std)
        self.v = nn.Parameter(torch.randn(*heads, d_query) * std)

    @override
    def forward(self, q: Tensor, n_keys: int, mask: Mask, causal: bool, first: int) -> Restriction:
        mask = masks.dense(mask)
        if causal:
            mask = masks.both(mask, masks.causal(q.shape[-2], n_keys, device=q.device))
        if mask is None:
            lengths = torch.full((1,), float(n_keys), device=q.device)
        else:
            lengths = mask.expand(*mask.shape[:-1], n_keys).sum(dim=-1)
        # Positions need their digits: bf16 has none left beyond 256.
        exact = q.dtype if q.dtype == torch.float64 else torch.float32
        with _no_autocast(q.device):
            centre = masks.predicted_centre(
                q.to(exact), lengths, weight=self.weight.to(exact), v=self.v.to(exact)
            )
        near, prior = masks.around(centre, n_keys, half_width=self.half_width)
        return Restriction(masks.both(mask, near), causal=False, prior=prior.to(q.dtype))


def _no_autocast(device: torch.device) -> AbstractContextManager[None]:
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()  # a device without storage, on which costs are counted


WINDOWS: Registry[type[Window]] = Registry("window")
WINDOWS.add("global")(Window)
WINDOWS.add("causal")(CausalWindow)
WINDOWS.add("local_m")(MonotonicWindow)
WINDOWS.add("local_p")(PredictedWindow)
WINDOWS.add("block")(BlockWindow)
