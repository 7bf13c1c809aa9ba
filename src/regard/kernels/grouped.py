"""Products of rows with matrices of their groups: what experts compute, each for its own tokens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.kernels.call import product_type

ALIGNED = 8
"""Numbers of 16 bits that rows of the GPU's kernel must be a multiple of."""


class Groups(NamedTuple):
    """Rows that are sorted by their group."""

    of_rows: Tensor
    """(M,): the group of each row, never falling."""
    counts: Tensor
    """(E,): rows of each group; 0 for one that has none."""


def grouped(groups: Tensor, n_groups: int) -> tuple[Groups, Tensor]:
    """Groups of rows (M,), in any order -> the sorted ones, and the order that sorts them (M,)."""
    order = groups.argsort(stable=True)
    counts = torch.zeros(n_groups, dtype=torch.long, device=groups.device)
    counts.scatter_add_(0, groups, torch.ones_like(groups))
    return Groups(groups[order], counts), order


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
