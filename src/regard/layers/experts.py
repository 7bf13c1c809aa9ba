"""A mixture of experts (Shazeer et al. 2017): many feed-forwards, of which a token is sent to k.

    y = Σ_i G_i(x) E_i(x)
    H_i = (x W_g)_i + N(0, 1) · softplus((x W_n)_i)      noise in training only
    G = softmax(the k largest of H; the others -∞)

Both matrices begin with zeros, so that chance sends the first tokens everywhere. Two losses keep
experts equally busy: CV² of how much they are needed (importance, Σ_x G) and CV² of how many tokens
they can expect (load, Σ_x P(x, i)), where P is the chance that new noise would choose the expert.

Tokens are sorted by their experts, so that each expert is one product over the tokens that it has;
none is ever left out, and a product is spent on no other. Padding is sent nowhere, but where
launches are recorded: nobody knows how much there is then, and what experts say of it is zeroed.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.errors import ConfigError
from regard.kernels.call import may_ask, may_fuse
from regard.kernels.grouped import (
    Groups,
    group_bias,
    grouped,
    grouped_product,
    sorted_copies,
    unsorted,
)
from regard.layers.feed_forward import ACTIVATIONS, GATED
from regard.layers.settings import MORE_THAN_THERE_ARE


class Routing(NamedTuple):
    """Where tokens are sent."""

    experts: Tensor
    """(N, k): the experts of each token, the best first."""
    weights: Tensor
    """(N, k): what each of them counts; they sum to 1."""
    load: Tensor | None
    """(N, E): the chance of each expert to be chosen under new noise; None without noise."""


LEAST_NOISE = 1e-2
"""Added to the deviation of the noise, by which the chance of being chosen is divided."""


class Gate(nn.Module):
    """Noisy top-k gating."""

    def __init__(self, d_model: int, n_experts: int, top_k: int) -> None:
        super().__init__()
        self.top_k = top_k
        self.weight = nn.Parameter(torch.zeros(n_experts, d_model))
        self.noise = nn.Parameter(torch.zeros(n_experts, d_model))

    def forward(self, x: Tensor) -> Routing:
        """x (N, D) -> where each token goes. Computed in float32 or wider, as small differences
        decide."""
        with torch.autocast(x.device.type if x.device.type != "meta" else "cpu", enabled=False):
            x = x.to(torch.promote_types(self.weight.dtype, torch.float32))
            clean = x @ self.weight.to(x.dtype).T
            if not self.training:
                best = clean.topk(self.top_k, dim=-1)
                return Routing(best.indices, best.values.softmax(dim=-1), None)
            spread = F.softplus(x @ self.noise.to(x.dtype).T) + LEAST_NOISE
            noisy = clean + torch.randn_like(clean) * spread
            best = noisy.topk(self.top_k, dim=-1)
            load = chances(clean, noisy, spread, self.top_k)
            return Routing(best.indices, best.values.softmax(dim=-1), load)


def chances(clean: Tensor, noisy: Tensor, spread: Tensor, k: int) -> Tensor:
    """P(x, i) (N, E): that expert i is among the k largest when its own noise is drawn again.

    It must then be above the kth largest of all others: of those that are in, the one that is first
    out; of those that are out, the last that is in. With k = E all are in, and P is 1.
    """
    if k == clean.shape[-1]:
        return torch.ones_like(clean)
    best = noisy.topk(k + 1, dim=-1).values
    last_in, first_out = best[:, k - 1 : k], best[:, k:]
    above = torch.where(noisy > first_out, first_out, last_in)
    return torch.special.ndtr((clean - above) / spread)


def squared_variation(x: Tensor) -> Tensor:
    """CV² of numbers (E,): variance / mean², which is 0 where all are equal -> ()"""
    return x.var(correction=0) / (x.mean().square() + torch.finfo(x.dtype).tiny)


class Balance(NamedTuple):
    """What keeps experts equally busy, times its weight; each ()."""

    importance: Tensor
    load: Tensor


class BalanceAccount(nn.Module):
    """Tells who trains how unequally busy the experts were: watch it with a forward hook."""

    @property
    def watched(self) -> bool:
        """Whether anybody wants to know."""
        return bool(self._forward_hooks)

    def forward(self, balance: Balance) -> Balance:
        """As it is."""
        return balance


class ExpertLinear(nn.Module):
    """A linear map of each expert's own: weight (E, d_in, d_out), bias (E, d_out)."""

    def __init__(self, n_experts: int, d_in: int, d_out: int, *, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_experts, d_in, d_out))
        self.bias = nn.Parameter(torch.zeros(n_experts, d_out)) if bias else None
        for one in () if self.weight.is_meta else self.weight:  # of a million, minutes for nothing
            nn.init.xavier_uniform_(one)

    def forward(self, x: Tensor, groups: Groups) -> Tensor:
        """Rows x (M, d_in), sorted by their experts -> (M, d_out)."""
        y = grouped_product(x, self.weight, groups)
        return y if self.bias is None else y + group_bias(self.bias.to(y.dtype), groups)

    def gathered(self, x: Tensor, experts: Tensor) -> Tensor:
        """x (N, k, d_in), the experts of each row (N, k) -> (N, k, d_out)."""
        y = (x.unsqueeze(-2) @ self.weight[experts]).squeeze(-2)
        return y if self.bias is None else y + self.bias[experts]


class Experts(nn.Module):
    """Feed-forwards to choose from: each as ``FeedForward`` is, with an inner width ``d_expert``.

    ``balance`` is the weight of both losses.
    """

    def __init__(
        self,
        d_model: int,
        d_expert: int,
        *,
        n_experts: int,
        top_k: int,
        bias: bool = True,
        activation: str = "relu",
        balance: float = 0.01,
    ) -> None:
        super().__init__()
        if not 1 <= top_k <= n_experts:
            raise ConfigError(f"top_k={top_k} of {n_experts} experts: {MORE_THAN_THERE_ARE}")
        self.n_experts, self.top_k, self.balance = n_experts, top_k, balance
        self.activation = ACTIVATIONS[activation]
        self.gate = Gate(d_model, n_experts, top_k)
        self.inner = ExpertLinear(n_experts, d_model, d_expert, bias=bias)
        self.beside: ExpertLinear | None = None
        if activation in GATED:
            self.beside = ExpertLinear(n_experts, d_model, d_expert, bias=bias)
        self.outer = ExpertLinear(n_experts, d_expert, d_model, bias=bias)
        self.account = BalanceAccount()

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """x (…, D) -> (…, D); zeros where ``real`` (…) is False, which is padding."""
        if real is None:
            return self._routed(x.flatten(0, -2)).view(x.shape)
        if not (may_fuse() and may_ask()):
            y = self._routed(x.flatten(0, -2), real.flatten()).view(x.shape)
            return y * real.unsqueeze(-1)
        found = self._routed(x[real])
        return found.new_zeros(x.shape).masked_scatter(real.unsqueeze(-1), found)

    def _routed(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """Tokens (N, D) -> (N, D). Those that are not ``real`` (N,) keep no expert busy."""
        routing = self.gate(x)
        if self.account.watched and routing.load is not None:
            weights, load = routing.weights, routing.load
            if real is not None:
                weights, load = (one * real.unsqueeze(-1) for one in (weights, load))
            self.account(self._balance(routing._replace(weights=weights), load))
        of_each = self._sorted(x, routing) if may_fuse() else self._gathered(x, routing)
        return (routing.weights.to(of_each.dtype).unsqueeze(-1) * of_each).sum(dim=1)

    def _sorted(self, x: Tensor, routing: Routing) -> Tensor:
        """What each token's experts say of it, (N, k, D): a product an expert."""
        groups = grouped(routing.experts.flatten(), self.n_experts)
        rows = sorted_copies(x, self.top_k, groups)
        y = self.activation(self.inner(rows, groups))
        y = self.outer(y if self.beside is None else y * self.beside(rows, groups), groups)
        return unsorted(y, groups).unflatten(0, (-1, self.top_k))

    def _gathered(self, x: Tensor, routing: Routing) -> Tensor:
        """The same with a copy of its experts' matrices for each token: to be read and counted."""
        rows, experts = x.unsqueeze(1).expand(-1, self.top_k, -1), routing.experts
        y = self.activation(self.inner.gathered(rows, experts))
        y = y if self.beside is None else y * self.beside.gathered(rows, experts)
        return self.outer.gathered(y, experts)

    def _balance(self, routing: Routing, load: Tensor) -> Balance:
        needed = routing.weights.new_zeros(self.n_experts)
        needed = needed.index_add(0, routing.experts.flatten(), routing.weights.flatten())
        importance, expected = squared_variation(needed), squared_variation(load.sum(dim=0))
        return Balance(self.balance * importance, self.balance * expected)
