"""Products of rows with matrices of their groups: what experts compute, each for its own tokens.

Rows are sorted by their group and, when all is computed, put back in their order. Torch cannot know
that an index is a permutation, or that it never falls: its gradients sort again, and add the rows
of a group up one by one. Those written here gather, and multiply.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.kernels.call import product_type

ALIGNED = 8
"""Numbers of 16 bits that rows of the GPU's kernel must be a multiple of."""


class Groups(NamedTuple):
    """Rows that are sorted by their group."""

    of_rows: Tensor
    """(M,): the group of each row, never falling."""
    counts: Tensor
    """(E,): rows of each group; 0 for one that has none."""
    order: Tensor
    """(M,): where each row stood before."""
    ranks: Tensor
    """(M,): where each went, which is the inverse of ``order``."""


def grouped(groups: Tensor, n_groups: int) -> Groups:
    """Groups of rows (M,), in any order, as sorted ones."""
    order, ones = groups.argsort(stable=True), torch.ones_like(groups)
    counts = groups.new_zeros(n_groups).scatter_add_(0, groups, ones)
    places = torch.arange(len(groups), device=groups.device)
    ranks = torch.empty_like(order).scatter_(0, order, places)
    return Groups(groups[order], counts, order, ranks)


def sorted_copies(x: Tensor, k: int, groups: Groups) -> Tensor:
    """Tokens (N, D), of which each has k rows in a row -> all these rows (N·k, D), sorted."""
    copies: Tensor = _SortedCopies.apply(x, k, groups.order, groups.ranks)
    return copies


def unsorted(y: Tensor, groups: Groups) -> Tensor:
    """Sorted rows (M, D) in the order in which they came."""
    rows: Tensor = _Unsorted.apply(y, groups.order, groups.ranks)
    return rows


def group_bias(bias: Tensor, groups: Groups) -> Tensor:
    """Vectors of the groups (E, D) -> that of each row (M, D)."""
    of_rows: Tensor = _GroupBias.apply(bias, groups.of_rows)
    return of_rows


class _SortedCopies(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, k: int, order: Tensor, ranks: Tensor) -> Tensor:
        ctx.k = k
        ctx.save_for_backward(ranks)
        return x[order // k]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (ranks,) = ctx.saved_tensors
        return gradient[ranks].unflatten(0, (-1, ctx.k)).sum(dim=1), None, None, None


class _Unsorted(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, order: Tensor, ranks: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return y[ranks]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (order,) = ctx.saved_tensors
        return gradient[order], None, None


class _GroupBias(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, bias: Tensor, of_rows: Tensor) -> Tensor:
        ctx.n_groups = len(bias)
        ctx.save_for_backward(of_rows)
        return bias[of_rows]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (of_rows,) = ctx.saved_tensors
        totals = by_product if gradient.is_cuda else by_adding
        return totals(gradient, of_rows, ctx.n_groups), None


def by_product(x: Tensor, of_rows: Tensor, n_groups: int) -> Tensor:
    """Rows (M, D) of groups (M,) -> the sum of each group's (E, D), on a GPU: all at once."""
    own = of_rows == torch.arange(n_groups, device=of_rows.device).unsqueeze(1)  # (E, M)
    return own.to(x.dtype) @ x


def by_adding(x: Tensor, of_rows: Tensor, n_groups: int) -> Tensor:
    """The same, row by row."""
    return x.new_zeros(n_groups, x.shape[1]).index_add_(0, of_rows, x)


def grouped_product(x: Tensor, weight: Tensor, groups: Groups) -> Tensor:
    """Sorted rows x (M, d_in), weight (E, d_in, d_out) -> (M, d_out), a product a group.

    On a GPU in bf16 it is one operation for all groups, see ``is_one_kernel``.
    """
    if x.is_cuda and product_type(x) == torch.bfloat16 and are_aligned(weight.shape[1:]):
        return one_kernel(x, weight, groups)
    sizes = groups.counts.tolist()
    rows = zip(x.split(sizes), weight.unbind(), strict=True)
    parts = [one @ matrix for one, matrix in rows if len(one)]
    return torch.cat(parts) if parts else x @ weight[0]


def one_kernel(x: Tensor, weight: Tensor, groups: Groups) -> Tensor:
    """The same by torch's grouped product, in bf16."""
    ends = groups.counts.cumsum(dim=0).to(torch.int32)
    return F.grouped_mm(x.bfloat16(), weight.bfloat16(), offs=ends)


def is_one_kernel(device: torch.device) -> bool:
    """Whether torch's grouped product is one kernel there, and no host asks for sizes of groups.

    It is on Hopper and Blackwell chips for servers; on others torch runs a product a group.
    """
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    return torch.cuda.get_device_capability(device)[0] in (9, 10)


def are_aligned(widths: Iterable[int]) -> bool:
    """Whether that kernel takes matrices of these widths."""
    return all(width % ALIGNED == 0 for width in widths)
